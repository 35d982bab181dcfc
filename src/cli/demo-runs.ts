import { DLQ_ID_RANDOM_BYTES, makeDlqId } from "../dlq-id.js";

/** Small, fast, the same everywhere: demo data must not depend on the machine. */
class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** 0 <= n < 1 (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  below(n: number): number {
    return Math.floor(this.next() * n);
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T;
  }

  /** Early items far more often than late ones, as in life. */
  skewed<T>(items: readonly T[]): T {
    return items[Math.floor(items.length * this.next() ** 3)] as T;
  }

  bytes(length: number): Buffer {
    return Buffer.from(Array.from({ length }, () => this.below(256)));
  }
}

interface Failure {
  readonly status: number;
  readonly body: (dice: Dice) => string;
}

interface Workflow {
  readonly path: string;
  readonly weight: number;
  readonly labels: readonly string[];
  readonly flowControlKey: string | null;
  readonly failures: readonly Failure[];
}

const hex = (dice: Dice, length: number): string =>
  dice
    .bytes(Math.ceil(length / 2))
    .toString("hex")
    .slice(0, length);

const TIMEOUT: Failure = {
  status: 504,
  body: (dice) =>
    JSON.stringify({ error: "upstream timed out", afterMs: 30_000 + dice.below(400), trace: hex(dice, 16) }),
};
const CRASH: Failure = {
  status: 500,
  body: (dice) =>
    JSON.stringify({
      error: "TypeError",
      message: `Cannot read properties of undefined (reading '${dice.pick(["id", "email", "items", "total"])}')`,
      stack: [
        `at handle (/srv/app/steps.js:${dice.below(900)}:${dice.below(60)})`,
        "at run (/srv/app/worker.js:88:11)",
      ],
      requestId: hex(dice, 32),
    }),
};
const LIMITED: Failure = {
  status: 429,
  body: (dice) => JSON.stringify({ error: "rate limit exceeded", limit: 100, resetIn: dice.below(60) }),
};
const REFUSED: Failure = { status: 502, body: () => "<html><body><h1>502 Bad Gateway</h1><hr>nginx</body></html>" };
const UNAUTHORISED: Failure = {
  status: 401,
  body: () => JSON.stringify({ error: "invalid_grant", error_description: "The refresh token has expired." }),
};
const INVALID: Failure = {
  status: 422,
  body: (dice) =>
    JSON.stringify({ message: `customer ${dice.below(90_000) + 10_000} has no billing address`, field: "address" }),
};

const WORKFLOWS: readonly Workflow[] = [
  {
    path: "order/fulfil",
    weight: 30,
    labels: ["checkout", "express", "preorder", "wholesale"],
    flowControlKey: "warehouse",
    failures: [TIMEOUT, CRASH, INVALID],
  },
  {
    path: "payment/capture",
    weight: 22,
    labels: ["card", "invoice", "wallet"],
    flowControlKey: "payments",
    failures: [LIMITED, REFUSED, TIMEOUT],
  },
  {
    path: "email/welcome",
    weight: 15,
    labels: ["signup", "invite"],
    flowControlKey: "mail",
    failures: [LIMITED, REFUSED],
  },
  { path: "report/monthly", weight: 9, labels: ["finance"], flowControlKey: null, failures: [TIMEOUT, CRASH] },
  {
    path: "image/resize",
    weight: 9,
    labels: ["avatar", "product", "banner"],
    flowControlKey: "images",
    failures: [CRASH, REFUSED],
  },
  {
    path: "crm/sync",
    weight: 8,
    labels: ["nightly", "manual"],
    flowControlKey: "crm",
    failures: [UNAUTHORISED, LIMITED],
  },
  {
    path: "subscription/renew",
    weight: 5,
    labels: ["monthly", "yearly"],
    flowControlKey: "payments",
    failures: [INVALID, TIMEOUT],
  },
  { path: "gdpr/erase", weight: 2, labels: [], flowControlKey: null, failures: [CRASH, INVALID] },
];
const TOTAL_WEIGHT = WORKFLOWS.reduce((sum, workflow) => sum + workflow.weight, 0);

const CALLERS = Array.from({ length: 24 }, (_, i) => `198.51.100.${i * 9 + 3}`);
const STATES = ["CALLBACK_SUCCESS", "CALLBACK_FAIL", "CALLBACK_INPROGRESS", "CALLBACK_CANCELED"] as const;
const AGENTS = ["workflow-engine/2.4", "workflow-engine/2.3", "workflow-engine/3.0-rc1"];

interface Burst {
  readonly workflow: Workflow;
  readonly failure: Failure;
  readonly start: number;
  readonly length: number;
}

