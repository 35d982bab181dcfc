import type { FastifyReply } from "fastify";
import { DloError } from "../errors.js";
import type { StoredRun } from "../store.js";

const JSON_TYPE = "application/json; charset=utf-8";

/**
 * The one way out for API answers. Bodies go to the socket as they are, in corked writes: joining 125 KB of a page
 * into one buffer first was measured slower than three writes, and the framework's own path slower still.
 */
export function sendChunks(
  reply: FastifyReply,
  status: number,
  contentType: string,
  chunks: readonly (string | Uint8Array)[],
  extra: readonly string[] = [],
  length: number = byteLength(chunks),
): void {
  const { raw, request } = reply;
  reply.hijack();
  reply.server.recordAnswer(request, status);
  const headers = ["content-type", contentType, "content-length", String(length), "x-request-id", request.id];
  headers.push("cache-control", "no-store", "x-content-type-options", "nosniff");
  if (reply.server.stopping.now) headers.push("connection", "close");
  if (extra.length > 0) headers.push(...extra);
  raw.writeHead(status, headers);
  if (request.method === "HEAD" || chunks.length < 2) {
    raw.end(request.method === "HEAD" ? undefined : chunks[0]);
    return;
  }
  raw.cork();
  for (const chunk of chunks) raw.write(chunk);
  raw.end();
  raw.uncork();
}

export function sendJson(reply: FastifyReply, status: number, body: unknown): void {
  sendChunks(reply, status, JSON_TYPE, [JSON.stringify(body)]);
}

function byteLength(chunks: readonly (string | Uint8Array)[]): number {
  let length = 0;
  for (const chunk of chunks) length += typeof chunk === "string" ? Buffer.byteLength(chunk) : chunk.length;
  return length;
}

/** A page: wire JSON that came out of the store ready to send. */
export function sendRecords(reply: FastifyReply, chunks: readonly (string | Uint8Array)[]): void {
  sendChunks(reply, 200, JSON_TYPE, chunks);
}

/** A record; the store knows its length, and counting it again shows in the profile. */
export function sendRecord(reply: FastifyReply, { json, bytes }: StoredRun): void {
  sendChunks(reply, 200, JSON_TYPE, [json], [], bytes);
}

export function sendEmpty(reply: FastifyReply, status: number): void {
  sendChunks(reply, status, JSON_TYPE, []);
}

export function sendError(reply: FastifyReply, error: DloError): void {
  if (reply.raw.headersSent) {
    reply.raw.destroy();
    return;
  }
  sendChunks(reply, error.status, JSON_TYPE, [JSON.stringify(error)], errorHeaders(error));
}

function errorHeaders(error: DloError): string[] {
  const headers: string[] = [];
  const { retryAfter, allow } = error.detail;
  if (retryAfter !== undefined) headers.push("retry-after", String(retryAfter));
  if (allow !== undefined) headers.push("allow", allow);
  if (error.status === 401) headers.push("www-authenticate", challenge(error));
  if (error.code === "insufficient_scope") headers.push("www-authenticate", challenge(error));
  return headers;
}

function challenge({ code }: DloError): string {
  return code === "missing_token" ? 'Bearer realm="dlo"' : `Bearer realm="dlo", error="${code}"`;
}

/** An answer written by hand, for bytes that never became a request. */
export function rawErrorResponse(error: DloError, requestId: string): string {
  const body = JSON.stringify(error);
  return [
    `HTTP/1.1 ${error.status} ${error.status === 400 ? "Bad Request" : "Request Refused"}`,
    `content-type: ${JSON_TYPE}`,
    `content-length: ${Buffer.byteLength(body)}`,
    "cache-control: no-store",
    "x-content-type-options: nosniff",
    `x-request-id: ${requestId}`,
    "connection: close",
    "",
    body,
  ].join("\r\n");
}

const FRAMEWORK_ERRORS: Readonly<Record<string, () => DloError>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: () =>
    new DloError("body_too_large", "The body is too large; split it into several requests."),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () =>
    new DloError(
      "unsupported_media_type",
      "Send application/json, or application/x-ndjson, with a matching Content-Type.",
    ),
  ECONNRESET: () => new DloError("malformed_http", "The connection ended before the body did."),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: () =>
    new DloError("malformed_http", "The body is not as long as Content-Length says."),
};

export function unknownRoute(): DloError {
  return new DloError("unknown_route", "Nothing is served at this path; /docs lists what is.");
}

/** Where errors that callers are not told of are written. */
export interface ErrorLog {
  error(details: object, message: string): void;
}

/** What any layer threw -> what the caller is told. Nothing of the inside shows; the log has it, by request id. */
export function toDloError(error: unknown, reqId: string, log: ErrorLog): DloError {
  if (error instanceof DloError) {
    if (error.code === "internal") log.error({ reqId, err: error.detail.cause }, "store failed");
    return error;
  }
  const { code, statusCode } = (error ?? {}) as { code?: string; statusCode?: number };
  const known = FRAMEWORK_ERRORS[code ?? ""];
  if (known !== undefined) return known();
  // The files below /docs: a path that leads elsewhere is no path of ours.
  if (statusCode === 403 || statusCode === 404) return unknownRoute();
  log.error({ reqId, err: error }, "unexpected error");
  return new DloError("internal", `The service failed unexpectedly; look for request ${reqId} in its log.`);
}
