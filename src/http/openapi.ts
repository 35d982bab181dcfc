import { ERRORS, type ErrorCode } from "../errors.js";
import { MAX_RECORDS } from "../ingest.js";
import { FILTERS, MAX_COUNT, ORDERS } from "../query.js";
import { type FieldSchema, RUN_FIELDS } from "../run-fields.js";
import type { Scope } from "../token.js";

type Schema = Readonly<Record<string, unknown>>;

const EXAMPLE_RUN = Object.fromEntries(
  Object.entries(RUN_FIELDS).map(([name, schema]) => [name, (schema as FieldSchema).examples[0]]),
);

/** A record as it is sent: no field is required (interface §2.1), and producers' own fields come along. */
const FAILED_RUN: Schema = {
  type: "object",
  description: "A failed workflow run",
  properties: RUN_FIELDS,
  additionalProperties: true,
  examples: [EXAMPLE_RUN],
};

export const RUN: Schema = { $ref: "#/components/schemas/FailedRun", examples: [EXAMPLE_RUN] };

export const PAGE: Schema = object(
  {
    cursor: { type: "string", description: "Cursor for the next page; empty when no more results exist" },
    messages: { type: "array", items: RUN, maxItems: MAX_COUNT },
  },
  { cursor: "", messages: [EXAMPLE_RUN] },
);

const IDS: Schema = { type: "array", items: { type: "string" } };
export const INGESTED: Schema = object({ dlqIds: IDS }, { dlqIds: [EXAMPLE_RUN["dlqId"]] });
export const RUNS: Schema = {
  anyOf: [RUN, { type: "array", items: RUN, maxItems: MAX_RECORDS }],
  examples: [EXAMPLE_RUN],
};
export const DELETED: Schema = {
  ...object({ deleted: { type: "integer" } }, { deleted: 100, cursor: "AVk2dXnQ" }),
  properties: { deleted: { type: "integer" }, cursor: { type: "string", description: "Present when more remain" } },
};
export const INGEST_HEADERS: Record<string, Schema> = {
  "Idempotency-Key": {
    ...{ type: "string", minLength: 1, maxLength: 255, pattern: "^[\\x21-\\x7e]+$" },
    description: "Records without a dlqId get ids from it, so that sending the request again changes nothing",
  },
};
export const STATUS: Schema = object({ status: { type: "string" } }, { status: "ok" });
export const DELETE_BODY: Schema = object(
  { dlqIds: { type: "array", items: { type: "string", minLength: 1 }, minItems: 1, maxItems: MAX_COUNT } },
  { dlqIds: [EXAMPLE_RUN["dlqId"]] },
);

/** All of the properties are required. */
function object(properties: Record<string, unknown>, example: unknown): Schema {
  return { type: "object", properties, required: Object.keys(properties), examples: [example] };
}

function filterParameters(): Record<string, Schema> {
  const entries = FILTERS.flatMap(({ name, kind, takes, about, aliases }) => {
    const one = kind === "integer" ? { type: "integer", format: "int64" } : { type: "string", minLength: 1 };
    const several =
      takes === "list" ? "; repeat it, or separate values by commas, for any of them" : "; repeat it for several";
    const description = `Only runs with this ${about}${takes === "one" ? "" : several}`;
    const schema =
      takes === "one" ? { ...one, description } : { type: "array", items: one, maxItems: MAX_COUNT, description };
    const other = { ...schema, description: `Another spelling of ${name}` };
    return [[name, schema] as const, ...aliases.map((alias) => [alias, other] as const)];
  });
  return Object.fromEntries(entries);
}

const PAGING: Record<string, Schema> = {
  cursor: { type: "string", description: "The cursor of the previous answer; continues it" },
  count: { type: "integer", minimum: 1, maximum: MAX_COUNT, default: MAX_COUNT, description: "At most so many runs" },
  fromDate: { type: "integer", format: "int64", description: "createdAt from here on, inclusive" },
  toDate: { type: "integer", format: "int64", description: "createdAt up to here, inclusive" },
  source: { type: "string", enum: ["workflow"], description: "Sent by existing clients; changes nothing" },
  trimBody: { type: "string", enum: ["0"], description: "Sent by existing clients; changes nothing" },
};
const ORDER: Schema = {
  ...{ type: "string", enum: ORDERS, default: "earliestFirst" },
  description: "By createdAt, equal ones by arrival",
};

