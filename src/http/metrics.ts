import type { Store } from "../store.js";

/** Upper bounds of the histograms' buckets, in seconds. */
const BOUNDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

class Series {
  readonly counts = new Float64Array(BOUNDS.length + 1);
  sum = 0;

  observe(seconds: number): void {
    let bucket = 0;
    while (bucket < BOUNDS.length && seconds > (BOUNDS[bucket] as number)) bucket++;
    (this.counts[bucket] as number)++;
    this.sum += seconds;
  }
}

/**
 * What operators watch, as Prometheus text. By hand, because it stands on the path of every request: a metrics
 * library's two measurements cost more there than the routing did (docs/architecture.md has the figures).
 */
class Histogram {
  readonly #series = new Map<string, Series>();

  constructor(
    readonly name: string,
    readonly help: string,
  ) {}

  /** The series of these labels, given as they will be printed: `call="page"`. */
  series(labels: string): Series {
    let series = this.#series.get(labels);
    if (series === undefined) {
      series = new Series();
      this.#series.set(labels, series);
    }
    return series;
  }

  render(): string {
    let text = `# HELP ${this.name} ${this.help}\n# TYPE ${this.name} histogram\n`;
    for (const [labels, { counts, sum }] of this.#series) {
      let total = 0;
      counts.forEach((count, bucket) => {
        total += count;
        text += `${this.name}_bucket{${labels},le="${BOUNDS[bucket] ?? "+Inf"}"} ${total}\n`;
      });
      text += `${this.name}_sum{${labels}} ${sum}\n${this.name}_count{${labels}} ${total}\n`;
    }
    return text;
  }
}

type StoreCall = Extract<keyof Store, "page" | "get" | "put" | "deleteIds" | "deleteMatching">;

export class Metrics {
  readonly #requests = new Histogram("dlo_http_request_duration_seconds", "Requests by route, method and status.");
  readonly #storeCalls = new Histogram("dlo_store_duration_seconds", "Calls of the store.");
  readonly #byCall: Record<StoreCall, Series> = {
    page: this.#storeCalls.series('call="page"'),
    get: this.#storeCalls.series('call="get"'),
    put: this.#storeCalls.series('call="put"'),
    deleteIds: this.#storeCalls.series('call="deleteIds"'),
    deleteMatching: this.#storeCalls.series('call="deleteMatching"'),
  };
  #authFailures = 0;
  /** By route, then by status and method: cheaper to find than by a text of all three. */
  readonly #byRoute = new Map<string, Map<string, Series>[]>();

  request(route: string, method: string, status: number, seconds: number): void {
    let byStatus = this.#byRoute.get(route);
    if (byStatus === undefined) {
      byStatus = [];
      this.#byRoute.set(route, byStatus);
    }
    byStatus[status] ??= new Map();
    let series = byStatus[status].get(method);
    if (series === undefined) {
      series = this.#requests.series(`route="${route}",method="${method}",status="${status}"`);
      byStatus[status].set(method, series);
    }
    series.observe(seconds);
  }

  authFailure(): void {
    this.#authFailures++;
  }

  /** A call of the store that began at `start` (performance.now) is over. */
  storeCall(call: StoreCall, start: number): void {
    this.#byCall[call].observe((performance.now() - start) / 1000);
  }

  /** `runs` is what the asking token may know: how many records its own tenant has. */
  render(runs: number): string {
    return (
      this.#requests.render() +
      this.#storeCalls.render() +
      single("dlo_auth_failures_total", "counter", "Requests with a missing or wrong token.", this.#authFailures) +
      single("dlo_records", "gauge", "Failed runs stored, of the tenant that asks.", runs) +
      single("dlo_process_resident_bytes", "gauge", "Resident memory of the process.", process.memoryUsage.rss()) +
      single("dlo_process_uptime_seconds", "gauge", "Time since the process started.", Math.round(process.uptime()))
    );
  }
}

function single(name: string, type: string, help: string, value: number): string {
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${name} ${value}\n`;
}
