import type { Socket } from "node:net";
import { DloError } from "../errors.js";
import type { Recorder } from "./answer-log.js";
import { MAX_HEADER_BYTES } from "./headers.js";
import { rawErrorResponse } from "./reply.js";

/** What is not HTTP, or came too slowly, never becomes a request; it still gets an answer in our shape. */
export function answerBadBytes(error: Error, socket: Socket, requestId: string, record: Recorder): void {
  const { code } = error as { code?: string };
  // Node keeps the answer under way here; into a half-sent one nothing may be written.
  const underWay = (socket as { _httpMessage?: { headersSent: boolean } | null })._httpMessage?.headersSent === true;
  const gone = code === "ECONNRESET" || code === "HPE_INVALID_EOF_STATE";
  if (gone || !socket.writable || underWay) {
    socket.destroy();
    return;
  }
  const refusal = badBytes(code);
  record(requestId, "-", "unrouted", refusal.status, 0);
  socket.end(rawErrorResponse(refusal, requestId));
}

function badBytes(code: string | undefined): DloError {
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") {
    return new DloError("request_timeout", "The request came too slowly: headers within 10 s, all of it within 30 s.");
  }
  if (code === "HPE_HEADER_OVERFLOW") {
    return new DloError("headers_too_large", `Keep request line and headers within ${MAX_HEADER_BYTES} bytes each.`);
  }
  return new DloError("malformed_http", "This is not a well-formed HTTP/1.1 request.");
}
