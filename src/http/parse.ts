import { decodeCursor, type ListCursor } from "../cursor.js";
import { DloError } from "../errors.js";
import { didYouMean } from "../nearest.js";
import { CREATED_AT_END } from "../page.js";
import {
  EVERYTHING,
  FILTERS,
  type Filter,
  type FilterField,
  type FilterName,
  isInt64,
  type ListQuery,
  MAX_COUNT,
  MAX_FILTER_BYTES,
  MAX_QUERY_BYTES,
  MAX_VALUES,
  ORDERS,
  type Order,
  partsOf,
  type Selection,
  withParts,
} from "../query.js";
import type { DeleteStep } from "../store.js";
import { parseQueryString } from "./query-string.js";

/** What the hosted service's clients add without meaning anything by it here. */
const CONSTANTS: Readonly<Record<string, string>> = { source: "workflow", trimBody: "0" };

/** Filters of the hosted service's other queue: messages, not workflow runs. */
const MESSAGE_FILTERS = ["messageId", "queueName", "urlGroup", "topicName", "scheduleId", "api", "endpointName"];

const NAMES = [
  ...["cursor", "count", "order", "fromDate", "toDate", ...Object.keys(CONSTANTS)],
  ...FILTERS.flatMap(({ name, aliases }) => [name, ...aliases]),
];

const CANONICAL: ReadonlyMap<string, string> = new Map([
  ...NAMES.map((name): [string, string] => [name, name]),
  ...FILTERS.flatMap(({ name, aliases }) => aliases.map((alias): [string, string] => [alias, name])),
]);

type Values = ReadonlyMap<string, readonly string[]>;

/** Query string -> one page's question, cursor folded in. */
export function parseListQuery(text: string, tenant: string): ListQuery {
  const values = readValues(text);
  const count = readCount(values);
  const order = readOrder(values);
  const selection = readSelection(values);
  const cursorText = single(values, "cursor");
  if (cursorText === undefined || cursorText === "") {
    return { ...selection, order: order ?? "earliestFirst", count, after: null };
  }
  const cursor = decodeCursor(tenant, "list", cursorText);
  refuseContradiction(values, selection, cursor);
  if (order !== undefined && order !== cursor.order) throw contradiction("order");
  return { ...cursor.selection, order: cursor.order, count, after: cursor.after };
}

export type DeleteRequest = { readonly dlqIds: readonly string[] } | { readonly step: DeleteStep };

/** Query string and the ids of a JSON body, if there was one -> what to delete. Never "everything" by mistake. */
export function parseDelete(text: string, bodyIds: readonly string[] | null, tenant: string): DeleteRequest {
  const values = readValues(text);
  if (values.size === 0 && text !== "") {
    throw invalid("", "The query names nothing; a delete of everything has no query at all.");
  }
  if (values.has("order")) {
    throw invalid("order", "A delete has no order; leave it out: the earliest matches go first.");
  }
  const dlqIds = [...(values.get("dlqIds") ?? []), ...(bodyIds ?? [])];
  if (dlqIds.length > 0) return { dlqIds: checkIds(dlqIds) };
  const count = readCount(values);
  const selection = readSelection(values);
  const cursorText = single(values, "cursor");
  if (cursorText === "") throw invalid("cursor", "An empty cursor would delete from the start; leave it out for that.");
  if (cursorText === undefined) return { step: { selection, count, after: null, lastArrival: null } };
  const cursor = decodeCursor(tenant, "delete", cursorText);
  refuseContradiction(values, selection, cursor);
  const { after, lastArrival } = cursor;
  return { step: { selection: cursor.selection, count, after, lastArrival } };
}

export function checkIds(dlqIds: readonly string[]): readonly string[] {
  if (dlqIds.includes("")) throw invalid("dlqIds", "dlqIds holds an empty id; name the runs to delete.");
  // The store's driver would cut at NUL and mend halves of characters: another run would go.
  if (dlqIds.some((id) => id.includes("\0") || !id.isWellFormed())) {
    throw invalid("dlqIds", "dlqIds holds an id with NUL or half a character in it; no run has such an id.");
  }
  if (dlqIds.length > MAX_VALUES) {
    throw new DloError("too_many_values", `Name at most ${MAX_VALUES} dlqIds in one request.`, { parameter: "dlqIds" });
  }
  return dlqIds;
}

/** Values by canonical name, each name known and no value empty. */
function readValues(text: string): Values {
  const values = new Map<string, string[]>();
  checkLength(text);
  for (const { name, value } of parseQueryString(text)) {
    const canonical = CANONICAL.get(name);
    if (canonical === undefined) throw unknown(name);
    if (value === "" && canonical !== "cursor") {
      throw invalid(name, `${name} is empty; give it a value or leave it out.`);
    }
    checkConstant(name, value);
    const list = values.get(canonical);
    if (list === undefined) values.set(canonical, [value]);
    else list.push(value);
  }
  return values;
}

