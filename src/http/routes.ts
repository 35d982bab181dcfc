import type { ErrorCode } from "../errors.js";
import type { Scope } from "../token.js";
import * as handlers from "./handlers.js";
import * as api from "./openapi.js";

export interface Route {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  /** Null: anyone may ask. */
  readonly scope: Scope | null;
  readonly handle: handlers.Handler;
  readonly about: api.Description;
}

/** Both prefixes answer alike: the interface has the first, the hosted service's JavaScript client lists at the second. */
const QUEUES = ["/v2/workflows/dlq", "/v2/dlq"] as const;

/** Below these every single segment is an id. */
export const RECORD_PREFIXES = QUEUES.map((path) => `${path}/`);

/** Where a target goes that is none of our paths: nothing is served there. */
export const UNROUTED = "/-";

const SELECT_ERRORS: readonly ErrorCode[] = [
  ...(["invalid_encoding", "unknown_parameter", "repeated_parameter", "invalid_parameter"] as const),
  ...(["too_many_values", "invalid_cursor", "cursor_mismatch"] as const),
];
const WRITE_ERRORS: readonly ErrorCode[] = ["unsupported_media_type", "body_too_large", "disk_full"];

/** Every path the service answers, but for the pages below /docs. */
export const ROUTES: readonly Route[] = [
  ...QUEUES.flatMap(queueRoutes),
  route("POST", "/dlo/runs", "ingest", handlers.putRuns, {
    summary: "Record failed runs: one, an array, or NDJSON; all or none",
    tag: "runs",
    answer: api.INGESTED,
    headers: api.INGEST_HEADERS,
    body: { schema: api.RUNS, types: ["application/json", "application/x-ndjson"], required: true },
    errors: [
      ...(["unknown_parameter", "invalid_json", "invalid_record", "record_too_large", "too_many_records"] as const),
      ...WRITE_ERRORS,
    ],
  }),
  route("GET", "/healthz", null, handlers.health, {
    summary: "Whether the process runs",
    tag: "operation",
    answer: api.STATUS,
  }),
  route("GET", "/readyz", null, handlers.readiness, {
    summary: "Whether requests should be sent here",
    tag: "operation",
    answer: api.STATUS,
    errors: ["stopping", "disk_full"],
  }),
  route("GET", "/metrics", "read", handlers.showMetrics, {
    summary: "Figures in Prometheus text",
    tag: "operation",
    answer: "Prometheus text, version 0.0.4",
  }),
  route("GET", "/openapi.json", null, handlers.openapi, {
    summary: "This description",
    tag: "operation",
    answer: "OpenAPI 3.1 as JSON",
  }),
];

function queueRoutes(queue: string): Route[] {
  return [
    route("GET", queue, "read", handlers.listRuns, {
      summary: "List failed runs, page by page",
      tag: "runs",
      answer: api.PAGE,
      query: api.LIST_PARAMETERS,
      errors: SELECT_ERRORS,
    }),
    route("DELETE", queue, "manage", handlers.deleteRuns, {
      summary: "Delete failed runs: by id, by filter, or all; up to 100 a call",
      tag: "runs",
      answer: api.DELETED,
      query: api.DELETE_PARAMETERS,
      body: { schema: api.DELETE_BODY, types: ["application/json"], required: false },
      errors: [...SELECT_ERRORS, "invalid_json", "invalid_body", ...WRITE_ERRORS],
    }),
    route("GET", `${queue}/:dlqId`, "read", handlers.getRun, {
      summary: "Fetch one failed run",
      tag: "runs",
      answer: api.RUN,
      errors: ["invalid_encoding", "run_not_found"],
    }),
    route("DELETE", `${queue}/:dlqId`, "manage", handlers.deleteRun, {
      summary: "Delete one failed run",
      tag: "runs",
      answer: "Nothing: the run is gone",
      errors: ["invalid_encoding", "run_not_found", ...WRITE_ERRORS],
    }),
  ];
}

function route(
  method: Route["method"],
  path: string,
  scope: Scope | null,
  handle: handlers.Handler,
  about: api.Description,
): Route {
  return { method, path, scope, handle, about };
}

/** Methods that the routed path takes, for 405 and its Allow header. */
export function methodsOf(routedPath: string): string[] {
  if (routedPath === "/docs") return ["GET", "HEAD"];
  const isRecord = (path: string): boolean => path.endsWith("/:dlqId") && routedPath === path.replace(":dlqId", "-");
  const methods = ROUTES.filter(({ path }) => path === routedPath || isRecord(path)).map(({ method }) => method);
  return methods.flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method]));
}
