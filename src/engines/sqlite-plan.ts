import type { Filter, Selection } from "../query.js";
import { FILTERS } from "../query.js";
import { WHOLE } from "./range.js";
import { COLUMNS, type Condition, countWalk, type Plan } from "./select.js";
import type { Database } from "./sqlite-database.js";

/** Index entries that a walk with tests passes before other requests get their turn. */
export const SLICE = 4_000;
/** Where a filter has no kept count, its matches are counted so far; beyond that it may be as good as everything. */
const COUNT_CAP = SLICE + 1;

/** Turns a selection into the way it is read. */
export class Planner {
  readonly #db: Database;
  readonly #tenants = new Map<string, number>();

  constructor(db: Database) {
    this.#db = db;
  }

  /**
   * Chooses the index: of several filters the one that the fewest runs meet, by the counts kept for each value.
   * Null when some filter has no value that any run has: then nothing matches.
   */
  plan(tenantName: string, selection: Selection, lastArrival: number | null = null): Plan | null {
    const tenant = this.tenantId(tenantName);
    if (tenant === undefined) return null;
    const base = { tenant, walk: null, tests: [], lastArrival };
    const { filters } = selection;
    if (filters.length === 0) return { ...base, cost: Number.POSITIVE_INFINITY };
    const candidates: { condition: Condition; cost: number }[] = [];
    for (const filter of filters) {
      const candidate = this.#resolve(tenant, filter, filters.length > 1 || lastArrival !== null);
      if (candidate.condition.values.length === 0) return null;
      candidates.push(candidate);
    }
    const best = candidates.reduce((a, b) => (b.cost < a.cost ? b : a));
    const tests = candidates.filter((candidate) => candidate !== best).map((candidate) => candidate.condition);
    return { ...base, walk: best.condition, tests, cost: best.cost };
  }

  /** A filter's values as the columns hold them, and how many runs have them. */
  #resolve(tenant: number, filter: Filter, costed: boolean): { condition: Condition; cost: number } {
    const column = COLUMNS[filter.name];
    const { counted, kind } = FILTERS.find(({ name }) => name === filter.name) as (typeof FILTERS)[number];
    if (counted) {
      const sql = "SELECT id, runs FROM term WHERE tenant = ? AND filter = ? AND value = ?";
      const terms = filter.values
        .map((value) => this.#db.get(sql, tenant, filter.name, value))
        .filter((term) => term !== undefined);
      const cost = terms.reduce((sum, term) => sum + Number(term["runs"]), 0);
      return { condition: { column, values: terms.map((term) => term["id"] as number) }, cost };
    }
    const values = filter.values.map((value) => (kind === "integer" ? BigInt(value) : value));
    const condition = { column, values };
    if (!costed) return { condition, cost: 0 };
    const walk = { tenant, walk: condition, tests: [], cost: 0, lastArrival: null };
    const { text, values: bound } = countWalk(walk, WHOLE, COUNT_CAP);
    const count = Number(this.#db.get(text, ...bound)?.["n"]);
    return { condition, cost: count < COUNT_CAP ? count : Number.POSITIVE_INFINITY };
  }

  tenantId(name: string): number | undefined {
    let id = this.#tenants.get(name);
    if (id === undefined) {
      id = this.#db.get("SELECT id FROM tenant WHERE name = ?", name)?.["id"] as number | undefined;
      if (id !== undefined) this.#tenants.set(name, id);
    }
    return id;
  }
}
