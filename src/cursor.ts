import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import { DloError } from "./errors.js";
import { ARRIVAL_END, CREATED_AT_END, type Position } from "./page.js";
import {
  FILTERS,
  type Filter,
  type FilterField,
  isInt64,
  MAX_FILTER_BYTES,
  MAX_VALUES,
  type Order,
  type Selection,
  withoutParts,
  withParts,
} from "./query.js";

/**
 * A cursor is the whole question and where its answer stands, so that the cursor alone continues its listing
 * (interface §4.1 rule 1) on any replica, after any restart. It is opaque and checked, not secret: it grants
 * nothing, since every request is bound to its token's tenant anyway.
 */
export type Cursor = ListCursor | DeleteCursor;

export interface ListCursor {
  readonly kind: "list";
  readonly order: Order;
  readonly selection: Selection;
  readonly after: Position;
}

interface DeleteCursor {
  readonly kind: "delete";
  readonly selection: Selection;
  readonly after: Position | null;
  /** Records that arrived later are none of this delete's business. */
  readonly lastArrival: number;
}

const VERSION = 1;
const CHECK_BYTES = 8;

type Head = [kind: "a" | "d" | "x", from: number, to: number, createdAt: number, arrival: number, lastArrival: number];

/** Between the parts of a payload; no filter value holds it, so nothing needs escaping and cursors stay short. */
const NUL = "\0";

export function encodeCursor(tenant: string, cursor: Cursor): string {
  const { filters, from, to } = cursor.selection;
  const kind = cursor.kind === "delete" ? "x" : cursor.order === "earliestFirst" ? "a" : "d";
  const after = cursor.after ?? { createdAt: -1, arrival: 0 };
  const lastArrival = cursor.kind === "delete" ? cursor.lastArrival : 0;
  const head: Head = [kind, from, to, after.createdAt, after.arrival, lastArrival];
  const parts = filters.flatMap(({ name, values }) => {
    const named = withoutParts(name, values);
    return [name, String(named.length), ...named];
  });
  const text = Buffer.from([JSON.stringify(head), ...parts].join(NUL));
  return Buffer.concat([Buffer.of(VERSION), checksum(tenant, text), text]).toString("base64url");
}

/** Fails with `invalid_cursor` on anything that `encodeCursor` did not make for this tenant and kind. */
export function decodeCursor<Kind extends Cursor["kind"]>(
  tenant: string,
  kind: Kind,
  text: string,
): Extract<Cursor, { kind: Kind }> {
  const cursor = readCursor(tenant, text);
  if (cursor === null) {
    throw invalid("Take the cursor unchanged from the previous answer, or leave it out to start from the first page.");
  }
  if (cursor.kind !== kind) {
    throw invalid(
      kind === "list"
        ? "This cursor continues a delete; leave it out to start a listing."
        : "This cursor continues a listing; leave it out to start a delete.",
    );
  }
  return cursor as Extract<Cursor, { kind: Kind }>;
}

function readCursor(tenant: string, text: string): Cursor | null {
  const bytes = Buffer.from(text, "base64url");
  // Buffer.from skips what it does not know: only text that encodes back to itself was ours.
  if (bytes.length <= 1 + CHECK_BYTES || bytes[0] !== VERSION || bytes.toString("base64url") !== text) return null;
  const body = bytes.subarray(1 + CHECK_BYTES);
  if (!checksum(tenant, body).equals(bytes.subarray(1, 1 + CHECK_BYTES))) return null;
  return fromPayload(body);
}

/** The checksum can be forged, so the content is checked as any input is. */
function fromPayload(body: Buffer): Cursor | null {
  if (!isUtf8(body)) return null;
  const [first = "", ...parts] = body.toString("utf8").split(NUL);
  const head = readHead(first);
  const filters = readFilters(parts);
  if (head === null || filters === null) return null;
  const [kind, from, to, createdAt, arrival, lastArrival] = head;
  const selection: Selection = { filters, from, to };
  const after: Position | null = createdAt === -1 ? null : { createdAt, arrival };
  if (kind === "x") return { kind: "delete", selection, after, lastArrival };
  if (after === null) return null;
  return { kind: "list", order: kind === "a" ? "earliestFirst" : "latestFirst", selection, after };
}

function readHead(text: string): Head | null {
  // By its form first: nothing but one of three letters and whole numbers gets as far as being parsed.
  if (!/^\["[adx]"(,-?\d{1,15}){5}\]$/.test(text)) return null;
  const head = JSON.parse(text) as Head;
  const [, from, to, createdAt, arrival, lastArrival] = head;
  const inRange = from >= -1 && from <= CREATED_AT_END && to >= -1 && to <= CREATED_AT_END;
  const placed = createdAt >= -1 && createdAt < CREATED_AT_END && arrival >= 0 && arrival < ARRIVAL_END;
  return inRange && placed && lastArrival >= 0 ? head : null;
}

function readFilters(parts: readonly string[]): Filter[] | null {
  const filters: Filter[] = [];
  for (let at = 0; at < parts.length; ) {
    const field = FILTERS.find(({ name }) => name === parts[at]);
    const count = /^\d{1,3}$/.test(parts[at + 1] ?? "") ? Number(parts[at + 1]) : 0;
    const values = parts.slice(at + 2, at + 2 + count);
    if (field === undefined || values.length !== count || !isFilter(field, values)) return null;
    if (filters.some(({ name }) => name === field.name)) return null;
    filters.push({ name: field.name, values: withParts(field.name, values) });
    at += 2 + count;
  }
  return filters;
}

/** The limits that the parser holds the query to. */
function isFilter({ kind, takes }: FilterField, values: readonly string[]): boolean {
  const most = takes === "one" ? 1 : MAX_VALUES;
  const bytes = values.reduce((sum, value) => sum + Buffer.byteLength(value), 0);
  if (values.length === 0 || values.length > most || values.includes("") || bytes > MAX_FILTER_BYTES) return false;
  return kind === "text" || values.every(isInt64);
}

function checksum(tenant: string, body: Buffer): Buffer {
  return createHash("sha256").update(`${VERSION}\0${tenant}\0`).update(body).digest().subarray(0, CHECK_BYTES);
}

function invalid(advice: string): DloError {
  return new DloError("invalid_cursor", advice, { parameter: "cursor" });
}
