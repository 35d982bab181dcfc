import { createHash } from "node:crypto";
import { DloError } from "./errors.js";
import { ARRIVAL_END, CREATED_AT_END, type Position } from "./page.js";
import { FILTERS, type Filter, type FilterName, type Order, type Selection } from "./query.js";

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

type Payload = [
  kind: "a" | "d" | "x",
  from: number,
  to: number,
  createdAt: number,
  arrival: number,
  lastArrival: number,
  filters: [index: string, ...values: string[]][],
];

export function encodeCursor(tenant: string, cursor: Cursor): string {
  const { filters, from, to } = cursor.selection;
  const kind = cursor.kind === "delete" ? "x" : cursor.order === "earliestFirst" ? "a" : "d";
  const after = cursor.after ?? { createdAt: -1, arrival: 0 };
  const lastArrival = cursor.kind === "delete" ? cursor.lastArrival : 0;
  const payload: Payload = [
    kind,
    from,
    to,
    after.createdAt,
    after.arrival,
    lastArrival,
    filters.map((filter) => [filter.name, ...filter.values]),
  ];
  const text = Buffer.from(JSON.stringify(payload));
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
  let payload: Payload;
  try {
    payload = JSON.parse(body.toString("utf8")) as Payload;
    const [kind, from, to, createdAt, arrival, lastArrival, rows] = payload;
    const filters = rows.map(readFilter);
    const numbers = [from, to, createdAt, arrival, lastArrival];
    if (!numbers.every(Number.isSafeInteger) || from < 0 || from > CREATED_AT_END || to < -1 || to >= CREATED_AT_END) {
      return null;
    }
    if (createdAt < -1 || createdAt >= CREATED_AT_END || arrival < 0 || arrival >= ARRIVAL_END || lastArrival < 0)
      return null;
    const selection: Selection = { filters, from, to };
    const after: Position | null = createdAt === -1 ? null : { createdAt, arrival };
    if (kind === "x") return { kind: "delete", selection, after, lastArrival };
    if ((kind !== "a" && kind !== "d") || after === null) return null;
    return { kind: "list", order: kind === "a" ? "earliestFirst" : "latestFirst", selection, after };
  } catch {
    return null;
  }
}

function readFilter(row: [string, ...string[]]): Filter {
  const [name, ...values] = row;
  const known = FILTERS.find((filter) => filter.name === name);
  const good = (value: unknown): boolean =>
    typeof value === "string" && (known?.kind === "text" || /^-?\d{1,19}$/.test(value));
  if (known === undefined || values.length === 0 || !values.every(good)) throw new TypeError("not a filter");
  return { name: name as FilterName, values };
}

function checksum(tenant: string, body: Buffer): Buffer {
  return createHash("sha256").update(`${VERSION}\0${tenant}\0`).update(body).digest().subarray(0, CHECK_BYTES);
}

function invalid(advice: string): DloError {
  return new DloError("invalid_cursor", advice, { parameter: "cursor" });
}