/** Demo runs spread over so long. */
export const DEMO_SPAN_MS = 14 * 24 * 3_600_000;

/** Believable failed runs, oldest first: a steady trickle and bursts where a deploy or a supplier broke. */
export function* demoRuns(count: number, seed: number, until: number): Generator<Record<string, unknown>> {
  const dice = new Dice(seed);
  const bursts = Array.from({ length: 9 }, () => makeBurst(dice));
  // Each failure's time and the burst it belongs to, drawn first: then they can come in order.
  const times = new Float64Array(count);
  for (let i = 0; i < count; i++) times[i] = drawTime(dice, bursts);
  times.sort();
  for (const time of times) {
    const burst = bursts.find(({ start, length }) => time >= start && time < start + length && dice.next() < 0.9);
    yield makeRun(dice, Math.floor(until - DEMO_SPAN_MS + time), burst);
  }
}

function makeBurst(dice: Dice): Burst {
  const workflow = drawWorkflow(dice);
  const length = (10 + dice.below(170)) * 60_000;
  return { workflow, failure: dice.pick(workflow.failures), start: dice.next() * (DEMO_SPAN_MS - length), length };
}

function drawTime(dice: Dice, bursts: readonly Burst[]): number {
  if (dice.next() < 0.4) return dice.next() * DEMO_SPAN_MS;
  const { start, length } = dice.skewed(bursts);
  return start + length * dice.next() ** 2;
}

function drawWorkflow(dice: Dice): Workflow {
  let rest = dice.next() * TOTAL_WEIGHT;
  for (const workflow of WORKFLOWS) {
    rest -= workflow.weight;
    if (rest < 0) return workflow;
  }
  return WORKFLOWS[0] as Workflow;
}

function makeRun(dice: Dice, createdAt: number, burst: Burst | undefined): Record<string, unknown> {
  const workflow = burst?.workflow ?? drawWorkflow(dice);
  const failure = burst?.failure ?? dice.skewed(workflow.failures);
  const workflowUrl = `https://shop.example/api/workflows/${workflow.path}`;
  const workflowRunId = `wfr_${hex(dice, 20)}`;
  const state = dice.next() < 0.7 ? dice.skewed(STATES) : undefined;
  const label = workflow.labels.length > 0 && dice.next() < 0.85 ? dice.skewed(workflow.labels) : undefined;
  return {
    dlqId: makeDlqId(createdAt, dice.bytes(DLQ_ID_RANDOM_BYTES)),
    createdAt,
    workflowUrl,
    workflowRunId,
    workflowCreatedAt: createdAt - 500 - dice.below(600_000),
    url: dice.next() < 0.8 ? workflowUrl : `https://api.supplier.example/v1/${workflow.path.split("/")[0]}`,
    method: "POST",
    header: {
      "content-type": ["application/json"],
      "user-agent": [dice.skewed(AGENTS)],
      "upstash-workflow-runid": [workflowRunId],
      traceparent: [`00-${hex(dice, 32)}-${hex(dice, 16)}-01`],
    },
    ...makeBody(dice),
    maxRetries: 3,
    failureCallback: state === undefined ? undefined : workflowUrl,
    callerIP: dice.skewed(CALLERS),
    label,
    flowControlKey: workflow.flowControlKey ?? undefined,
    failureFunctionState: state,
    responseStatus: failure.status,
    responseHeader: {
      "content-type": [failure === REFUSED ? "text/html" : "application/json"],
      server: ["nginx"],
    },
    responseBody: failure.body(dice),
  };
}

const ITEMS = ["tea pot", "notebook", "umbrella", "Füllfederhalter", "desk lamp", "湯呑み", "rain coat", "door mat"];

/** Mostly an order in JSON; sometimes binary, rarely large. */
function makeBody(dice: Dice): { body?: string; bodyBase64?: string } {
  const kind = dice.next();
  if (kind < 0.01)
    return { bodyBase64: Buffer.concat([Buffer.of(0xff, 0xd8, 0xff, 0xe0), dice.bytes(400)]).toString("base64") };
  if (kind < 0.0102)
    return { body: JSON.stringify({ rows: Array.from({ length: 1_000 + dice.below(6_000) }, () => makeItem(dice)) }) };
  const items = Array.from({ length: 1 + dice.below(4) }, () => makeItem(dice));
  return { body: JSON.stringify({ orderId: dice.below(10_000_000), customer: hex(dice, 24), currency: "EUR", items }) };
}

function makeItem(dice: Dice): Record<string, unknown> {
  return { sku: hex(dice, 8), name: dice.pick(ITEMS), quantity: 1 + dice.below(5), cents: dice.below(20_000) };
}
