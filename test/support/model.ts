import { type FailedRun, wireJson } from "#dlo/failed-run.js";
import type { Position } from "#dlo/page.js";
import type { ListQuery, Selection } from "#dlo/query.js";

interface Kept {
  run: FailedRun;
  readonly createdAt: number;
  readonly arrival: number;
}

/** What a store must do, in the plainest way: an array, filtered and sorted anew for every question. */
export class Model {
  readonly #kept = new Map<string, Kept>();
  readonly #arrivals: { last: number };

  /** Arrivals are counted over all tenants of a store, so models of several tenants share the counter. */
  constructor(arrivals = { last: 0 }) {
    this.#arrivals = arrivals;
  }

  put(runs: readonly FailedRun[]): void {
    for (const run of runs) {
      const old = this.#kept.get(run.dlqId);
      if (old !== undefined) old.run = run;
      else this.#kept.set(run.dlqId, { run, createdAt: run.createdAt, arrival: ++this.#arrivals.last });
    }
  }

  delete(dlqIds: readonly string[]): number {
    return dlqIds.filter((dlqId) => this.#kept.delete(dlqId)).length;
  }

  get size(): number {
    return this.#kept.size;
  }

  ids(): string[] {
    return [...this.#kept.keys()];
  }

  matches(selection: Selection, order: ListQuery["order"] = "earliestFirst"): Kept[] {
    const { filters, from, to } = selection;
    const found = [...this.#kept.values()].filter(
      ({ run, createdAt }) =>
        createdAt >= from &&
        createdAt <= to &&
        filters.every(({ name, values }) => values.some((value) => value === run.keys[name])),
    );
    found.sort((a, b) => a.createdAt - b.createdAt || a.arrival - b.arrival);
    return order === "earliestFirst" ? found : found.reverse();
  }

  page(query: ListQuery): { records: string[]; more: boolean } {
    const { order, count, after } = query;
    const beyond = this.matches(query, order).filter((kept) => after === null || isBeyond(kept, after, order));
    const records = beyond.slice(0, count).map(({ run, createdAt }) => wireJson(run, createdAt));
    return { records, more: beyond.length > count };
  }
}

function isBeyond(kept: Position, after: Position, order: ListQuery["order"]): boolean {
  const difference = kept.createdAt - after.createdAt || kept.arrival - after.arrival;
  return order === "earliestFirst" ? difference > 0 : difference < 0;
}
