import { DloError } from "../errors.js";
import { Database } from "./sqlite-database.js";
import { translateSqliteError } from "./sqlite-errors.js";

/**
 * Claims the file for one service and tells how to let go. SQLite: Node has no flock, so the claim is an exclusive
 * transaction held open on a small file beside the store; the operating system drops it even after kill -9.
 */
export function lockSqlite(path: string): () => void {
  let lock: Database | undefined;
  try {
    lock = new Database(`${path}.lock`, 200);
    lock.exec("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE");
    return () => lock?.close();
  } catch (error) {
    lock?.close();
    const translated = translateSqliteError(error);
    if (!(translated instanceof DloError) || translated.code !== "overloaded") throw translated;
    throw new DloError("store_in_use", `Another service runs on ${path}; stop it, or give this one another --store.`);
  }
}