/** A cursor is as long as the filters it carries; only the rest of the query counts. */
function checkLength(text: string): void {
  if (text.length <= MAX_QUERY_BYTES) return;
  const cursors = text.split("&").filter((pair) => pair.startsWith("cursor="));
  const length = cursors.reduce((rest, pair) => rest - pair.length, text.length);
  if (length > MAX_QUERY_BYTES) {
    throw new DloError("uri_too_long", `Keep the query within ${MAX_QUERY_BYTES} bytes, not counting its cursor.`);
  }
}

function checkConstant(name: string, value: string): void {
  const only = CONSTANTS[name];
  if (only === undefined || value === only) return;
  throw invalid(name, `${name}=${only} is the only value for workflow runs; leave ${name} out.`);
}

function unknown(name: string): DloError {
  const advice = MESSAGE_FILTERS.includes(name)
    ? `${name} filters messages, and these are workflow runs; leave it out.`
    : `There is no parameter ${JSON.stringify(name.slice(0, 100))}.${didYouMean(name.slice(0, 100), NAMES)}`;
  return new DloError("unknown_parameter", advice, { parameter: name.slice(0, 100) });
}

function single(values: Values, name: string): string | undefined {
  const list = values.get(name);
  if (list !== undefined && list.length > 1) {
    throw new DloError("repeated_parameter", `${name} takes one value; give it once.`, { parameter: name });
  }
  return list?.[0];
}

function readCount(values: Values): number {
  const text = single(values, "count");
  if (text === undefined) return MAX_COUNT;
  if (/^\d{1,9}$/.test(text) && Number(text) >= 1 && Number(text) <= MAX_COUNT) return Number(text);
  throw invalid("count", `count must be a whole number from 1 to ${MAX_COUNT}, in digits.`);
}

function readOrder(values: Values): Order | undefined {
  const text = single(values, "order");
  const order = ORDERS.find((known) => known === text);
  if (text !== undefined && order === undefined) throw invalid("order", `order must be ${ORDERS.join(" or ")}.`);
  return order;
}

function readSelection(values: Values): Selection {
  const fromDate = readInteger(values, "fromDate");
  const toDate = readInteger(values, "toDate");
  if (fromDate !== undefined && toDate !== undefined && fromDate > toDate) {
    throw invalid("fromDate", "fromDate is later than toDate; exchange them.");
  }
  const filters: Filter[] = [];
  let bytes = 0;
  for (const filter of FILTERS) {
    const given = values.get(filter.name);
    if (given === undefined) continue;
    for (const value of given) bytes += Buffer.byteLength(value);
    filters.push({ name: filter.name, values: readFilterValues(values, filter, given) });
  }
  if (bytes > MAX_FILTER_BYTES) {
    throw new DloError("too_many_values", `Keep all filters together within ${MAX_FILTER_BYTES} bytes.`);
  }
  return {
    filters,
    from: fromDate === undefined ? EVERYTHING.from : clamp(fromDate, 0, CREATED_AT_END),
    to: toDate === undefined ? EVERYTHING.to : clamp(toDate, -1, CREATED_AT_END - 1),
  };
}

/** No run is outside these bounds, so a date beyond them says the same as the bound. */
function clamp(date: bigint, low: number, high: number): number {
  return Math.min(high, Math.max(low, Number(date)));
}

function readFilterValues(values: Values, filter: FilterField, given: readonly string[]): string[] {
  const { name, kind, takes } = filter;
  if (kind === "integer") return [String(readInteger(values, name))];
  if (takes === "one") return [single(values, name) as string];
  if (takes === "repeat") return limitValues(name, given);
  limitValues(name, given.flatMap(partsOf));
  return withParts(name as FilterName, given);
}

function limitValues(name: string, values: readonly string[]): string[] {
  const distinct = [...new Set(values)];
  if (distinct.length > MAX_VALUES) {
    throw new DloError("too_many_values", `${name} takes at most ${MAX_VALUES} values.`, { parameter: name });
  }
  return distinct;
}

function readInteger(values: Values, name: string): bigint | undefined {
  const text = single(values, name);
  if (text === undefined) return undefined;
  if (isInt64(text)) return BigInt(text);
  throw invalid(name, `${name} must be a whole number (64-bit), in digits.`);
}

/** Repeating the listing's own parameters is fine; anything else would be another listing than the cursor's. */
function refuseContradiction(values: Values, given: Selection, cursor: Pick<ListCursor, "selection">): void {
  const carried = cursor.selection;
  if (values.has("fromDate") && given.from !== carried.from) throw contradiction("fromDate");
  if (values.has("toDate") && given.to !== carried.to) throw contradiction("toDate");
  for (const filter of given.filters) {
    const same = carried.filters.find(({ name }) => name === filter.name);
    if (same === undefined || !sameValues(same.values, filter.values)) throw contradiction(filter.name);
  }
}

function sameValues(a: readonly string[], b: readonly string[]): boolean {
  const set = new Set(a);
  return set.size === new Set(b).size && b.every((value) => set.has(value));
}

function contradiction(parameter: string): DloError {
  return new DloError(
    "cursor_mismatch",
    `${parameter} differs from what the cursor continues; send the cursor alone, or start without it.`,
    { parameter },
  );
}

function invalid(parameter: string, message: string): DloError {
  return new DloError("invalid_parameter", message, parameter === "" ? {} : { parameter });
}
