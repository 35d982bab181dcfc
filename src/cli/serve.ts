import { randomBytes } from "node:crypto";
import { createRequire } from "node:module";
import { Server as NetServer } from "node:net";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { FastifyInstance } from "fastify";
import pc from "picocolors";
import type { Config } from "../config.js";
import { openStore, sqlitePath } from "../engines/open.js";
import { DloError } from "../errors.js";
import { buildServer } from "../http/server.js";
import type { Store } from "../store.js";
import { DEFAULT_TENANT } from "../token.js";
import { ensureToken, hasUsableToken } from "./bootstrap.js";
import { fillStore } from "./demo.js";
import { makeLog } from "./log.js";

/** Store time that one request may take. */
export const BUDGET_MS = 2_000;
/** Clients with an idle connection get so long to send once more and be told that it closes. */
const GRACE_MS = 1_000;
const STOP_MS = 9_000;
const DEMO_RUNS = 3_000;

export interface Running {
  readonly url: string;
  /** Settles with the exit code: 0 after a stop on request, 1 when the store failed beyond trust. */
  readonly ended: Promise<number>;
  readonly stop: () => void;
}

/** The composition root: store, server, signals. Resolves when the service is listening. */
export async function startService(config: Config): Promise<Running> {
  const { logger, writeLine } = makeLog(config.logLevel, process.stderr.isTTY === true);
  let end: (code: number) => void = () => undefined;
  const ended = new Promise<number>((resolve) => {
    end = resolve;
  });
  const store = openStore(config.store, {
    now: Date.now,
    budgetMs: BUDGET_MS,
    onFatal: (reason) => {
      logger.fatal({ reason }, "the store failed; stopping");
      end(1);
    },
  });
  const app = await buildServer({
    store,
    logger,
    writeLine,
    now: Date.now,
    randomBytes,
    bootstrapSecret: config.token,
    publicMetrics: config.publicMetrics,
    maxRecordBytes: config.maxRecordBytes,
    version: programVersion(),
  });
  const url = await listen(app, config);
  logger.info({ url }, "listening");
  let stopping = false;
  const stop = (): void => {
    // A terminal's Ctrl-C and a supervisor's signal may both come.
    if (!stopping) void stopService(app, store).then(() => end(0));
    stopping = true;
  };
  return { url, ended, stop };
}

/** What a service's first start does to its store, before any process serves: schema, token, demo runs. */
export async function prepareStore(config: Config, demo: boolean): Promise<void> {
  const onFatal = (reason: string): void => {
    throw new DloError("store_unavailable", `The store failed: ${reason}.`);
  };
  const store = openStore(config.store, { now: Date.now, budgetMs: BUDGET_MS, onFatal });
  try {
    if (config.token === null) await prepareToken(store, dataDirOf(config));
    if (demo && (await store.count(null)) === 0) {
      await fillStore(store, { tenant: DEFAULT_TENANT, count: DEMO_RUNS, seed: 1, until: Date.now() });
    }
  } finally {
    await store.close();
  }
}

async function prepareToken(store: Store, dataDir: string): Promise<void> {
  const made = await ensureToken(store, dataDir, Date.now());
  if (made !== null) process.stderr.write(`Made a token for the tenant ${DEFAULT_TENANT}: it is in ${made}\n`);
  else if (!(await hasUsableToken(store, dataDir)))
    process.stderr.write(`${join(dataDir, "token")} holds no usable token; ${NEW_TOKEN}\n`);
}

const NEW_TOKEN = "make one with: dlo token create --scope read,ingest,manage";

function dataDirOf(config: Config): string {
  return dirname(sqlitePath(config.store));
}

async function listen(app: FastifyInstance, { host, port }: Config): Promise<string> {
  try {
    await app.listen({ host, port });
  } catch (error) {
    const reason = (error as Error).message;
    throw new DloError("invalid_config", `Cannot listen on ${host}:${port}: ${reason}.`, { cause: error });
  }
  const address = app.server.address();
  const bound = typeof address === "object" && address !== null ? address.port : port;
  return `http://${host.includes(":") ? `[${host}]` : host}:${bound}`;
}

/** People at a terminal are told what to do next; programs read the one line on stdout. */
export function greet(url: string, config: Config): void {
  const tokenFile = config.token === null ? join(dataDirOf(config), "token") : null;
  const token = tokenFile === null ? "$DLO_TOKEN" : `$(cat ${tokenFile})`;
  process.stderr.write(
    `\n  ${pc.bold("Dead Letter Office")} is at ${pc.cyan(url)}\n` +
      `  API      ${url}/docs\n` +
      `  token    ${tokenFile ?? "as in DLO_TOKEN"}\n` +
      `  try      curl -H "Authorization: Bearer ${token}" "${url}/v2/workflows/dlq?count=1"\n\n`,
  );
}

/** Not ready at once, running requests finish, nobody is cut off. */
async function stopService(app: FastifyInstance, store: Store): Promise<void> {
  app.stopping.now = true;
  const { server } = app;
  // The HTTP server's own close would cut idle connections at once, perhaps under a request already on its way.
  const closed = new Promise((resolve) => NetServer.prototype.close.call(server, resolve));
  const deadline = Date.now() + STOP_MS;
  await Promise.race([closed, sleep(GRACE_MS)]);
  while (Date.now() < deadline) {
    server.closeIdleConnections();
    if ((await Promise.race([closed.then(() => "closed"), sleep(50)])) === "closed") break;
  }
  server.closeAllConnections();
  await app.close();
  await store.close();
}

export function programVersion(): string {
  const require = createRequire(import.meta.url);
  return (require("../../package.json") as { version: string }).version;
}
