import { setImmediate as nextTurn } from "node:timers/promises";
import { DloError } from "../errors.js";
import type { FailedRun } from "../failed-run.js";
import { EMPTY_PAGE, PAGE_BYTES, type Page, type Position } from "../page.js";
import type { ListQuery, Order } from "../query.js";
import type { Deleted, DeleteStep, Store, StoredRun } from "../store.js";
import type { Scope, Token } from "../token.js";
import { migrateSqlite } from "./migrate.js";
import { before, beyond, rangeOf, upTo } from "./range.js";
import { decodePlace, type Plan, type Range, type Sql, selectPage, selectRows, selectSliceEnd } from "./select.js";
import { Database, type Row } from "./sqlite-database.js";
import { FatalStoreError, translateOpenError, translateSqliteError } from "./sqlite-errors.js";
import { Planner, SLICE } from "./sqlite-plan.js";
import { WriterThread } from "./sqlite-thread.js";

export interface SqliteOptions {
  readonly path: string;
  readonly now: () => number;
  /** Store time that one request may take, in milliseconds. */
  readonly budgetMs: number;
  readonly onFatal: (reason: string) => void;
}

/** So large a record is no part of the fast path: 101 of this size still fit a page. */
const LARGE_BYTES = 64 * 1024;

/** An outcome of the readiness check stands for so long: it is open to anyone, and each costs a write. */
const PROBE_MS = 1_000;

/** Opens the file, creating and migrating it as needed. */
export function openSqlite(options: SqliteOptions): Store {
  let db: Database | undefined;
  try {
    db = new Database(options.path);
    migrateSqlite(db);
    return new SqliteStore(db, options);
  } catch (error) {
    db?.close();
    throw translateOpenError(options.path, error);
  }
}

class SqliteStore implements Store {
  readonly #db: Database;
  readonly #writer: WriterThread;
  readonly #options: SqliteOptions;
  readonly #planner: Planner;
  #snapshot: NodeJS.Immediate | null = null;
  #probe: Promise<number> = Promise.resolve(0);
  #probedUntil = 0;

  constructor(db: Database, options: SqliteOptions) {
    this.#db = db;
    this.#options = options;
    this.#planner = new Planner(db);
    this.#writer = new WriterThread(options.path, options.onFatal, () => this.#endSnapshot());
  }

