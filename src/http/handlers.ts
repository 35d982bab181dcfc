import type { FastifyReply, FastifyRequest } from "fastify";
import { encodeCursor } from "../cursor.js";
import { DloError } from "../errors.js";
import { readRuns } from "../ingest.js";
import type { Store } from "../store.js";
import { readDeleteBody, readFormat, readIdempotencyKey } from "./body.js";
import type { BodyBudget } from "./body-budget.js";
import type { Metrics } from "./metrics.js";
import { parseDelete, parseListQuery } from "./parse.js";
import { decodeSegment } from "./query-string.js";
import { sendChunks, sendEmpty, sendJson, sendRecord, sendRecords } from "./reply.js";

/** What handlers work with; made once, handed to each. */
export interface Service {
  readonly store: Store;
  readonly metrics: Metrics;
  readonly now: () => number;
  readonly randomBytes: (size: number) => Uint8Array;
  readonly maxRecordBytes: number;
  readonly isStopping: () => boolean;
  readonly budget: BodyBudget;
}

export interface Exchange {
  readonly service: Service;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly tenant: string;
}

export async function listRuns({ service, request, reply, tenant }: Exchange): Promise<void> {
  const query = parseListQuery(queryOf(request), tenant);
  service.budget.refuseOut();
  const start = performance.now();
  const { records, next } = await service.store.page(tenant, query);
  service.metrics.storeCall("page", start);
  const { order } = query;
  const cursor = next === null ? "" : encodeCursor(tenant, { kind: "list", order, selection: query, after: next });
  const chunks: (string | Uint8Array)[] = [`{"cursor":"${cursor}","messages":[`];
  for (const part of records) chunks.push(...(chunks.length > 1 ? [","] : []), part);
  chunks.push("]}");
  const bytes = records.reduce((sum, part) => sum + part.length, 0);
  service.budget.watchOut(bytes, request.raw, reply.raw);
  sendRecords(reply, chunks);
}

export async function getRun({ service, request, reply, tenant }: Exchange): Promise<void> {
  const dlqId = dlqIdOf(request);
  const start = performance.now();
  const record = await service.store.get(tenant, dlqId);
  service.metrics.storeCall("get", start);
  if (record === null) throw notFound();
  sendRecord(reply, record);
}

export async function deleteRun({ service, request, reply, tenant }: Exchange): Promise<void> {
  if ((await deleteIds(service, tenant, [dlqIdOf(request)])) === 0) throw notFound();
  sendEmpty(reply, 200);
}

export async function deleteRuns({ service, request, reply, tenant }: Exchange): Promise<void> {
  const wanted = parseDelete(queryOf(request), readDeleteBody(request), tenant);
  if ("dlqIds" in wanted) {
    sendJson(reply, 200, { deleted: await deleteIds(service, tenant, wanted.dlqIds) });
    return;
  }
  const start = performance.now();
  const { deleted, next } = await service.store.deleteMatching(tenant, wanted.step);
  service.metrics.storeCall("deleteMatching", start);
  const { selection } = wanted.step;
  const cursor = next === null ? undefined : encodeCursor(tenant, { kind: "delete", selection, ...next });
  sendJson(reply, 200, { deleted, cursor });
}

async function deleteIds({ store, metrics }: Service, tenant: string, dlqIds: readonly string[]): Promise<number> {
  const start = performance.now();
  const deleted = await store.deleteIds(tenant, dlqIds);
  metrics.storeCall("deleteIds", start);
  return deleted;
}

export async function putRuns({ service, request, reply, tenant }: Exchange): Promise<void> {
  refuseParameters(request);
  const { now, randomBytes, maxRecordBytes } = service;
  const idempotencyKey = readIdempotencyKey(request);
  const format = readFormat(request);
  const body = (request.body as Uint8Array | undefined) ?? new Uint8Array();
  const runs = await readRuns(body, { tenant, format, idempotencyKey, now, randomBytes, maxRecordBytes });
  const start = performance.now();
  await service.store.put(tenant, runs);
  service.metrics.storeCall("put", start);
  sendJson(reply, 200, { dlqIds: runs.map((run) => run.dlqId) });
}

export async function health({ reply }: Exchange): Promise<void> {
  sendJson(reply, 200, { status: "ok" });
}

export async function readiness({ service, reply }: Exchange): Promise<void> {
  if (service.isStopping()) throw new DloError("stopping", "The service is shutting down.", { retryAfter: 5 });
  await service.store.check();
  sendJson(reply, 200, { status: "ready" });
}

/** Without a token (public metrics) the figure is of all tenants, and names none. */
export async function showMetrics({ service, reply, tenant }: Exchange): Promise<void> {
  const runs = await service.store.count(tenant === "" ? null : tenant);
  sendChunks(reply, 200, "text/plain; version=0.0.4; charset=utf-8", [service.metrics.render(runs)]);
}

export async function openapi({ request, reply }: Exchange): Promise<void> {
  sendJson(reply, 200, request.server.swagger());
}

function queryOf(request: FastifyRequest): string {
  const mark = request.originalUrl.indexOf("?");
  return mark === -1 ? "" : request.originalUrl.slice(mark + 1);
}

function refuseParameters(request: FastifyRequest): void {
  const query = queryOf(request);
  if (query === "") return;
  const [name = ""] = query.split(/[=&]/);
  throw new DloError("unknown_parameter", "This takes no query parameters; leave them out.", { parameter: name });
}

/** The raw segment, strictly decoded: slashes, dots and any Unicode in it are data, never path. */
function dlqIdOf(request: FastifyRequest): string {
  const { originalUrl } = request;
  const mark = originalUrl.indexOf("?");
  const path = mark === -1 ? originalUrl : originalUrl.slice(0, mark);
  return decodeSegment(path.slice(path.lastIndexOf("/") + 1));
}

/** The same for an id that never was and for one of another tenant, byte for byte. */
function notFound(): DloError {
  return new DloError("run_not_found", "No failed run has this dlqId; it may have been deleted.");
}

export type Handler = (exchange: Exchange) => Promise<void>;
