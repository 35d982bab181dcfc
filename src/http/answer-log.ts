import type { FastifyRequest } from "fastify";
import type { Metrics } from "./metrics.js";

/** Marks where a request belongs and when it began; `recordAnswer` writes it down. */
export function beginRequest(request: FastifyRequest, route: string): void {
  request.route = route;
  request.startedAt = performance.now();
}

export type Recorder = (id: string, method: string, route: string, status: number, ms: number) => void;

/** One line and one measurement an answer. Ids, codes and times only: queries, bodies and tokens stay out of logs. */
export function makeRecorder(metrics: Metrics, writeLine: (line: string) => void): Recorder {
  return (id, method, route, status, ms) => {
    metrics.request(route, method, status, ms / 1000);
    writeLine(
      `{"level":30,"time":${Date.now()},"reqId":"${id}","method":"${method}","route":"${route}","status":${status},"ms":${Math.round(ms * 100) / 100},"msg":"request"}\n`,
    );
  };
}
