import { isUtf8 } from "node:buffer";
import { setImmediate } from "node:timers/promises";
import { DLQ_ID_RANDOM_BYTES, deriveDlqId, makeDlqId } from "./dlq-id.js";
import { DloError } from "./errors.js";
import { type FailedRun, wireJson } from "./failed-run.js";
import { type Slice, splitJson, splitLines } from "./json-scan.js";
import { FILTERS } from "./query.js";
import { FAILURE_FUNCTION_STATES, FIELD_CHECKS, RUN_FIELDS, type RunField } from "./run-fields.js";

export const MAX_RECORDS = 10_000;
export const MAX_RECORD_BYTES = 4 * 1024 * 1024;

/** Where a batch of records comes from, and what fills the gaps in them. */
export interface Origin {
  readonly tenant: string;
  readonly format: "json" | "ndjson";
  readonly idempotencyKey: string | null;
  readonly now: () => number;
  readonly randomBytes: (size: number) => Uint8Array;
  readonly maxRecordBytes: number;
}

/** Longest stretch of parsing before other requests get their turn. */
const TURN_MS = 8;

/**
 * Request body -> failed runs, all or none: the first bad record fails the whole with an error that names it.
 * Elements are parsed one by one, so that 64 MiB of them never hold the event loop.
 */
export async function readRuns(body: Uint8Array, origin: Origin): Promise<FailedRun[]> {
  if (!isUtf8(body)) throw new DloError("invalid_json", "The body is not valid UTF-8; encode it as UTF-8.");
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const runs: FailedRun[] = [];
  let turn = performance.now();
  for (const slice of origin.format === "json" ? splitJson(bytes) : splitLines(bytes)) {
    if (runs.length === MAX_RECORDS) {
      throw new DloError("too_many_records", `Send at most ${MAX_RECORDS} records in one request; split the batch.`);
    }
    runs.push(readRun(parseSlice(bytes, slice, origin), slice.name, runs.length, origin));
    if (performance.now() - turn > TURN_MS) {
      await setImmediate();
      turn = performance.now();
    }
  }
  return runs;
}

function parseSlice(bytes: Buffer, slice: Slice, origin: Origin): unknown {
  // Pretty printing and base64 shrink when stored, though not fourfold: beyond that, parsing is wasted work.
  if (slice.end - slice.start > 4 * origin.maxRecordBytes) throw tooLarge(slice.name, origin);
  try {
    return JSON.parse(bytes.toString("utf8", slice.start, slice.end));
  } catch {
    throw new DloError("invalid_json", `${slice.name} is not well-formed JSON; check its quotes, commas and brackets.`);
  }
}

type Fields = { [Field in RunField]?: unknown } & Record<string, unknown>;

/** One parsed value -> failed run. `place` is its place in the request; `name` is what errors call it. */
export function readRun(value: unknown, name: string, place: number, origin: Origin): FailedRun {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new DloError("invalid_record", `${name} must be a JSON object, not ${kindOf(value)}.`);
  }
  const fields = value as Fields;
  for (const { name: field, check } of FIELD_CHECKS) {
    if (Object.hasOwn(fields, field) && !check(fields[field])) throw badField(name, field, fields[field]);
  }
  // Unlike other text, an id with half a character in it would be sent as one that nobody can ask for.
  if (fields.dlqId !== undefined && !(fields.dlqId as string).isWellFormed())
    throw badField(name, "dlqId", fields.dlqId);
  const now = origin.now();
  const dlqId = (fields.dlqId as string | undefined) ?? assignId(now, place, origin);
  const createdAt = (fields.createdAt as number | undefined) ?? now;
  fillState(fields);
  const run = { dlqId, createdAt, tail: wireTail(fields, name), keys: filterKeys(fields, dlqId) };
  checkWire(run, name, origin);
  return run;
}

function assignId(now: number, place: number, origin: Origin): string {
  return origin.idempotencyKey === null
    ? makeDlqId(now, origin.randomBytes(DLQ_ID_RANDOM_BYTES))
    : deriveDlqId(origin.tenant, origin.idempotencyKey, place);
}

/** The hosted service reports the state inside `failureCallbackInfo`; interface §2.1 wants it as a field. */
function fillState(fields: Fields): void {
  const info = fields["failureCallbackInfo"];
  if (fields.failureFunctionState !== undefined || typeof info !== "object" || info === null) return;
  const state = (info as { state?: unknown }).state;
  if (FAILURE_FUNCTION_STATES.some((known) => known === state)) fields.failureFunctionState = state;
}

function filterKeys(fields: Fields, dlqId: string): FailedRun["keys"] {
  const keys: Record<string, string> = {};
  for (const { name, field } of FILTERS) {
    const value = field === "dlqId" ? dlqId : fields[field];
    if (value !== undefined) keys[name] = String(value);
  }
  return keys;
}

