import { CREATED_AT_END } from "./page.js";

/** What a failure function can have come to; absent where the run has none. */
export const FAILURE_FUNCTION_STATES = [
  "CALLBACK_INPROGRESS",
  "CALLBACK_SUCCESS",
  "CALLBACK_FAIL",
  "CALLBACK_CANCELED",
] as const;

interface Common {
  readonly description: string;
  readonly examples: readonly unknown[];
}
interface TextSchema extends Common {
  readonly type: "string";
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly enum?: readonly string[];
}
interface IntegerSchema extends Common {
  readonly type: "integer";
  readonly minimum: number;
  readonly maximum: number;
}
interface HeadersSchema extends Common {
  readonly type: "object";
  readonly additionalProperties: unknown;
}

/** The part of JSON Schema that records need: what is written here is what is checked and what is described. */
export type FieldSchema = TextSchema | IntegerSchema | HeadersSchema;

/** Text that a filter compares: bounded, so that it can stand in an index. */
function key(description: string, example: string): FieldSchema {
  return { type: "string", minLength: 1, maxLength: 2048, pattern: "^[^\\u0000]*$", description, examples: [example] };
}

function text(description: string, example: string): FieldSchema {
  return { type: "string", description, examples: [example] };
}

function integer(description: string, example: number, minimum = Number.MIN_SAFE_INTEGER): FieldSchema {
  return { type: "integer", minimum, maximum: Number.MAX_SAFE_INTEGER, description, examples: [example] };
}

function headers(about: string): FieldSchema {
  return {
    type: "object",
    additionalProperties: { anyOf: [{ type: "string" }, { type: "array", items: { type: "string" } }] },
    description: `${about}: name -> values; a plain string is taken as one value`,
    examples: [{ "content-type": ["application/json"] }],
  };
}

/**
 * The fields of a record (interface §2.1), in the order they are sent. These schemas check what comes in and
 * describe it in /openapi.json; other fields that a producer sends are kept and returned as they came.
 */
export const RUN_FIELDS = {
  dlqId: {
    type: "string",
    minLength: 1,
    maxLength: 256,
    pattern: "^[^\\p{Cc}]*$",
    description: "Identifier of the failed run; assigned when the producer gives none",
    examples: ["dlq_01KA2J8YV6Q4M3N7T0R9W5X1ZB"],
  },
  createdAt: {
    type: "integer",
    minimum: 0,
    maximum: CREATED_AT_END - 1,
    description: "Creation time of the message, Unix milliseconds; listings are ordered by it",
    examples: [1763164800000],
  },
  workflowUrl: key("URL of the workflow", "https://shop.example/api/order"),
  workflowRunId: key("Identifier of the workflow run", "wfr_6k2VbQ0r"),
  workflowCreatedAt: integer("Creation time of the workflow run, Unix milliseconds", 1763164795000),
  url: key("URL of the failed workflow step", "https://shop.example/api/order"),
  method: text("HTTP method used for the workflow step", "POST"),
  header: headers("HTTP headers sent to the workflow step"),
  body: text("Message body when it is UTF-8; empty otherwise", '{"orderId":4711}'),
  bodyBase64: text("Base64 of the message body when it is not UTF-8; empty otherwise", ""),
  maxRetries: integer("Number of retries to be attempted after a delivery failure", 3, 0),
  failureCallback: text("URL that receives a callback after the workflow fails", "https://shop.example/api/failed"),
  callerIP: key("IP address of the publisher of the workflow", "203.0.113.7"),
  label: key("Label assigned to the workflow run", "checkout"),
  flowControlKey: key("Flow control key used for rate limiting", "payments"),
  failureFunctionState: {
    type: "string",
    enum: FAILURE_FUNCTION_STATES,
    description: "State of the failure function, where there is one",
    examples: ["CALLBACK_SUCCESS"],
  },
  responseStatus: integer("HTTP status code received from the destination", 503),
  responseHeader: headers("HTTP response headers received from the destination"),
  responseBody: text("Response body when it is UTF-8; empty otherwise", '{"error":"upstream timed out"}'),
  responseBodyBase64: text("Base64 of the response body when it is not UTF-8; empty otherwise", ""),
} as const satisfies Record<string, FieldSchema>;

export type RunField = keyof typeof RUN_FIELDS;

export const FIELD_CHECKS = Object.entries(RUN_FIELDS).map(([name, schema]) => ({
  name: name as RunField,
  check: checkOf(schema),
}));

/**
 * A schema -> its check. A schema compiler would do it too; the ones tried add 0.2-0.4 s to every start, and the
 * fields need three kinds of schema.
 */
function checkOf(schema: FieldSchema): (value: unknown) => boolean {
  if (schema.type === "string") return checkText(schema);
  if (schema.type === "object") return isHeaders;
  const { minimum, maximum } = schema;
  return (value) => Number.isInteger(value) && (value as number) >= minimum && (value as number) <= maximum;
}

function checkText({ minLength = 0, maxLength, pattern, enum: allowed }: TextSchema): (value: unknown) => boolean {
  const regExp = pattern === undefined ? null : new RegExp(pattern, "u");
  return (value) => {
    if (typeof value !== "string" || value.length < minLength) return false;
    if (maxLength !== undefined && !isWithin(value, maxLength)) return false;
    return (regExp === null || regExp.test(value)) && (allowed === undefined || allowed.includes(value));
  };
}

/** Characters are code points, as in JSON Schema: up to two UTF-16 units each, counted only where that matters. */
function isWithin(value: string, length: number): boolean {
  return value.length <= length || (value.length <= 2 * length && [...value].length <= length);
}

function isHeaders(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return Object.values(value).every(
    (entry) => typeof entry === "string" || (Array.isArray(entry) && entry.every((one) => typeof one === "string")),
  );
}
