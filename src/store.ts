import type { FailedRun } from "./failed-run.js";
import type { Page, Position } from "./page.js";
import type { ListQuery, Selection } from "./query.js";
import type { Token } from "./token.js";

/** A record as it is sent: its wire JSON, and how many bytes that is in UTF-8. */
export interface StoredRun {
  readonly json: string;
  readonly bytes: number;
}

/** What a delete by filter may do in one call, and how far the calls before it came. */
export interface DeleteStep {
  readonly selection: Selection;
  /** At most so many records go in this call. */
  readonly count: number;
  /** Continue beyond this position; null at first. */
  readonly after: Position | null;
  /** Touch nothing that arrived later; null at the first call, which sets it. */
  readonly lastArrival: number | null;
}

export interface Deleted {
  readonly deleted: number;
  /** Where the next call goes on; null when nothing more matched. */
  readonly next: { readonly after: Position | null; readonly lastArrival: number } | null;
}

/**
 * Where failed runs and tokens live. The contract, as code, is test/engines/exercise.ts; every engine passes it.
 *
 * Order: by createdAt, then by arrival; arrival follows the order of commits, and of the batch within one.
 * Text compares by its UTF-8 bytes: exact and case-sensitive.
 * Tenants: every call names one and neither reads nor changes anything of another.
 * Time: no call holds the event loop or a connection beyond the store's budget. A page may end early for it, even
 * empty, with `next` set.
 * Errors: `disk_full`, `overloaded` and `store_unavailable` (DloError) say that a write was not done. On a failed
 * fsync or a corrupt file nothing can be promised any more: the engine calls `onFatal` and answers nothing.
 */
export interface Store {
  page(tenant: string, query: ListQuery): Promise<Page>;

  /** One record; null when the tenant has none of this id. */
  get(tenant: string, dlqId: string): Promise<StoredRun | null>;

  /** How many records the tenant has; of all tenants when null. */
  count(tenant: string | null): Promise<number>;

  /**
   * Stores all of the runs or none, and resolves when they are durable. A dlqId that exists is replaced in its
   * place: createdAt and arrival stay what they were at first.
   */
  put(tenant: string, runs: readonly FailedRun[]): Promise<void>;

  /** Deletes those of the ids that exist, and tells how many they were. */
  deleteIds(tenant: string, dlqIds: readonly string[]): Promise<number>;

  /** Deletes the earliest matches. */
  deleteMatching(tenant: string, step: DeleteStep): Promise<Deleted>;

  /** The token of this hash, whether or not it is still usable. */
  findToken(hash: string): Promise<Token | null>;
  listTokens(): Promise<Token[]>;
  addToken(token: Token): Promise<void>;
  /** False when there is no such token, or it was revoked before. */
  revokeToken(id: string, now: number): Promise<boolean>;

  /** Resolves when the store can answer reads and take writes; fails with the reason otherwise. */
  check(): Promise<void>;
  close(): Promise<void>;
}
