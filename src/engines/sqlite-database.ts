import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import type { DatabaseSyncInstance, StatementSyncInstance } from "@photostructure/sqlite";
import { DloError } from "../errors.js";

export type SqlValue = string | number | bigint | Uint8Array | null;
export type Row = Record<string, SqlValue>;

/** Before this release a WAL reset could corrupt the file. */
const OLDEST_SQLITE = [3, 51, 3] as const;
const MMAP_BYTES = 64 * 1024 ** 3;
const CACHE_KIB = 16 * 1024;
const KEPT_STATEMENTS = 256;

type Driver = { DatabaseSync: new (path: string) => DatabaseSyncInstance };

/** SQLite: Node's own module where it carries a new enough SQLite, else the package with the same interface. */
function loadDriver(): Driver {
  const require = createRequire(import.meta.url);
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const builtIn = major > 24 || (major === 24 && minor >= 15);
  return require(builtIn ? "node:sqlite" : "@photostructure/sqlite") as Driver;
}

/** One connection, with its prepared statements kept by their text. */
export class Database {
  readonly #db: DatabaseSyncInstance;
  readonly #statements = new Map<string, StatementSyncInstance>();

  /** Opens or creates the file. Pragmas are set at every open: a reopened WAL file forgets `synchronous`. */
  constructor(
    readonly path: string,
    busyMs = 10_000,
  ) {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    this.#db = new (loadDriver().DatabaseSync)(path);
    this.#db.exec(`PRAGMA busy_timeout = ${busyMs}`);
    this.#refuseOldLibrary();
    this.#db.exec("PRAGMA journal_mode = WAL");
    this.#db.exec("PRAGMA synchronous = FULL");
    this.#db.exec(`PRAGMA mmap_size = ${MMAP_BYTES}`);
    this.#db.exec(`PRAGMA cache_size = -${CACHE_KIB}`);
    this.#db.exec(`PRAGMA journal_size_limit = ${64 * 1024 ** 2}`);
  }

  #refuseOldLibrary(): void {
    const { version } = this.get("SELECT sqlite_version() AS version") as { version: string };
    const parts = version.split(".").map(Number);
    const older = OLDEST_SQLITE.findIndex((part, i) => (parts[i] ?? 0) !== part);
    if (older !== -1 && (parts[older] ?? 0) < (OLDEST_SQLITE[older] ?? 0)) {
      throw new DloError(
        "invalid_config",
        `SQLite ${version} can corrupt its WAL; ${OLDEST_SQLITE.join(".")} is needed.`,
      );
    }
  }

  exec(sql: string): void {
    this.#db.exec(sql);
  }

  get(sql: string, ...values: SqlValue[]): Row | undefined {
    return this.#prepare(sql).get(...values) as Row | undefined;
  }

  all(sql: string, ...values: SqlValue[]): Row[] {
    return this.#prepare(sql).all(...values) as Row[];
  }

  /** Number of rows changed. */
  run(sql: string, ...values: SqlValue[]): number {
    return Number(this.#prepare(sql).run(...values).changes);
  }

  get inTransaction(): boolean {
    return this.#db.isTransaction;
  }

  close(): void {
    this.#statements.clear();
    this.#db.close();
  }

  #prepare(sql: string): StatementSyncInstance {
    const kept = this.#statements.get(sql);
    if (kept !== undefined) return kept;
    const statement = this.#db.prepare(sql);
    // The oldest goes: shapes of everyday queries come back at once, odd ones need not stay.
    if (this.#statements.size >= KEPT_STATEMENTS) {
      this.#statements.delete(this.#statements.keys().next().value as string);
    }
    this.#statements.set(sql, statement);
    return statement;
  }
}
