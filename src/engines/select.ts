import type { Position } from "../page.js";
import { FILTERS, type FilterName, type Order } from "../query.js";
import type { SqlValue } from "./sqlite-database.js";

/** Column (and index suffix) of a filter: the one place where names turn to snake_case. */
export const COLUMNS = Object.fromEntries(
  FILTERS.map(({ name }) => [name, name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)]),
) as Record<FilterName, string>;

/** A filter as the engine compares it: dictionary numbers, or the values themselves. */
export interface Condition {
  readonly column: string;
  readonly values: readonly SqlValue[];
}

/** How a selection is read: walk one index in order, test the other conditions on the way. */
export interface Plan {
  readonly tenant: number;
  /** Null: the walk goes over everything of the tenant. */
  readonly walk: Condition | null;
  readonly tests: readonly Condition[];
  /** Index entries that the walk may have to pass, for want of a better figure the count of all. */
  readonly cost: number;
  readonly lastArrival: number | null;
}

/** Both ends exclusive, as bytes of `place`. */
export interface Range {
  readonly low: Uint8Array;
  readonly high: Uint8Array;
}

export interface Sql {
  readonly text: string;
  readonly values: SqlValue[];
}

const PLACE_HALF = 6;

/** createdAt and arrival as bytes that sort as listings do. */
export function encodePlace({ createdAt, arrival }: Position): Uint8Array {
  const bytes = Buffer.allocUnsafe(2 * PLACE_HALF);
  bytes.writeUIntBE(createdAt, 0, PLACE_HALF);
  bytes.writeUIntBE(arrival, PLACE_HALF, PLACE_HALF);
  return bytes;
}

export function decodePlace(place: Uint8Array): Position {
  const bytes = Buffer.from(place.buffer, place.byteOffset, place.byteLength);
  return { createdAt: bytes.readUIntBE(0, PLACE_HALF), arrival: bytes.readUIntBE(PLACE_HALF, PLACE_HALF) };
}

/**
 * A whole page as one row: the records joined, how many, their bytes, and place and length of the last, which is
 * one beyond the page where there are more: the caller cuts it off and knows where to go on. Records above `guard`
 * bytes are left out of the join, so that a page of large ones is noticed before it is built.
 * (SQLite documents that bare columns beside one max() or min() come from that row; `bytes` is such a column.)
 */
export function selectPage(plan: Plan, order: Order, range: Range, count: number, guard: number): Sql {
  const select = new Select(plan, order, range);
  const rows = select.matching(count + 1, "json, place, bytes");
  const last = order === "earliestFirst" ? "max" : "min";
  const text =
    `SELECT cast(group_concat(CASE WHEN bytes <= ${select.bind(guard)} THEN json END, ',') AS blob) AS records, ` +
    `count(*) AS n, sum(bytes) AS total, ${last}(place) AS last, bytes AS last_bytes FROM (${rows})`;
  return { text, values: select.values };
}

/** One row a match, in order: `columns` of it. */
export function selectRows(plan: Plan, order: Order, range: Range, limit: number, columns: string): Sql {
  const select = new Select(plan, order, range);
  return { text: select.matching(limit, columns), values: select.values };
}

/** The place `steps` index entries ahead in the walk, where a slice of a long walk ends; null when it ends before. */
export function selectSliceEnd(plan: Plan, order: Order, range: Range, steps: number): Sql {
  const select = new Select({ ...plan, tests: [], lastArrival: null }, order, range);
  const offset = select.bind(Math.max(1, Math.floor(steps / (plan.walk?.values.length ?? 1))));
  const walks = select.walks("place", `LIMIT 1 OFFSET ${offset}`);
  const nearest = order === "earliestFirst" ? "min" : "max";
  return { text: `SELECT ${nearest}(place) AS place FROM (${walks.join(" UNION ALL ")})`, values: select.values };
}

/** How many entries a walk has, counted no further than `cap` for each value. */
export function countWalk(plan: Plan, range: Range, cap: number): Sql {
  const select = new Select(plan, "earliestFirst", range);
  const walks = select.walks("1", `LIMIT ${select.bind(cap)}`);
  return { text: `SELECT count(*) AS n FROM (${walks.join(" UNION ALL ")})`, values: select.values };
}

/** Deletes one row by its rowid if it still meets every condition, and tells what it held. */
export function deleteRow(id: number, tenant: number, conditions: readonly Condition[], columns: string): Sql {
  const values: SqlValue[] = [id, tenant];
  const tests = conditions.map((condition) => ` AND ${inList(condition, (value) => `?${values.push(value)}`)}`);
  return { text: `DELETE FROM run WHERE id = ?1 AND tenant = ?2${tests.join("")} RETURNING ${columns}`, values };
}

function inList({ column, values }: Condition, bind: (value: SqlValue) => string): string {
  return `${column} IN (${values.map(bind).join(", ")})`;
}

/** One statement in the making: its text refers to values by number, so that like queries share a text. */
class Select {
  readonly values: SqlValue[] = [];
  readonly #plan: Plan;
  readonly #order: string;
  readonly #where: string;

  constructor(plan: Plan, order: Order, range: Range) {
    this.#plan = plan;
    this.#order = order === "latestFirst" ? "ORDER BY place DESC" : "ORDER BY place";
    const bounds = [`place > ${this.bind(range.low)}`, `place < ${this.bind(range.high)}`];
    if (plan.lastArrival !== null) bounds.push(`id <= ${this.bind(plan.lastArrival)}`);
    const tests = plan.tests.map((test) => inList(test, (value) => this.bind(value)));
    this.#where = [`tenant = ${this.bind(plan.tenant)}`, ...bounds, ...tests].join(" AND ");
  }

  bind(value: SqlValue): string {
    return `?${this.values.push(value)}`;
  }

  /** The matches in order. */
  matching(limit: number, columns: string): string {
    const end = `LIMIT ${this.bind(limit)}`;
    const { walk } = this.#plan;
    if (walk === null || walk.values.length === 1) return this.#walk(walk?.values[0], columns, end);
    // SQLite: IN (...) with ORDER BY is no ordered walk, so each value is walked by itself and the first of all are
    // taken. Only ids travel through that merge; the records join at its end.
    const merged = this.walks("id, place", end).join(" UNION ALL ");
    const ids = `SELECT id AS match FROM (${merged}) ${this.#order} ${end}`;
    return `SELECT ${columns} FROM (${ids}) CROSS JOIN run ON run.id = match`;
  }

  /** A walk for each value of the plan's filter. */
  walks(columns: string, end: string): string[] {
    const values = this.#plan.walk?.values ?? [undefined];
    return values.map((value) => `SELECT * FROM (${this.#walk(value, columns, end)})`);
  }

  /** INDEXED BY, because SQLite's planner prefers the wrong index where statistics are old or absent. */
  #walk(value: SqlValue | undefined, columns: string, end: string): string {
    const key = value === undefined ? "" : `${this.#plan.walk?.column} = ${this.bind(value)} AND `;
    const index = `run_${this.#plan.walk?.column ?? "all"}`;
    return `SELECT ${columns} FROM run INDEXED BY ${index} WHERE ${key}${this.#where} ${this.#order} ${end}`;
  }
}