/** Known fields in the interface's order, then the producer's own as they came. */
function wireTail(fields: Fields, name: string): string {
  const [body, bodyBase64] = splitBody(fields, "body", "bodyBase64", name);
  const [responseBody, responseBodyBase64] = splitBody(fields, "responseBody", "responseBodyBase64", name);
  const bodies: Partial<Record<RunField, string>> = { body, bodyBase64, responseBody, responseBodyBase64 };
  let tail = "";
  for (const field of WIRE_FIELDS) {
    const known = bodies[field] ?? fields[field];
    if (known !== undefined)
      tail += `,"${field}":${HEADER_FIELDS.has(field) ? headerJson(known) : JSON.stringify(known)}`;
  }
  for (const field of Object.keys(fields)) {
    if (!Object.hasOwn(RUN_FIELDS, field)) tail += `,${JSON.stringify(field)}:${JSON.stringify(fields[field])}`;
  }
  return `${tail}}`;
}

const HEADER_FIELDS: ReadonlySet<string> = new Set<RunField>(["header", "responseHeader"]);
const WIRE_FIELDS = (Object.keys(RUN_FIELDS) as RunField[]).filter((name) => name !== "dlqId" && name !== "createdAt");

/** Written out by hand: as an object, a header called `__proto__` would vanish. */
function headerJson(header: unknown): string {
  const entries = Object.entries(header as Record<string, string | string[]>);
  const pairs = entries.map(
    ([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(Array.isArray(value) ? value : [value])}`,
  );
  return `{${pairs.join(",")}}`;
}

/** interface §2.1 rules 1 and 2: exactly one of the pair carries the content, and base64 only what is not UTF-8. */
function splitBody(fields: Fields, plain: RunField, base64: RunField, name: string): [string, string] {
  const text = (fields[plain] as string | undefined) ?? "";
  const encoded = (fields[base64] as string | undefined) ?? "";
  if (encoded === "") return [text, ""];
  if (text !== "")
    throw invalid(name, base64, `has both ${plain} and ${base64}; send only the one that carries the body`);
  const bytes = Buffer.from(encoded, "base64");
  // Buffer.from skips whatever is not base64, so only what encodes back to itself was.
  if (bytes.toString("base64") !== encoded)
    throw invalid(name, base64, `has a ${base64} that is not padded standard base64`);
  return isUtf8(bytes) ? [bytes.toString("utf8"), ""] : ["", encoded];
}

function checkWire(run: FailedRun, name: string, origin: Origin): void {
  // JSON.stringify writes \udXXX for lone surrogates alone: whole pairs stand as themselves.
  if (run.tail.includes("\\ud") && /(?<!\\)(?:\\\\)*\\ud[89a-f]/.test(run.tail)) {
    throw new DloError(
      "invalid_record",
      `${name} holds a lone surrogate (half a character); send well-formed Unicode.`,
    );
  }
  if (run.tail.length * 3 + 1024 > origin.maxRecordBytes && Buffer.byteLength(wireJson(run)) > origin.maxRecordBytes) {
    throw tooLarge(name, origin);
  }
}

function tooLarge(name: string, origin: Origin): DloError {
  return new DloError(
    "record_too_large",
    `${name} exceeds ${origin.maxRecordBytes} bytes of JSON; shorten its bodies.`,
  );
}

const RULES: Partial<Record<RunField, string>> = {
  dlqId: "1 to 256 characters of text without control characters",
  createdAt: "a Unix time in whole milliseconds from 0 to 4398046511103",
  workflowCreatedAt: "a Unix time in whole milliseconds",
  maxRetries: "a whole number, 0 or more",
  responseStatus: "a whole number",
  failureFunctionState: `one of ${FAILURE_FUNCTION_STATES.join(", ")}`,
  header: "an object of header names, each with a string or an array of strings",
  responseHeader: "an object of header names, each with a string or an array of strings",
  method: "a string",
  body: "a string",
  bodyBase64: "a string",
  responseBody: "a string",
  responseBodyBase64: "a string",
  failureCallback: "a string",
};

function badField(name: string, field: RunField, value: unknown): DloError {
  const rule = RULES[field] ?? "1 to 2048 characters of text without NUL";
  const advice = value === null ? "; leave the field out where it has no value" : "";
  return invalid(name, field, `has a ${field} that is not ${rule}${advice}`);
}

function invalid(name: string, field: RunField, fault: string): DloError {
  return new DloError("invalid_record", `${name} ${fault}.`, { parameter: field });
}

function kindOf(value: unknown): string {
  return value === null ? "null" : Array.isArray(value) ? "an array" : `a ${typeof value}`;
}