export const LIST_PARAMETERS = { ...PAGING, order: ORDER, ...filterParameters() };
export const DELETE_PARAMETERS = { ...PAGING, ...filterParameters() };

const COMMON: readonly ErrorCode[] = [
  ...(["malformed_http", "invalid_header", "method_not_allowed", "request_timeout", "uri_too_long"] as const),
  ...(["headers_too_large", "internal", "overloaded", "store_unavailable"] as const),
];
const AUTH: readonly ErrorCode[] = ["missing_token", "invalid_token", "insufficient_scope", "too_many_failures"];

export interface Description {
  readonly summary: string;
  readonly tag: "runs" | "operation";
  readonly errors?: readonly ErrorCode[];
  /** The schema of a JSON answer, or what another kind of answer is. */
  readonly answer: Schema | string;
  readonly query?: Record<string, Schema>;
  readonly headers?: Record<string, Schema>;
  readonly body?: { readonly schema: Schema; readonly types: readonly string[]; readonly required: boolean };
}

export interface Described {
  readonly method: string;
  readonly path: string;
  readonly scope: Scope | null;
  readonly about: Description;
}

/** The whole description, made from the table of routes and from the schemas that check what comes in. */
export function buildDocument(routes: readonly Described[], version: string): Schema {
  const paths: Record<string, Record<string, Schema>> = {};
  for (const route of routes) {
    const path = route.path.replace(":dlqId", "{dlqId}");
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Dead Letter Office",
      description: "Failed workflow runs: list, filter, fetch, record and delete them.",
      version,
      license: { name: "MIT", identifier: "MIT" },
    },
    tags: [
      { name: "runs", description: "The dead letter queue" },
      { name: "operation", description: "Health, metrics and this description" },
    ],
    paths,
    components: {
      securitySchemes: { token: { type: "http", scheme: "bearer" } },
      schemas: { FailedRun: FAILED_RUN, Error: ERROR },
    },
  };
}

function operationOf({ method, path, scope, about }: Described): Schema {
  const codes = [...(about.errors ?? []), ...(scope === null ? [] : AUTH), ...COMMON];
  const parameters = Object.entries(about.query ?? {}).map(([name, { description, ...schema }]) => ({
    ...{ name, in: "query", description, schema },
    ...(schema["type"] === "array" ? { style: "form", explode: true } : {}),
  }));
  for (const [name, { description, ...schema }] of Object.entries(about.headers ?? {})) {
    parameters.push({ name, in: "header", description, schema });
  }
  if (path.endsWith("/:dlqId")) {
    const { description, ...schema } = RUN_FIELDS.dlqId;
    parameters.unshift({ ...{ name: "dlqId", in: "path", required: true }, description, schema } as never);
  }
  return {
    operationId: `${method.toLowerCase()}${path.replace(/[/:.](\w)/g, (_, letter: string) => letter.toUpperCase())}`,
    ...{ summary: about.summary, tags: [about.tag] },
    ...(scope === null ? {} : { security: [{ token: [] }], description: `Needs a token with scope ${scope}.` }),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(about.body === undefined ? {} : { requestBody: bodyOf(about.body) }),
    responses: { 200: answerOf(about.answer), ...errorResponses(codes) },
  };
}

function bodyOf({ schema, types, required }: NonNullable<Description["body"]>): Schema {
  return { required, content: Object.fromEntries(types.map((type) => [type, { schema }])) };
}

function answerOf(answer: Schema | string): Schema {
  if (typeof answer === "string") return { description: answer };
  return { description: "Done", content: { "application/json": { schema: answer } } };
}

const ERROR: Schema = {
  type: "object",
  properties: {
    error: { type: "string", description: "What to change" },
    code: { type: "string", enum: Object.keys(ERRORS), description: "Stable; what programs may rely on" },
    parameter: { type: "string", description: "The parameter or field at fault" },
  },
  required: ["error", "code"],
};

function errorResponses(codes: readonly ErrorCode[]): Record<string, unknown> {
  const responses: Record<string, unknown> = {};
  for (const status of new Set(codes.map((code) => ERRORS[code].status))) {
    const here = codes.filter((code) => ERRORS[code].status === status);
    const examples = Object.fromEntries(here.map((code) => [code, { value: { error: ERRORS[code].when, code } }]));
    const description = here.map((code) => `\`${code}\`: ${ERRORS[code].when}`).join("\n");
    responses[status] = {
      description,
      content: { "application/json": { schema: { $ref: "#/components/schemas/Error" }, examples } },
    };
  }
  return responses;
}
