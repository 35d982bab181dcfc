import { CREATED_AT_END, type Position } from "./page.js";

/** interface §8: the most records a page may hold, and how many it holds unless told. */
export const MAX_COUNT = 100;
export const MAX_VALUES = 100;
/** All filter values of one request, decoded. */
export const MAX_FILTER_BYTES = 4096;
/** The query string without its cursor. */
export const MAX_QUERY_BYTES = 8192;

export const ORDERS = ["earliestFirst", "latestFirst"] as const;
export type Order = (typeof ORDERS)[number];

export interface FilterField {
  /** Name of the query parameter, and of the filter inside the program. */
  readonly name: string;
  /** Name of the record's field that it is compared with. */
  readonly field: string;
  /** Other spellings that existing clients send. */
  readonly aliases: readonly string[];
  readonly kind: "text" | "integer";
  /** `one` value; several by `repeat` of the parameter; or by repeat and by commas (`list`). */
  readonly takes: "one" | "repeat" | "list";
  /**
   * Values recur, so the store keeps them in a dictionary with a count for each. The rest (ids, creation times)
   * are nearly unique, and a dictionary would only double them.
   */
  readonly counted: boolean;
  readonly about: string;
}

/**
 * THE table of filters. The parser, the cursor, the engines' SQL and the API description are driven by it: a new
 * filter is a line here and a column with its index in a migration. The record spells `callerIP` what the query
 * spells `callerIp` (interface §4.1); this table is the one place that knows.
 */
export const FILTERS = [
  row("workflowUrl", "text", "list", true, "URL of the workflow"),
  row("workflowRunId", "text", "one", false, "identifier of the workflow run"),
  row("workflowCreatedAt", "integer", "one", false, "creation time of the workflow run, Unix milliseconds"),
  row("label", "text", "list", true, "label of the workflow run"),
  row("failureFunctionState", "text", "list", true, "state of the failure function", {
    aliases: ["failureCallbackState"],
  }),
  row("callerIp", "text", "list", true, "IP address of the publisher", { field: "callerIP", aliases: ["callerIP"] }),
  row("flowControlKey", "text", "list", true, "flow control key"),
  row("url", "text", "one", true, "URL of the failed step"),
  row("responseStatus", "integer", "one", true, "HTTP status that the step answered"),
  row("dlqIds", "text", "repeat", false, "identifiers; those that exist are returned", { field: "dlqId" }),
] as const;

export type FilterName = (typeof FILTERS)[number]["name"];

function row<const Name extends string>(
  name: Name,
  kind: FilterField["kind"],
  takes: FilterField["takes"],
  counted: boolean,
  about: string,
  more: { field?: string; aliases?: readonly string[] } = {},
): FilterField & { name: Name } {
  return { name, field: more.field ?? name, aliases: more.aliases ?? [], kind, takes, counted, about };
}

/** Values of one filter, any of which may match; integers as canonical decimal text, for int64 exceeds a double. */
export interface Filter {
  readonly name: FilterName;
  readonly values: readonly string[];
}

/** A value that holds a comma means its literal self and each of its parts: a label may well contain one. */
export function withParts(name: FilterName, values: readonly string[]): string[] {
  if (FILTERS.find((filter) => filter.name === name)?.takes !== "list") return [...values];
  return [...new Set([...values, ...values.flatMap(partsOf)])];
}

/** The values that `withParts` makes the same list of: those that are no part of another. */
export function withoutParts(name: FilterName, values: readonly string[]): string[] {
  if (FILTERS.find((filter) => filter.name === name)?.takes !== "list") return [...values];
  const parts = new Set(values.filter((value) => value.includes(",")).flatMap(partsOf));
  return values.filter((value) => value.includes(",") || !parts.has(value));
}

export function partsOf(value: string): string[] {
  return value.split(",").filter((part) => part !== "");
}

export function isInt64(text: string): boolean {
  if (!/^-?\d{1,30}$/.test(text)) return false;
  const value = BigInt(text);
  return value >= -(2n ** 63n) && value < 2n ** 63n;
}

/** What a listing or a delete is about: filters combine by AND, `from` and `to` bound createdAt, both inclusive. */
export interface Selection {
  readonly filters: readonly Filter[];
  readonly from: number;
  readonly to: number;
}

/** One page's worth of question, complete: the cursor has already been folded in. */
export interface ListQuery extends Selection {
  readonly order: Order;
  readonly count: number;
  /** Only records strictly beyond this position, in the direction of `order`. */
  readonly after: Position | null;
}

/** Bounds that no date of a request becomes, so that a cursor knows whether its listing had any. */
export const EVERYTHING: Selection = { filters: [], from: -1, to: CREATED_AT_END };
