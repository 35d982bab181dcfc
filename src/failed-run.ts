import type { FilterName } from "./query.js";

/** A failed run on its way into the store: checked, and its wire JSON made once, as it will be sent. */
export interface FailedRun {
  readonly dlqId: string;
  readonly createdAt: number;
  /** Wire JSON from behind createdAt to the closing brace. */
  readonly tail: string;
  /** What the filters compare, as text; a filter whose field the run lacks is absent. */
  readonly keys: { readonly [Name in FilterName]?: string };
}

/** A replaced run keeps its first createdAt, so the store says with which one the record is sent. */
export function wireJson(run: FailedRun, createdAt: number = run.createdAt): string {
  return `{"dlqId":${JSON.stringify(run.dlqId)},"createdAt":${createdAt}${run.tail}`;
}
