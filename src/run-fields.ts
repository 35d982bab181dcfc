import Type, { type TSchema } from "typebox";
import { Compile } from "typebox/compile";
import { CREATED_AT_END } from "./page.js";

/** What a failure function can have come to; absent where the run has none. */
export const FAILURE_FUNCTION_STATES = [
  "CALLBACK_INPROGRESS",
  "CALLBACK_SUCCESS",
  "CALLBACK_FAIL",
  "CALLBACK_CANCELED",
] as const;

const noNul = "^[^\\u0000]*$";
const integer = { minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER };

/** Text that a filter compares: bounded, so that it can stand in an index. */
function key(about: string, example: string): TSchema {
  return Type.String({ minLength: 1, maxLength: 2048, pattern: noNul, description: about, examples: [example] });
}

function headers(about: string): TSchema {
  const values = Type.Union([Type.String(), Type.Array(Type.String())]);
  const description = `${about}: name -> values; a plain string is taken as one value`;
  return Type.Record(Type.String(), values, { description, examples: [{ "content-type": ["application/json"] }] });
}

function text(about: string, example: string): TSchema {
  return Type.String({ description: about, examples: [example] });
}

/**
 * The fields of a record (interface §2.1), in the order they are sent. These schemas check what comes in and
 * describe it in /openapi.json; other fields that a producer sends are kept and returned as they came.
 */
export const RUN_FIELDS = {
  dlqId: Type.String({
    minLength: 1,
    maxLength: 256,
    description: "Identifier of the failed run; assigned when the producer gives none",
    examples: ["dlq_01KA2J8YV6Q4M3N7T0R9W5X1ZB"],
  }),
  createdAt: Type.Integer({
    minimum: 0,
    maximum: CREATED_AT_END - 1,
    description: "Creation time of the message, Unix milliseconds; listings are ordered by it",
    examples: [1763164800000],
  }),
  workflowUrl: key("URL of the workflow", "https://shop.example/api/order"),
  workflowRunId: key("Identifier of the workflow run", "wfr_6k2VbQ0r"),
  workflowCreatedAt: Type.Integer({
    ...integer,
    description: "Creation time of the workflow run, Unix milliseconds",
    examples: [1763164795000],
  }),
  url: key("URL of the failed workflow step", "https://shop.example/api/order"),
  method: text("HTTP method used for the workflow step", "POST"),
  header: headers("HTTP headers sent to the workflow step"),
  body: text("Message body when it is UTF-8; empty otherwise", '{"orderId":4711}'),
  bodyBase64: text("Base64 of the message body when it is not UTF-8; empty otherwise", ""),
  maxRetries: Type.Integer({
    ...integer,
    minimum: 0,
    description: "Number of retries to be attempted after a delivery failure",
    examples: [3],
  }),
  failureCallback: text("URL that receives a callback after the workflow fails", "https://shop.example/api/failed"),
  callerIP: key("IP address of the publisher of the workflow", "203.0.113.7"),
  label: key("Label assigned to the workflow run", "checkout"),
  flowControlKey: key("Flow control key used for rate limiting", "payments"),
  failureFunctionState: Type.Enum([...FAILURE_FUNCTION_STATES], {
    description: "State of the failure function, where there is one",
    examples: ["CALLBACK_SUCCESS"],
  }),
  responseStatus: Type.Integer({
    ...integer,
    description: "HTTP status code received from the destination",
    examples: [503],
  }),
  responseHeader: headers("HTTP response headers received from the destination"),
  responseBody: text("Response body when it is UTF-8; empty otherwise", '{"error":"upstream timed out"}'),
  responseBodyBase64: text("Base64 of the response body when it is not UTF-8; empty otherwise", ""),
} as const satisfies Record<string, TSchema>;

export type RunField = keyof typeof RUN_FIELDS;

export const FIELD_CHECKS = Object.entries(RUN_FIELDS).map(([name, schema]) => {
  const validator = Compile(schema as TSchema);
  return { name: name as RunField, check: (value: unknown): boolean => validator.Check(value) };
});
