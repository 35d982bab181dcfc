import { PrometheusExporter, PrometheusSerializer } from "@opentelemetry/exporter-prometheus";
import { MeterProvider } from "@opentelemetry/sdk-metrics";
import type { Store } from "../store.js";

const SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** What operators watch, in Prometheus text. */
export class Metrics {
  readonly #exporter = new PrometheusExporter({ preventServerStart: true });
  readonly #serializer = new PrometheusSerializer("dlo", false, undefined, true, true);
  readonly #meter = new MeterProvider({ readers: [this.#exporter] }).getMeter("dlo");
  readonly #requests = this.#histogram("http_request_duration_seconds", "Requests by route, method and status.");
  readonly #storeCalls = this.#histogram("store_duration_seconds", "Time that calls of the store took.");
  readonly #authFailures = this.#meter.createCounter("auth_failures", { description: "Missing or wrong tokens." });

  #histogram(name: string, description: string) {
    return this.#meter.createHistogram(name, { description, advice: { explicitBucketBoundaries: SECONDS } });
  }

  request(route: string, method: string, status: number, seconds: number): void {
    this.#requests.record(seconds, { route, method, status });
  }

  authFailure(): void {
    this.#authFailures.add(1);
  }

  /** The same store, its reads and writes timed. */
  timed(store: Store): Store {
    const record = this.#storeCalls;
    return new Proxy(store, {
      get(target, name: keyof Store) {
        const method = target[name] as (...args: unknown[]) => Promise<unknown>;
        if (!TIMED.has(name)) return method.bind(target);
        return async (...args: unknown[]) => {
          const start = performance.now();
          try {
            return await method.apply(target, args);
          } finally {
            record.record((performance.now() - start) / 1000, { call: name });
          }
        };
      },
    });
  }

  /** `runs` is what the asking token may know: how many records its own tenant has. */
  async render(runs: number): Promise<string> {
    const { resourceMetrics } = await this.#exporter.collect();
    return (
      `${this.#serializer.serialize(resourceMetrics)}# HELP dlo_records Failed runs stored, of the asking tenant.\n` +
      `# TYPE dlo_records gauge\ndlo_records ${runs}\n`
    );
  }
}

const TIMED: ReadonlySet<string> = new Set<keyof Store>(["page", "get", "put", "deleteIds", "deleteMatching"]);
