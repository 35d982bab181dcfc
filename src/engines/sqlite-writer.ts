import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { DloError } from "../errors.js";
import type { FailedRun } from "../failed-run.js";
import type { Token } from "../token.js";
import type { Condition } from "./select.js";
import { Database } from "./sqlite-database.js";
import { FatalStoreError, translateSqliteError } from "./sqlite-errors.js";
import { RunWriter } from "./sqlite-runs.js";

/** The writing side of the embedded store, a thread of its own: reads never wait for an insert or an fsync. */
export type Write =
  | { readonly kind: "put"; readonly tenant: string; readonly runs: readonly FailedRun[]; readonly now: number }
  | { readonly kind: "deleteIds"; readonly tenant: string; readonly dlqIds: readonly string[] }
  | {
      readonly kind: "deleteRows";
      readonly tenant: string;
      readonly ids: readonly number[];
      readonly conditions: readonly Condition[];
    }
  | { readonly kind: "addToken"; readonly token: Token }
  | { readonly kind: "revokeToken"; readonly id: string; readonly now: number }
  | { readonly kind: "probe" };

export interface WriteRequest {
  readonly ticket: number;
  readonly write: Write;
}

export type WriteReply =
  | { readonly ticket: number; readonly result: number }
  | {
      readonly ticket: number;
      readonly code: DloError["code"];
      readonly message: string;
      readonly retryAfter?: number;
      readonly cause?: string;
    }
  | { readonly fatal: string };

/** So many requests share a commit at most: one slow disk flush serves them all. */
const SHARED_COMMIT = 512;

/** Other processes hold the write lock for a commit at a time; whoever holds it longer is not waited for. */
const BUSY_MS = 2_000;

const port = parentPort;
if (port !== null) serve(port, new Database(workerData as string, BUSY_MS));

function serve(port: NonNullable<typeof parentPort>, db: Database): void {
  const runs = new RunWriter(db);
  port.on("message", (first: WriteRequest | "close") => {
    const batch: WriteRequest[] = [];
    let next: WriteRequest | "close" | undefined = first;
    while (next !== undefined && next !== "close") {
      batch.push(next);
      if (batch.length === SHARED_COMMIT) break;
      next = receiveMessageOnPort(port)?.message as WriteRequest | "close" | undefined;
    }
    if (batch.length > 0) for (const reply of commitAll(db, runs, batch)) port.postMessage(reply);
    if (next === "close") {
      db.close();
      port.close();
    }
  });
}

/** All in one transaction; if that fails, each in its own, so that no request pays for another's fault. */
function commitAll(db: Database, runs: RunWriter, batch: readonly WriteRequest[]): WriteReply[] {
  try {
    runs.begin();
    const replies = batch.map(({ ticket, write }) => ({ ticket, result: apply(db, runs, write) }));
    runs.commit();
    return replies;
  } catch (error) {
    runs.rollback();
    const translated = translateSqliteError(error);
    const ofAll = translated instanceof FatalStoreError || translated instanceof DloError;
    // A busy or full store is no request's fault: trying each alone would only wait as often.
    if (batch.length > 1 && !ofAll) return batch.flatMap((request) => commitAll(db, runs, [request]));
    return batch.map(({ ticket }) => failure(ticket, translated));
  }
}

function apply(db: Database, runs: RunWriter, write: Write): number {
  switch (write.kind) {
    case "put":
      runs.put(write.tenant, write.runs, write.now);
      return write.runs.length;
    case "deleteIds":
      return runs.deleteIds(write.tenant, write.dlqIds);
    case "deleteRows":
      return runs.deleteRows(write.tenant, write.ids, write.conditions);
    case "addToken":
      return addToken(db, write.token);
    case "revokeToken":
      return db.run("UPDATE token SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL", write.now, write.id);
    case "probe":
      return db.run("UPDATE counter SET value = value WHERE name = 'arrival'");
  }
}

function addToken(db: Database, token: Token): number {
  const { id, tenant, name, scopes, hash, createdAt, expiresAt, revokedAt } = token;
  return db.run(
    "INSERT INTO token (id, tenant, name, scopes, hash, created_at, expires_at, revoked_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    ...[id, tenant, name, scopes.join(","), hash, createdAt, expiresAt, revokedAt],
  );
}

function failure(ticket: number, error: unknown): WriteReply {
  if (error instanceof FatalStoreError) return { fatal: error.message };
  if (error instanceof DloError) {
    const { code, message, detail } = error;
    return { ticket, code, message, ...(detail.retryAfter === undefined ? {} : { retryAfter: detail.retryAfter }) };
  }
  const cause = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { ticket, code: "internal", message: "The write failed and was undone.", cause };
}