  async page(tenant: string, query: ListQuery): Promise<Page> {
    const plan = this.#read(() => this.#planner.plan(tenant, query));
    if (plan === null) return EMPTY_PAGE;
    const records: Uint8Array[] = [];
    let count = 0;
    let bytes = 0;
    let next: Position | null = null;
    await this.#eachSlice(plan, query, (range, rest) => {
      const part = this.#readPage(plan, query.order, range, query.count - count, PAGE_BYTES - bytes);
      records.push(...part.records);
      count += part.count;
      bytes += part.records[0]?.length ?? 0;
      next = part.next ?? rest;
      return part.next !== null;
    });
    return { records, count, next };
  }

  /**
   * Walks the selection. Where every entry matches, that is one step; where entries are also tested, no statement
   * passes more than a slice of them, other requests get their turn in between, and the budget ends it. `work` gets
   * the slice and the position at its end (null at the end of the walk), and tells whether it has enough.
   */
  async #eachSlice(
    plan: Plan,
    query: Pick<ListQuery, "order" | "from" | "to" | "after">,
    work: (range: Range, end: Position | null) => boolean,
  ): Promise<void> {
    const deadline = performance.now() + this.#options.budgetMs;
    let range = rangeOf(query);
    const sliced = plan.cost > SLICE && (plan.tests.length > 0 || plan.lastArrival !== null);
    for (;;) {
      const end = sliced ? this.#read(() => this.#sliceEnd(plan, query.order, range)) : null;
      const enough = this.#read(() => work(end === null ? range : upTo(range, end, query.order), end));
      // A slice does not run where requests are read from sockets, so its snapshot must not be there for them.
      if (sliced) this.#endSnapshot();
      if (enough || end === null) return;
      if (performance.now() > deadline) return;
      range = beyond(range, end, query.order);
      await nextTurn();
    }
  }

  #sliceEnd(plan: Plan, order: Order, range: Range): Position | null {
    const place = this.#get(selectSliceEnd(plan, order, range, SLICE))?.["place"];
    return place === null || place === undefined ? null : decodePlace(place as Uint8Array);
  }

  /** With a count of 0, which a page that is full asks for, only whether there is more. */
  #readPage(plan: Plan, order: Order, range: Range, count: number, bytes: number): Page {
    if (count === 0) return { ...EMPTY_PAGE, next: this.#placeBefore(plan, order, range) };
    const row = this.#get(selectPage(plan, order, range, count, LARGE_BYTES)) as unknown as PageRow;
    if (row.n === 0) return EMPTY_PAGE;
    if (row.records?.length === joinedLength(row) && row.total <= bytes) return cutPage(row, order, count);
    const fits = this.#countFitting(plan, order, range, count, bytes);
    if (fits === 0) return { ...EMPTY_PAGE, next: this.#placeBefore(plan, order, range) };
    const whole = selectPage(plan, order, range, fits, Number.MAX_SAFE_INTEGER);
    return cutPage(this.#get(whole) as unknown as PageRow, order, fits);
  }

  /** How many of the next records fit into so many bytes; the first of a page always does. */
  #countFitting(plan: Plan, order: Order, range: Range, count: number, bytes: number): number {
    let left = bytes;
    let fits = 0;
    for (const row of this.#all(selectRows(plan, order, range, count, "bytes"))) {
      left -= Number(row["bytes"]);
      if (left < 0 && !(bytes === PAGE_BYTES && fits === 0)) break;
      fits++;
    }
    return fits;
  }

  #placeBefore(plan: Plan, order: Order, range: Range): Position | null {
    const row = this.#get(selectRows(plan, order, range, 1, "place"));
    return row === undefined ? null : before(decodePlace(row["place"] as Uint8Array), order);
  }

  async get(tenantName: string, dlqId: string): Promise<StoredRun | null> {
    return this.#read(() => {
      const tenant = this.#planner.tenantId(tenantName);
      if (tenant === undefined) return null;
      const sql = "SELECT json, bytes FROM run WHERE tenant = ? AND dlq_ids = ?";
      return (this.#db.get(sql, tenant, dlqId) as StoredRun | undefined) ?? null;
    });
  }

  async count(tenant: string | null): Promise<number> {
    const sql = "SELECT coalesce(sum(runs), 0) AS runs FROM tenant WHERE name = ?1 OR ?1 IS NULL";
    return this.#read(() => Number(this.#db.get(sql, tenant)?.["runs"]));
  }

  async put(tenant: string, runs: readonly FailedRun[]): Promise<void> {
    if (runs.length > 0) await this.#writer.send({ kind: "put", tenant, runs, now: this.#options.now() });
  }

  async deleteIds(tenant: string, dlqIds: readonly string[]): Promise<number> {
    return this.#writer.send({ kind: "deleteIds", tenant, dlqIds });
  }

  /** Finds the rows on this side, so that a long search holds no lock; the writer deletes what still matches. */
  async deleteMatching(tenant: string, step: DeleteStep): Promise<Deleted> {
    const lastArrival = step.lastArrival ?? this.#read(() => this.#lastArrival());
    const plan = this.#read(() => this.#planner.plan(tenant, step.selection, lastArrival));
    if (plan === null) return { deleted: 0, next: null };
    const ids: number[] = [];
    let after: Position | null = null;
    const query = { ...step.selection, after: step.after, order: "earliestFirst" } as const;
    await this.#eachSlice(plan, query, (range, end) => {
      const room = step.count - ids.length;
      const rows = this.#all(selectRows(plan, query.order, range, room + 1, "id, place"));
      const more = rows[room];
      ids.push(...rows.slice(0, room).map((row) => Number(row["id"])));
      after = more === undefined ? end : before(decodePlace(more["place"] as Uint8Array), query.order);
      return more !== undefined;
    });
    const conditions = plan.walk === null ? plan.tests : [plan.walk, ...plan.tests];
    const deleted = ids.length === 0 ? 0 : await this.#writer.send({ kind: "deleteRows", tenant, ids, conditions });
    return { deleted, next: after === null ? null : { after, lastArrival } };
  }

  #lastArrival(): number {
    return Number(this.#db.get("SELECT value FROM counter WHERE name = 'arrival'")?.["value"]);
  }

  async findToken(hash: string): Promise<Token | null> {
    const row = this.#read(() => this.#db.get("SELECT * FROM token WHERE hash = ?", hash));
    return row === undefined ? null : toToken(row);
  }

  async listTokens(): Promise<Token[]> {
    return this.#read(() => this.#db.all("SELECT * FROM token ORDER BY created_at, id").map(toToken));
  }

  async addToken(token: Token): Promise<void> {
    await this.#writer.send({ kind: "addToken", token });
  }

  async revokeToken(id: string, now: number): Promise<boolean> {
    return (await this.#writer.send({ kind: "revokeToken", id, now })) === 1;
  }

  /** A real, small write. Whoever asks while it is under way, or within a second of it, shares its outcome. */
  async check(): Promise<void> {
    this.#read(() => this.#db.get("SELECT 1 FROM run LIMIT 1"));
    if (performance.now() >= this.#probedUntil) {
      this.#probedUntil = performance.now() + PROBE_MS;
      this.#probe = this.#writer.send({ kind: "probe" });
    }
    await this.#probe;
  }

  async close(): Promise<void> {
    await this.#writer.close();
    this.#endSnapshot();
    this.#db.close();
  }

  #get(sql: Sql): Row | undefined {
    return this.#db.get(sql.text, ...sql.values);
  }

  #all(sql: Sql): Row[] {
    return this.#db.all(sql.text, ...sql.values);
  }

  /**
   * Runs reads on one snapshot, shared by all of the same turn of the event loop: taking SQLite's locks for each costs
   * a third of a get. Nobody can notice: a request is read from its socket before the turn that serves it, hence before
   * the snapshot, and so is any acknowledgement that its sender had seen. A write settled within the turn ends it.
   */
  #read<Result>(work: () => Result): Result {
    try {
      if (this.#snapshot === null) {
        this.#db.run("BEGIN");
        this.#snapshot = setImmediate(() => this.#endSnapshot());
      }
      return work();
    } catch (error) {
      const translated = translateSqliteError(error);
      if (!(translated instanceof FatalStoreError)) throw translated;
      this.#options.onFatal(translated.message);
      throw new DloError("store_unavailable", "The store has failed and the service is stopping.", {
        retryAfter: 5,
        cause: error,
      });
    }
  }

  #endSnapshot(): void {
    if (this.#snapshot === null) return;
    clearImmediate(this.#snapshot);
    this.#snapshot = null;
    // An I/O error may have ended it already.
    if (this.#db.inTransaction) this.#db.run("COMMIT");
  }
}

interface PageRow {
  readonly records: Uint8Array | null;
  readonly n: number;
  readonly total: number;
  readonly last: Uint8Array;
  readonly last_bytes: number;
}

function joinedLength(row: PageRow): number {
  return row.total + row.n - 1;
}

/** Takes the one record too many off the end; its place is where the listing goes on. */
function cutPage(row: PageRow, order: Order, count: number): Page {
  const records = row.records ?? new Uint8Array();
  if (row.n <= count) return { records: [records], count: row.n, next: null };
  const next = before(decodePlace(row.last), order);
  return { records: [records.subarray(0, records.length - row.last_bytes - 1)], count, next };
}

function toToken(row: Row): Token {
  return {
    id: String(row["id"]),
    tenant: String(row["tenant"]),
    name: String(row["name"]),
    scopes: String(row["scopes"]).split(",") as Scope[],
    hash: String(row["hash"]),
    createdAt: Number(row["created_at"]),
    expiresAt: row["expires_at"] === null ? null : Number(row["expires_at"]),
    revokedAt: row["revoked_at"] === null ? null : Number(row["revoked_at"]),
  };
}
