import { randomBytes } from "node:crypto";
import type { FailedRun } from "#dlo/failed-run.js";
import { MAX_RECORD_BYTES, type Origin, readRun } from "#dlo/ingest.js";

export const NOW = 1_763_000_000_000;

export const ORIGIN: Origin = {
  tenant: "default",
  format: "json",
  idempotencyKey: null,
  now: () => NOW,
  randomBytes,
  maxRecordBytes: MAX_RECORD_BYTES,
};

/** A producer's record, through ingest, as the store takes it. */
export function makeRun(fields: Record<string, unknown> = {}): FailedRun {
  return readRun({ ...fields }, "The record", 0, ORIGIN);
}

export function parseRecords(parts: readonly Uint8Array[]): Record<string, unknown>[] {
  return JSON.parse(`[${parts.map((part) => Buffer.from(part).toString("utf8")).join(",")}]`);
}
