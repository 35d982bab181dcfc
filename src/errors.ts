/**
 * Every way a request or a start can fail: the code a program may rely on, the HTTP status it travels
 * under, and the condition in words. docs/errors.md and /openapi.json say the same; tests hold them to this table.
 */
export const ERRORS = {
  malformed_http: { status: 400, when: "The bytes on the connection are not a well-formed HTTP/1.1 request." },
  invalid_header: { status: 400, when: "A request header is repeated, missing or has a value that is not allowed." },
  invalid_encoding: {
    status: 400,
    when: "The path or query holds a malformed percent-escape, bytes that are not UTF-8, or NUL.",
  },
  unknown_parameter: { status: 400, when: "The query names a parameter that this operation does not take." },
  repeated_parameter: { status: 400, when: "A parameter that takes one value is given more than once." },
  invalid_parameter: { status: 400, when: "A parameter has a value outside what it takes." },
  too_many_values: { status: 400, when: "A filter has more than 100 values, or the filters exceed 4 KiB in all." },
  invalid_cursor: {
    status: 400,
    when: "The cursor is damaged, of an unknown version, of another kind of request, or of another tenant.",
  },
  cursor_mismatch: { status: 400, when: "A parameter contradicts the cursor, or is not part of its listing." },
  invalid_json: {
    status: 400,
    when: "The body is not well-formed JSON in UTF-8, nests too deeply, or holds a number that a double cannot keep.",
  },
  invalid_record: { status: 400, when: "A record breaks one of the rules for failed runs." },
  invalid_body: { status: 400, when: "The JSON body does not have the shape this operation takes." },
  missing_token: { status: 401, when: "The request has no bearer token." },
  invalid_token: { status: 401, when: "The token is unknown, expired or revoked." },
  insufficient_scope: { status: 403, when: "The token is good but lacks the scope this operation needs." },
  unknown_route: { status: 404, when: "Nothing is served at this path." },
  run_not_found: { status: 404, when: "No failed run has this dlqId." },
  method_not_allowed: { status: 405, when: "The path exists but does not take this method; see the Allow header." },
  request_timeout: { status: 408, when: "The request's headers or body arrived too slowly." },
  body_too_large: { status: 413, when: "The request body exceeds its limit." },
  record_too_large: { status: 413, when: "One record exceeds the size limit of a stored record." },
  too_many_records: { status: 413, when: "One request holds more records than allowed." },
  uri_too_long: { status: 414, when: "The query (without its cursor) or the request line is too long." },
  unsupported_media_type: { status: 415, when: "The body's content type, charset or encoding is not taken here." },
  too_many_failures: { status: 429, when: "Too many bad tokens came from this address within a minute." },
  headers_too_large: { status: 431, when: "The request's headers are too many or too long." },
  internal: { status: 500, when: "The service failed in a way it did not expect; the log has the request id." },
  overloaded: { status: 503, when: "The service has as much work queued as it accepts." },
  store_unavailable: { status: 503, when: "The store cannot be reached or written right now." },
  stopping: { status: 503, when: "The service is shutting down." },
  disk_full: { status: 507, when: "The disk is full: nothing was stored." },
  invalid_config: { status: 500, when: "At start: a flag, variable or configuration file is wrong." },
  store_in_use: { status: 500, when: "At start: another service already runs on this store." },
  schema_too_new: { status: 500, when: "At start: the store was written by a newer version of the program." },
} as const satisfies Record<string, { status: number; when: string }>;

export type ErrorCode = keyof typeof ERRORS;

export interface ErrorDetail {
  /** The query parameter, header or record field at fault. */
  readonly parameter?: string | undefined;
  /** Seconds after which trying again makes sense. */
  readonly retryAfter?: number;
  /** Methods the path does take, for the Allow header. */
  readonly allow?: string;
  readonly cause?: unknown;
}

/** The one error type: `message` is a sentence that says what to change, safe to show to the caller. */
export class DloError extends Error {
  override readonly name = "DloError";

  constructor(
    readonly code: ErrorCode,
    message: string,
    readonly detail: ErrorDetail = {},
  ) {
    super(message, detail.cause === undefined ? undefined : { cause: detail.cause });
  }

  get status(): number {
    return ERRORS[this.code].status;
  }

  /** The error as it stands on the wire (decisions: U's clients read `error`). */
  toJSON(): { error: string; code: ErrorCode; parameter?: string } {
    const body = { error: this.message, code: this.code };
    return this.detail.parameter === undefined ? body : { ...body, parameter: this.detail.parameter };
  }
}
