import type { FastifyRequest } from "fastify";
import { DloError } from "../errors.js";
import { checkIds } from "./parse.js";

/** Which of the two body formats this is, judged by Content-Type alone. */
export function readFormat(request: FastifyRequest): "json" | "ndjson" {
  const [type = "", ...parameters] = (request.headers["content-type"] ?? "").toLowerCase().split(";");
  const charset = parameters.map((text) => text.trim()).find((text) => text.startsWith("charset="));
  if (charset !== undefined && !["charset=utf-8", 'charset="utf-8"'].includes(charset)) {
    throw unsupported("Send the body in UTF-8.");
  }
  const encoding = request.headers["content-encoding"] ?? "identity";
  if (encoding !== "identity") throw unsupported("Send the body without Content-Encoding.");
  if (type.trim() === "application/json") return "json";
  if (type.trim() === "application/x-ndjson") return "ndjson";
  throw unsupported("Send application/json, or application/x-ndjson, with a matching Content-Type.");
}

/** Visible ASCII, 1-255 characters; null when there is none. */
export function readIdempotencyKey(request: FastifyRequest): string | null {
  const keys = rawHeaderValues(request, "idempotency-key");
  if (keys.length === 0) return null;
  const [key = ""] = keys;
  if (keys.length === 1 && /^[\x21-\x7e]{1,255}$/.test(key)) return key;
  throw new DloError("invalid_header", "Idempotency-Key must be given once, with 1 to 255 visible ASCII characters.", {
    parameter: "Idempotency-Key",
  });
}

/** Node joins or drops repeated headers; the raw list tells. */
function rawHeaderValues(request: FastifyRequest, name: string): string[] {
  const { rawHeaders } = request.raw;
  const values: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const header = rawHeaders[i] as string;
    if (header.length === name.length && header.toLowerCase() === name) values.push(rawHeaders[i + 1] as string);
  }
  return values;
}

/** `{"dlqIds": [...]}`; null when there was no body. A body that names nothing must not become "everything". */
export function readDeleteBody(request: FastifyRequest): readonly string[] | null {
  const bytes = request.body as Buffer | undefined;
  if (bytes === undefined || bytes.length === 0) return null;
  if (readFormat(request) !== "json") throw unsupported("Send the dlqIds as application/json.");
  let body: unknown;
  try {
    body = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new DloError("invalid_json", 'The body is not well-formed JSON; send {"dlqIds": ["..."]} or no body.');
  }
  const ids = (body as { dlqIds?: unknown } | null)?.dlqIds;
  const only = typeof body === "object" && body !== null && Object.keys(body).every((key) => key === "dlqIds");
  if (!only || !Array.isArray(ids) || ids.length === 0 || !ids.every((id) => typeof id === "string")) {
    throw new DloError("invalid_body", 'Send {"dlqIds": ["...", ...]} with at least one id, or no body.', {
      parameter: "dlqIds",
    });
  }
  return checkIds(ids);
}

function unsupported(message: string): DloError {
  return new DloError("unsupported_media_type", message);
}
