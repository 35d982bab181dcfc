import { type FailedRun, wireJson } from "../failed-run.js";
import { FILTERS, type FilterName } from "../query.js";
import { COLUMNS, type Condition, decodePlace, deleteRow, encodePlace } from "./select.js";
import type { Database, Row, SqlValue } from "./sqlite-database.js";

/** Values kept in memory before the cache starts over: enough for everyday labels and URLs, bounded for odd ones. */
const CACHED_TERMS = 100_000;

const COUNTED = FILTERS.filter((filter) => filter.counted).map((filter) => filter.name);
const COUNTED_COLUMNS = COUNTED.map((name) => COLUMNS[name]).join(", ");
const ALL_COLUMNS = FILTERS.map((filter) => COLUMNS[filter.name]);

const INSERT =
  `INSERT INTO run (id, tenant, place, arrived_at, bytes, json, ${ALL_COLUMNS.join(", ")}) ` +
  `VALUES (?, ?, ?, ?, ?, ?, ${ALL_COLUMNS.map(() => "?").join(", ")}) ON CONFLICT (tenant, dlq_ids) DO NOTHING`;
const UPDATE = `UPDATE run SET bytes = ?, json = ?, ${ALL_COLUMNS.map((column) => `${column} = ?`).join(", ")} WHERE id = ? AND tenant = ?`;

/**
 * Changes to runs on one connection, inside transactions that it begins and commits: it keeps the dictionary of
 * filter values and the counts exact with them.
 */
export class RunWriter {
  readonly #db: Database;
  #arrival = 0;
  #committedArrival = 0;
  #dataVersion: SqlValue | undefined;
  readonly #tenants = new Map<string, number>();
  /** By tenant, then in the order of the table of filters: value -> dictionary number. */
  #terms = new Map<number, Map<string, number>[]>();
  #cachedTerms = 0;
  #termDeltas = new Map<number, number>();
  #tenantDeltas = new Map<number, number>();

  constructor(db: Database) {
    this.#db = db;
  }

