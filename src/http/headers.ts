import type { FastifyRequest } from "fastify";
import { DloError } from "../errors.js";

export const MAX_TARGET_BYTES = 16 * 1024;
export const MAX_HEADER_BYTES = 16 * 1024;
const MAX_HEADERS = 100;

/** What is wrong with a request before anyone asks what it wants. */
export function judgeHeaders(request: FastifyRequest): DloError | undefined {
  const { rawHeaders, httpVersion, headers } = request.raw;
  if (request.originalUrl.length > MAX_TARGET_BYTES) {
    return new DloError("uri_too_long", `Keep the request line within ${MAX_TARGET_BYTES} bytes.`);
  }
  let bytes = 0;
  let authorizations = 0;
  for (let i = 0; i < rawHeaders.length; i++) {
    const text = rawHeaders[i] as string;
    bytes += text.length + 2;
    // Node keeps the first of two and hides the second.
    if (i % 2 === 0 && text.length === 13 && text.toLowerCase() === "authorization") authorizations++;
  }
  if (rawHeaders.length > 2 * MAX_HEADERS || bytes > MAX_HEADER_BYTES) {
    const advice = `Send at most ${MAX_HEADERS} headers, of ${MAX_HEADER_BYTES} bytes in all.`;
    return new DloError("headers_too_large", advice);
  }
  if (httpVersion === "1.1" && headers.host === undefined) {
    return new DloError("invalid_header", "Send a Host header.", { parameter: "Host" });
  }
  if (authorizations > 1) {
    return new DloError("invalid_header", "Send one Authorization header, not several.", {
      parameter: "Authorization",
    });
  }
  return undefined;
}
