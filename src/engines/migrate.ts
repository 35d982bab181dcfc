import { readdirSync, readFileSync } from "node:fs";
import { DloError } from "../errors.js";
import type { Database } from "./sqlite-database.js";

export interface Migration {
  readonly version: number;
  readonly name: string;
  readonly sql: string;
}

/** The numbered files of one dialect, in order. Files are only ever added: what has run somewhere never changes. */
export function readMigrations(dialect: "sqlite"): Migration[] {
  const folder = new URL(`./migrations/${dialect}/`, import.meta.url);
  const names = readdirSync(folder).filter((name) => /^\d{3}_.+\.sql$/.test(name));
  return names.sort().map((name) => ({
    version: Number(name.slice(0, 3)),
    name: name.slice(0, -4),
    sql: readFileSync(new URL(name, folder), "utf8"),
  }));
}

/** Marks the file as ours, so that a mistyped path never plants tables in somebody else's database. */
const APPLICATION_ID = 0x444c4f31;

/**
 * Brings the file to the newest schema and tells what was run. Each migration is one transaction that takes the
 * write lock before it looks: of two starters one waits and then finds it done, and a killed one leaves no half.
 */
export function migrateSqlite(db: Database, migrations: readonly Migration[] = readMigrations("sqlite")): string[] {
  const newest = migrations.at(-1)?.version ?? 0;
  const ran: string[] = [];
  for (const migration of migrations) {
    if (readVersion(db) >= migration.version) continue;
    db.exec("BEGIN IMMEDIATE");
    try {
      refuseForeign(db);
      if (readVersion(db) < migration.version) {
        db.exec(migration.sql);
        db.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${migration.version}`);
        ran.push(migration.name);
      }
      db.exec("COMMIT");
    } catch (error) {
      db.exec("ROLLBACK");
      throw error;
    }
  }
  refuseForeign(db);
  if (readVersion(db) > newest) {
    const advice = "run that version or newer, or restore a backup made before the upgrade";
    throw new DloError(
      "schema_too_new",
      `The store has schema ${readVersion(db)} and this program knows ${newest}: a newer version wrote it; ${advice}.`,
    );
  }
  return ran;
}

function readVersion(db: Database): number {
  return Number(db.get("PRAGMA user_version")?.["user_version"]);
}

function refuseForeign(db: Database): void {
  if (Number(db.get("PRAGMA application_id")?.["application_id"]) === APPLICATION_ID) return;
  if (db.get("SELECT 1 FROM sqlite_schema LIMIT 1") === undefined) return;
  throw new DloError("invalid_config", `${db.path} is a database of another program; choose another path for --store.`);
}