  begin(): void {
    this.#db.exec("BEGIN IMMEDIATE");
    // Another process may have written since: what is remembered of dictionary numbers could be gone.
    const version = this.#db.get("PRAGMA data_version")?.["data_version"];
    if (version !== this.#dataVersion) this.#forgetTerms();
    this.#dataVersion = version;
    this.#committedArrival = Number(this.#db.get("SELECT value FROM counter WHERE name = 'arrival'")?.["value"]);
    this.#arrival = this.#committedArrival;
  }

  /** Returns when what was written since `begin` is durable. Where nothing was, nothing touches the disk. */
  commit(): void {
    this.#flushCounts();
    if (this.#arrival !== this.#committedArrival) {
      this.#db.run("UPDATE counter SET value = ? WHERE name = 'arrival'", this.#arrival);
    }
    this.#db.exec("COMMIT");
  }

  rollback(): void {
    this.#termDeltas.clear();
    this.#tenantDeltas.clear();
    this.#tenants.clear();
    this.#forgetTerms();
    // SQLite rolls back by itself on some errors; then there is nothing left to roll back.
    if (this.#db.inTransaction) this.#db.exec("ROLLBACK");
  }

  put(tenantName: string, runs: readonly FailedRun[], now: number): void {
    const tenant = this.#tenantId(tenantName);
    for (const run of runs) {
      const keys = this.#keysOf(tenant, run);
      const json = wireJson(run);
      const id = this.#arrival + 1;
      const place = encodePlace({ createdAt: run.createdAt, arrival: id });
      const inserted = this.#db.run(INSERT, id, tenant, place, now, Buffer.byteLength(json), json, ...keys);
      if (inserted === 0) {
        this.#replace(tenant, run, keys);
        continue;
      }
      this.#arrival = id;
      add(this.#tenantDeltas, tenant, 1);
      this.#countKeys(keys, 1);
    }
  }

  /** The record stays in its place: first createdAt, first arrival. */
  #replace(tenant: number, run: FailedRun, keys: SqlValue[]): void {
    const find = `SELECT id, place, ${ALL_COLUMNS.join(", ")} FROM run WHERE tenant = ? AND dlq_ids = ?`;
    const old = this.#db.get(find, tenant, run.dlqId) as Row;
    const json = wireJson(run, decodePlace(old["place"] as Uint8Array).createdAt);
    this.#db.run(UPDATE, Buffer.byteLength(json), json, ...keys, old["id"] as number, tenant);
    this.#countKeys(
      ALL_COLUMNS.map((column) => old[column] ?? null),
      -1,
    );
    this.#countKeys(keys, 1);
  }

  deleteIds(tenantName: string, dlqIds: readonly string[]): number {
    const tenant = this.#tenantId(tenantName);
    const sql = `DELETE FROM run WHERE tenant = ? AND dlq_ids = ? RETURNING ${COUNTED_COLUMNS}`;
    return dlqIds.filter((dlqId) => this.#gone(tenant, this.#db.get(sql, tenant, dlqId))).length;
  }

  /** Deletes those rows that still meet the conditions under which they were found. */
  deleteRows(tenantName: string, ids: readonly number[], conditions: readonly Condition[]): number {
    const tenant = this.#tenantId(tenantName);
    return ids.filter((id) => {
      const { text, values } = deleteRow(id, tenant, conditions, COUNTED_COLUMNS);
      return this.#gone(tenant, this.#db.get(text, ...values));
    }).length;
  }

  #gone(tenant: number, row: Row | undefined): boolean {
    if (row === undefined) return false;
    add(this.#tenantDeltas, tenant, -1);
    for (const name of COUNTED) {
      const term = row[COLUMNS[name]];
      if (term !== null) add(this.#termDeltas, Number(term), -1);
    }
    return true;
  }

  /** Values for the filter columns, in the order of the table of filters. */
  #keysOf(tenant: number, run: FailedRun): SqlValue[] {
    let terms = this.#terms.get(tenant);
    if (terms === undefined) {
      terms = FILTERS.map(() => new Map());
      this.#terms.set(tenant, terms);
    }
    return FILTERS.map(({ name, counted, kind }, i) => {
      const value = run.keys[name];
      if (value === undefined) return null;
      if (counted) return this.#termId(terms[i] as Map<string, number>, tenant, name, value);
      return kind === "integer" ? Number(value) : value;
    });
  }

  #countKeys(keys: readonly SqlValue[], delta: number): void {
    FILTERS.forEach(({ counted }, i) => {
      if (counted && keys[i] !== null) add(this.#termDeltas, Number(keys[i]), delta);
    });
  }

  #tenantId(name: string): number {
    let id = this.#tenants.get(name);
    if (id === undefined) {
      this.#db.run("INSERT INTO tenant (name) VALUES (?) ON CONFLICT (name) DO NOTHING", name);
      id = Number(this.#db.get("SELECT id FROM tenant WHERE name = ?", name)?.["id"]);
      this.#tenants.set(name, id);
    }
    return id;
  }

  #termId(known: Map<string, number>, tenant: number, filter: FilterName, value: string): number {
    let id = known.get(value);
    if (id === undefined) {
      id = this.#findTerm(tenant, filter, value) ?? this.#addTerm(tenant, filter, value);
      known.set(value, id);
      if (++this.#cachedTerms > CACHED_TERMS) this.#forgetTerms();
    }
    return id;
  }

  #findTerm(tenant: number, filter: FilterName, value: string): number | undefined {
    const sql = "SELECT id FROM term WHERE tenant = ? AND filter = ? AND value = ?";
    return this.#db.get(sql, tenant, filter, value)?.["id"] as number | undefined;
  }

  #addTerm(tenant: number, filter: FilterName, value: string): number {
    const sql = "INSERT INTO term (tenant, filter, value, runs) VALUES (?, ?, ?, 0) RETURNING id";
    return Number(this.#db.get(sql, tenant, filter, value)?.["id"]);
  }

  #forgetTerms(): void {
    this.#terms = new Map();
    this.#cachedTerms = 0;
  }

  #flushCounts(): void {
    let emptied = false;
    for (const [id, delta] of this.#termDeltas) {
      const row = this.#db.get("UPDATE term SET runs = runs + ? WHERE id = ? RETURNING runs", delta, id);
      if (Number(row?.["runs"]) === 0) {
        // A value that no run has any more leaves the dictionary, or every URL ever seen would stay.
        this.#db.run("DELETE FROM term WHERE id = ?", id);
        emptied = true;
      }
    }
    if (emptied) this.#forgetTerms();
    for (const [id, delta] of this.#tenantDeltas) {
      this.#db.run("UPDATE tenant SET runs = runs + ? WHERE id = ?", delta, id);
    }
    this.#termDeltas.clear();
    this.#tenantDeltas.clear();
  }
}

function add(deltas: Map<number, number>, key: number, delta: number): void {
  deltas.set(key, (deltas.get(key) ?? 0) + delta);
}
