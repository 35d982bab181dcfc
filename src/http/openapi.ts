import type { FastifyDynamicSwaggerOptions } from "@fastify/swagger";
import Type, { type TObject, type TSchema } from "typebox";
import { ERRORS, type ErrorCode } from "../errors.js";
import { MAX_RECORDS } from "../ingest.js";
import { FILTERS, MAX_COUNT, ORDERS } from "../query.js";
import { RUN_FIELDS } from "../run-fields.js";
import type { Scope } from "../token.js";

export function openapiOptions(version: string): FastifyDynamicSwaggerOptions {
  return {
    openapi: {
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
      components: { securitySchemes: { token: { type: "http", scheme: "bearer" } } },
    },
  };
}

const EXAMPLE_RUN = Object.fromEntries(
  Object.entries(RUN_FIELDS).map(([name, schema]) => [name, (schema as { examples?: unknown[] }).examples?.[0]]),
);

/** A record as it is sent: no field is required (interface §2.1), and producers' own fields come along. */
export const RUN = Type.Object(
  Object.fromEntries(Object.entries(RUN_FIELDS).map(([name, schema]) => [name, Type.Optional(schema)])),
  { title: "FailedRun", description: "A failed workflow run", additionalProperties: true, examples: [EXAMPLE_RUN] },
);

export const PAGE = Type.Object(
  {
    cursor: Type.String({ description: "Cursor for the next page; empty when no more results exist" }),
    messages: Type.Array(RUN, { maxItems: MAX_COUNT }),
  },
  { title: "Page", examples: [{ cursor: "", messages: [EXAMPLE_RUN] }] },
);

export const INGESTED = Type.Object(
  { dlqIds: Type.Array(Type.String()) },
  { examples: [{ dlqIds: [EXAMPLE_RUN["dlqId"]] }] },
);
export const RUNS = Type.Union([RUN, Type.Array(RUN, { maxItems: MAX_RECORDS })], { examples: [EXAMPLE_RUN] });
export const DELETED = Type.Object(
  { deleted: Type.Integer(), cursor: Type.Optional(Type.String({ description: "Present when more remain" })) },
  { examples: [{ deleted: 100, cursor: "AVk2..." }] },
);
export const STATUS = Type.Object({ status: Type.String() }, { examples: [{ status: "ok" }] });
export const DLQ_ID = Type.Object({ dlqId: RUN_FIELDS.dlqId });
export const DELETE_BODY = Type.Object(
  { dlqIds: Type.Array(Type.String({ minLength: 1 }), { minItems: 1, maxItems: MAX_COUNT }) },
  { examples: [{ dlqIds: [EXAMPLE_RUN["dlqId"]] }] },
);

function filterParameters(): Record<string, TSchema> {
  const entries = FILTERS.flatMap(({ name, kind, takes, about, aliases }) => {
    const one = kind === "integer" ? Type.Integer({ format: "int64" }) : Type.String({ minLength: 1 });
    const several =
      takes === "list" ? "; repeat it or separate values by commas for any of them" : "; repeat it for several";
    const description = `Only runs with this ${about}${takes === "one" ? "" : several}`;
    const schema = takes === "one" ? { ...one, description } : Type.Array(one, { description, maxItems: MAX_COUNT });
    const alias = (spelling: string): [string, TSchema] => [
      spelling,
      { ...schema, description: `Another spelling of ${name}` },
    ];
    return [[name, schema] as [string, TSchema], ...aliases.map(alias)];
  });
  return Object.fromEntries(entries.map(([name, schema]) => [name, Type.Optional(schema)]));
}

const PAGING = {
  cursor: Type.Optional(Type.String({ description: "The cursor of the previous answer; continues it" })),
  count: Type.Optional(
    Type.Integer({ minimum: 1, maximum: MAX_COUNT, default: MAX_COUNT, description: "At most so many runs" }),
  ),
  fromDate: Type.Optional(Type.Integer({ format: "int64", description: "createdAt from here on, inclusive" })),
  toDate: Type.Optional(Type.Integer({ format: "int64", description: "createdAt up to here, inclusive" })),
  source: Type.Optional(Type.Literal("workflow", { description: "Sent by existing clients; changes nothing" })),
  trimBody: Type.Optional(Type.Literal("0", { description: "Sent by existing clients; changes nothing" })),
};

export const LIST_PARAMETERS = Type.Object({
  ...PAGING,
  order: Type.Optional(
    Type.Enum([...ORDERS], { default: "earliestFirst", description: "By createdAt, equal ones by arrival" }),
  ),
  ...filterParameters(),
});
export const DELETE_PARAMETERS = Type.Object({ ...PAGING, ...filterParameters() });

const COMMON: readonly ErrorCode[] = [
  ...(["malformed_http", "invalid_header", "method_not_allowed", "request_timeout", "uri_too_long"] as const),
  ...(["headers_too_large", "internal", "overloaded", "store_unavailable"] as const),
];
const AUTH: readonly ErrorCode[] = ["missing_token", "invalid_token", "insufficient_scope", "too_many_failures"];

export interface Description {
  readonly summary: string;
  readonly tag: "runs" | "operation";
  readonly errors?: readonly ErrorCode[];
  readonly answer: TSchema | string;
  readonly query?: TObject;
  readonly params?: TObject;
  readonly body?: TSchema;
  readonly bodyTypes?: readonly string[];
}

/** The route's schema as the framework's generator wants it; scope null means no token is needed. */
export function describe(route: Description, scope: Scope | null): Record<string, unknown> {
  const { summary, tag, answer, query, params, body, bodyTypes = ["application/json"] } = route;
  const codes = [...(route.errors ?? []), ...(scope === null ? [] : AUTH), ...COMMON];
  const ok = typeof answer === "string" ? text(answer) : { description: "Done", content: json(answer) };
  return {
    summary,
    tags: [tag],
    ...(scope === null ? {} : { security: [{ token: [] }], description: `Needs a token with scope ${scope}.` }),
    ...(query === undefined ? {} : { querystring: query }),
    ...(params === undefined ? {} : { params }),
    ...(body === undefined
      ? {}
      : { body: { content: Object.fromEntries(bodyTypes.map((type) => [type, { schema: body }])) } }),
    response: { 200: ok, ...errorResponses(codes) },
  };
}

function text(description: string): unknown {
  return { description, content: { "text/plain": { schema: Type.String() } } };
}

function json(schema: TSchema): unknown {
  return { "application/json": { schema } };
}

const ERROR = Type.Object(
  {
    error: Type.String({ description: "What to change" }),
    code: Type.Enum(Object.keys(ERRORS), { description: "Stable; what programs may rely on" }),
    parameter: Type.Optional(Type.String({ description: "The parameter or field at fault" })),
  },
  { title: "Error" },
);

function errorResponses(codes: readonly ErrorCode[]): Record<string, unknown> {
  const responses: Record<string, unknown> = {};
  for (const status of new Set(codes.map((code) => ERRORS[code].status))) {
    const here = codes.filter((code) => ERRORS[code].status === status);
    const examples = Object.fromEntries(here.map((code) => [code, { value: { error: ERRORS[code].when, code } }]));
    const description = here.map((code) => `\`${code}\`: ${ERRORS[code].when}`).join("\n");
    responses[status] = { description, content: { "application/json": { schema: ERROR, examples } } };
  }
  return responses;
}
