import { randomBytes } from "node:crypto";
import type { FailedRun } from "../failed-run.js";
import { MAX_RECORD_BYTES, type Origin, readRun } from "../ingest.js";
import type { Store } from "../store.js";
import { demoRuns } from "./demo-runs.js";

export interface DemoOptions {
  readonly tenant: string;
  readonly count: number;
  readonly seed: number;
  /** The newest run is a little older than this. */
  readonly until: number;
  readonly onProgress?: (done: number) => void;
}

const BATCH = 1_000;

/** Puts believable runs into the store. Ids come from the seed too: the same call again changes nothing. */
export async function fillStore(store: Store, options: DemoOptions): Promise<void> {
  const { tenant, count, seed, until } = options;
  const origin: Origin = {
    ...{ tenant, format: "json", idempotencyKey: null, maxRecordBytes: MAX_RECORD_BYTES },
    ...{ now: () => until, randomBytes },
  };
  let batch: FailedRun[] = [];
  let done = 0;
  let storing: Promise<void> = Promise.resolve();
  const flush = async (): Promise<void> => {
    // One batch is made while the one before it is stored.
    await storing;
    options.onProgress?.(done);
    storing = store.put(tenant, batch);
    done += batch.length;
    batch = [];
  };
  for (const run of demoRuns(count, seed, until)) {
    // Through JSON, as any producer's record: what is undefined is then absent.
    batch.push(readRun(JSON.parse(JSON.stringify(run)), "The record", 0, origin));
    if (batch.length === BATCH) await flush();
  }
  await flush();
  await storing;
  options.onProgress?.(done);
}
