import fc from "fast-check";
import type { FailedRun } from "#dlo/failed-run.js";
import type { Filter, ListQuery, Selection } from "#dlo/query.js";
import { makeRun } from "./runs.js";

const LABELS = ["a", "b", "a,b", "é", "A"];
const URLS = ["https://x.example/1", "https://x.example/2", "https://x.example/1,2"];
const STATES = ["CALLBACK_SUCCESS", "CALLBACK_FAIL"];
const STATUSES = [500, 503, 404];
const RUN_IDS = ["wfr_1", "wfr_2", "wfr_3"];

function maybe<T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> {
  return fc.option(arbitrary, { nil: undefined, freq: 3 });
}

/** Few values of everything, so that timestamps tie, filters overlap and ids come again. */
export const aRun: fc.Arbitrary<FailedRun> = fc
  .record({
    dlqId: fc.integer({ min: 0, max: 60 }).map((n) => `id-${n}`),
    createdAt: fc.integer({ min: 0, max: 4 }),
    label: maybe(fc.constantFrom(...LABELS)),
    workflowUrl: maybe(fc.constantFrom(...URLS)),
    url: maybe(fc.constantFrom(...URLS)),
    workflowRunId: maybe(fc.constantFrom(...RUN_IDS)),
    workflowCreatedAt: maybe(fc.integer({ min: -1, max: 1 })),
    failureFunctionState: maybe(fc.constantFrom(...STATES)),
    callerIP: maybe(fc.constantFrom("10.0.0.1", "::1")),
    flowControlKey: maybe(fc.constantFrom("k1", "k2")),
    responseStatus: maybe(fc.constantFrom(...STATUSES)),
    body: maybe(fc.string({ maxLength: 20, unit: "grapheme" })),
  })
  .map((fields) => makeRun(JSON.parse(JSON.stringify(fields))));

function several(name: Filter["name"], values: readonly string[]): fc.Arbitrary<Filter> {
  return fc
    .uniqueArray(fc.constantFrom(...values, "absent"), { minLength: 1, maxLength: 4 })
    .map((chosen) => ({ name, values: chosen }));
}

function one(name: Filter["name"], values: readonly string[]): fc.Arbitrary<Filter> {
  return fc.constantFrom(...values).map((value) => ({ name, values: [value] }));
}

const FILTER_ARBITRARIES: readonly fc.Arbitrary<Filter>[] = [
  several("label", LABELS),
  several("workflowUrl", URLS),
  several("failureFunctionState", STATES),
  several("callerIp", ["10.0.0.1", "::1"]),
  several("flowControlKey", ["k1", "k2"]),
  several(
    "dlqIds",
    Array.from({ length: 60 }, (_, n) => `id-${n}`),
  ),
  one("workflowRunId", RUN_IDS),
  one("workflowCreatedAt", ["-1", "0", "1", "9223372036854775807"]),
  one("url", URLS),
  one("responseStatus", STATUSES.map(String)),
];

export const aSelection: fc.Arbitrary<Selection> = fc
  .record({
    filters: fc.uniqueArray(fc.oneof(...FILTER_ARBITRARIES), { maxLength: 3, selector: (filter) => filter.name }),
    dates: fc.tuple(fc.integer({ min: 0, max: 4 }), fc.integer({ min: 0, max: 4 })),
    dated: fc.boolean(),
  })
  .map(({ filters, dates, dated }) => {
    const [from, to] = dates.sort((a, b) => a - b);
    return dated ? { filters, from, to } : { filters, from: 0, to: 2 ** 42 - 1 };
  });

export const aQuery: fc.Arbitrary<ListQuery> = fc
  .record({
    selection: aSelection,
    order: fc.constantFrom("earliestFirst" as const, "latestFirst" as const),
    count: fc.integer({ min: 1, max: 12 }),
  })
  .map(({ selection, order, count }) => ({ ...selection, order, count, after: null }));

export type Change = { readonly put: FailedRun[] } | { readonly delete: string[] };

export const aChange: fc.Arbitrary<Change> = fc.oneof(
  fc.array(aRun, { maxLength: 6 }).map((put) => ({ put })),
  fc
    .array(
      fc.integer({ min: 0, max: 60 }).map((n) => `id-${n}`),
      { maxLength: 6 },
    )
    .map((ids) => ({ delete: ids })),
);
