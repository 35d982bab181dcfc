import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type FailedRun, wireJson } from "#dlo/failed-run.js";
import { PAGE_BYTES, type Page } from "#dlo/page.js";
import { EVERYTHING, FILTERS, type Filter, type ListQuery, type Selection } from "#dlo/query.js";
import type { Store } from "#dlo/store.js";
import type { Token } from "#dlo/token.js";
import { aChange, aQuery, aRun, aSelection, type Change } from "../support/arbitrary.js";
import { Model } from "../support/model.js";
import { makeRun, NOW, parseRecords } from "../support/runs.js";

export interface Opened {
  readonly store: Store;
  /** Closes the store and opens the same data again. */
  readonly reopen: () => Promise<Store>;
  /** Closes the store and removes its data. */
  readonly destroy: () => Promise<void>;
}

export interface OpenOptions {
  readonly budgetMs: number;
}

const LIST: ListQuery = { ...EVERYTHING, order: "earliestFirst", count: 100, after: null };

function where(...filters: Filter[]): Selection {
  return { ...EVERYTHING, filters };
}

/** Every page of a listing, in turn. */
async function* walk(store: Store, tenant: string, query: ListQuery): AsyncGenerator<Page> {
  let after = query.after;
  for (;;) {
    const page = await store.page(tenant, { ...query, after });
    yield page;
    if (page.next === null) return;
    after = page.next;
  }
}

async function idsOf(store: Store, tenant: string, query: Partial<ListQuery> = {}): Promise<string[]> {
  const ids: string[] = [];
  for await (const page of walk(store, tenant, { ...LIST, ...query })) {
    ids.push(...parseRecords(page.records).map((record) => String(record["dlqId"])));
  }
  return ids;
}

/** The contract of `Store`, as code: each engine calls this with a way to open it. */
export function exercise(engine: string, open: (options: OpenOptions) => Promise<Opened>): void {
  describe(`${engine}: the store's contract`, () => {
    let opened: Opened;
    let store: Store;

    beforeEach(async () => {
      opened = await open({ budgetMs: 60_000 });
      store = opened.store;
    });
    afterEach(() => opened.destroy());

    describe("order", () => {
      it("is by createdAt, then by arrival, in both directions", async () => {
        await store.put("t", [makeRun({ dlqId: "late", createdAt: 9 }), makeRun({ dlqId: "tie-1", createdAt: 5 })]);
        await store.put("t", [makeRun({ dlqId: "early", createdAt: 0 }), makeRun({ dlqId: "tie-2", createdAt: 5 })]);
        expect(await idsOf(store, "t")).toEqual(["early", "tie-1", "tie-2", "late"]);
        expect(await idsOf(store, "t", { order: "latestFirst" })).toEqual(["late", "tie-2", "tie-1", "early"]);
      });

      it("holds for many records of one millisecond and for the extremes of createdAt", async () => {
        const runs = Array.from({ length: 2_500 }, (_, n) => makeRun({ dlqId: `n${n}`, createdAt: 7 }));
        const last = makeRun({ dlqId: "last", createdAt: 2 ** 42 - 1 });
        await store.put("t", [last, ...runs, makeRun({ dlqId: "first", createdAt: 0 })]);
        const expected = ["first", ...runs.map((run) => run.dlqId), "last"];
        expect(await idsOf(store, "t", { count: 97 })).toEqual(expected);
        expect(await idsOf(store, "t", { count: 97, order: "latestFirst" })).toEqual(expected.toReversed());
      });
    });

    describe("pages", () => {
      it("hands back the wire JSON as it was made, records joined by commas", async () => {
        const runs = [makeRun({ dlqId: "1", body: 'tab\t"quote" \u0000 NUL é 湯' }), makeRun({ dlqId: "2" })];
        await store.put("t", runs);
        const page = await store.page("t", LIST);
        expect(page.count).toBe(2);
        const text = page.records.map((part) => Buffer.from(part).toString("utf8")).join(",");
        expect(text).toBe(runs.map((run) => wireJson(run)).join(","));
      });

      it("says that it is the last exactly when nothing further matches", async () => {
        const runs = Array.from({ length: 6 }, (_, n) =>
          makeRun({ dlqId: `n${n}`, createdAt: n, label: n < 3 ? "a" : "b" }),
        );
        await store.put("t", runs);
        expect((await store.page("t", { ...LIST, count: 6 })).next).toBeNull();
        expect((await store.page("t", { ...LIST, count: 5 })).next).not.toBeNull();
        const filters: Filter[] = [{ name: "label", values: ["a"] }];
        expect((await store.page("t", { ...LIST, filters, count: 3 })).next).toBeNull();
        expect((await store.page("t", { ...LIST, filters, count: 2 })).next).not.toBeNull();
      });

      it("goes on where the row it stood on is gone", async () => {
        await store.put(
          "t",
          ["a", "b", "c", "d"].map((dlqId, n) => makeRun({ dlqId, createdAt: n })),
        );
        for (const order of ["earliestFirst", "latestFirst"] as const) {
          const first = await store.page("t", { ...LIST, order, count: 2 });
          const [, second] = parseRecords(first.records);
          await store.deleteIds("t", [String(second?.["dlqId"])]);
          const rest = await store.page("t", { ...LIST, order, count: 2, after: first.next });
          const ids = parseRecords(rest.records).map((record) => record["dlqId"]);
          expect(ids).toEqual(order === "earliestFirst" ? ["c", "d"] : ["a"]);
          expect(rest.next).toBeNull();
        }
      });

      it("ends early at its byte limit, never before its first record", async () => {
        const sizes = [3_000_000, 3_000_000, 3_000_000, 10, 4_000_000, 4_100_000, 70_000, 5];
        await store.put(
          "t",
          sizes.map((size, n) => makeRun({ dlqId: `n${n}`, createdAt: n, body: "x".repeat(size) })),
        );
        for (const order of ["earliestFirst", "latestFirst"] as const) {
          const seen: string[] = [];
          let pages = 0;
          for await (const page of walk(store, "t", { ...LIST, order })) {
            const records = parseRecords(page.records);
            const bytes = page.records.reduce((sum, part) => sum + part.length, 0) - (records.length - 1);
            expect(records.length).toBeGreaterThan(0);
            expect(records.length === 1 || bytes <= PAGE_BYTES).toBe(true);
            seen.push(...records.map((record) => String(record["dlqId"])));
            pages++;
          }
          expect(pages).toBe(3);
          const expected = sizes.map((_, n) => `n${n}`);
          expect(seen).toEqual(order === "earliestFirst" ? expected : expected.toReversed());
        }
      });

      it("fills a page to its byte limit exactly", async () => {
        const overhead = Buffer.byteLength(wireJson(makeRun({ dlqId: "n0", createdAt: 0, body: "" })));
        const body = "x".repeat(PAGE_BYTES / 4 - overhead);
        await store.put(
          "t",
          Array.from({ length: 5 }, (_, n) => makeRun({ dlqId: `n${n}`, createdAt: n, body })),
        );
        const page = await store.page("t", LIST);
        expect(page.count).toBe(4);
        expect(page.next).not.toBeNull();
      });
    });

    describe("filters", () => {
      const fields = {
        workflowUrl: "https://x.example/w",
        workflowRunId: "wfr_1",
        workflowCreatedAt: 1_700_000_000_000,
        label: "blue",
        failureFunctionState: "CALLBACK_FAIL",
        callerIP: "10.0.0.9",
        flowControlKey: "key",
        url: "https://x.example/s",
        responseStatus: 503,
        dlqId: "wanted",
      };

      for (const { name, field } of FILTERS) {
        it(`${name} matches exactly, in both directions, and nothing else`, async () => {
          await store.put("t", [
            makeRun({ createdAt: 1 }),
            makeRun({ ...fields, createdAt: 2 }),
            makeRun({ createdAt: 3 }),
          ]);
          await store.put("other", [makeRun({ ...fields, createdAt: 2 })]);
          const value = String(fields[field as keyof typeof fields]);
          for (const order of ["earliestFirst", "latestFirst"] as const) {
            expect(await idsOf(store, "t", { filters: [{ name, values: [value] }], order })).toEqual(["wanted"]);
          }
          const near = field === "workflowCreatedAt" || field === "responseStatus" ? `${value}0` : value.toUpperCase();
          const elsewhere = near === value ? `${value}0` : near;
          expect(await idsOf(store, "t", { filters: [{ name, values: [elsewhere] }] })).toEqual([]);
        });
      }

      it("compare by code points: no folding, no trimming, no normalising", async () => {
        const labels = ["é", "e\u0301", "É", " é", "é ", "Ⅸ", "\u{1f600}", "a%b_c"];
        await store.put(
          "t",
          labels.map((label, n) => makeRun({ dlqId: `n${n}`, createdAt: n, label })),
        );
        for (const [n, label] of labels.entries()) {
          expect(await idsOf(store, "t", { filters: [{ name: "label", values: [label] }] })).toEqual([`n${n}`]);
        }
      });

      it("take a hundred values at once, in order", async () => {
        const runs = Array.from({ length: 300 }, (_, n) =>
          makeRun({ dlqId: `n${n}`, createdAt: n % 50, label: `l${n % 150}` }),
        );
        await store.put("t", runs);
        const values = Array.from({ length: 100 }, (_, n) => `l${n}`);
        const model = new Model();
        model.put(runs);
        const expected = model.matches(where({ name: "label", values })).map(({ run }) => run.dlqId);
        expect(await idsOf(store, "t", { filters: [{ name: "label", values }], count: 17 })).toEqual(expected);
      });
    });

    describe("get and count", () => {
      it("find one record by its id, of any Unicode", async () => {
        const ids = ["plain", "__proto__", "a/b", "..", "é 湯 \u{1f600}", "x".repeat(256)];
        await store.put(
          "t",
          ids.map((dlqId) => makeRun({ dlqId })),
        );
        for (const dlqId of ids) {
          const record = await store.get("t", dlqId);
          expect(JSON.parse(record?.json ?? "").dlqId).toBe(dlqId);
        }
        expect(await store.get("t", "absent")).toBeNull();
        expect(await store.get("nobody", "plain")).toBeNull();
        expect(await store.count("t")).toBe(ids.length);
        expect(await store.count("nobody")).toBe(0);
      });
    });

    describe("put", () => {
      it("replaces in place: createdAt and arrival stay, all else is new", async () => {
        await store.put("t", [
          makeRun({ dlqId: "a", createdAt: 5, label: "old", body: "1" }),
          makeRun({ dlqId: "b", createdAt: 5 }),
        ]);
        const replacement = makeRun({ dlqId: "a", createdAt: 99, label: "new", responseStatus: 500 });
        await store.put("t", [replacement]);
        expect(await idsOf(store, "t")).toEqual(["a", "b"]);
        const record = await textOf(store, "a");
        expect(record).toBe(wireJson(replacement, 5));
        expect(await idsOf(store, "t", { filters: [{ name: "label", values: ["old"] }] })).toEqual([]);
        expect(await idsOf(store, "t", { filters: [{ name: "label", values: ["new"] }] })).toEqual(["a"]);
        expect(await store.count("t")).toBe(2);
      });

      it("takes the last of two with one id, in the first's place", async () => {
        const twice = [
          makeRun({ dlqId: "a", createdAt: 5, body: "1" }),
          makeRun({ dlqId: "a", createdAt: 1, body: "2" }),
        ];
        await store.put("t", [twice[0] as FailedRun, makeRun({ dlqId: "b", createdAt: 5 }), twice[1] as FailedRun]);
        expect(await idsOf(store, "t")).toEqual(["a", "b"]);
        expect(await textOf(store, "a")).toBe(wireJson(twice[1] as FailedRun, 5));
      });

      it("keeps tenants apart where ids are the same", async () => {
        await store.put("t", [makeRun({ dlqId: "a", body: "mine" })]);
        await store.put("u", [makeRun({ dlqId: "a", body: "yours" })]);
        expect(JSON.parse((await textOf(store, "a")) ?? "").body).toBe("mine");
        expect(await store.deleteIds("u", ["a"])).toBe(1);
        expect(await store.count("t")).toBe(1);
      });

      it("stores everything that many writers send at once, each batch in its order", async () => {
        const batches = Array.from({ length: 40 }, (_, b) =>
          Array.from({ length: 5 }, (_, n) => makeRun({ dlqId: `${b}-${n}`, createdAt: 1, label: `writer ${b}` })),
        );
        await Promise.all(batches.map((runs) => store.put("t", runs)));
        expect(await store.count("t")).toBe(200);
        for (const b of [0, 17, 39]) {
          const filters: Filter[] = [{ name: "label", values: [`writer ${b}`] }];
          expect(await idsOf(store, "t", { filters })).toEqual(batches[b]?.map((run) => run.dlqId));
        }
      });

      it("is there after a restart, order and all", async () => {
        await store.put("t", [makeRun({ dlqId: "a", createdAt: 5 }), makeRun({ dlqId: "b", createdAt: 5 })]);
        store = await opened.reopen();
        await store.put("t", [makeRun({ dlqId: "c", createdAt: 5 })]);
        expect(await idsOf(store, "t")).toEqual(["a", "b", "c"]);
      });
    });

    describe("delete", () => {
      it("by ids tells how many there were", async () => {
        await store.put("t", [makeRun({ dlqId: "a" }), makeRun({ dlqId: "b" })]);
        expect(await store.deleteIds("t", ["a", "absent", "a"])).toBe(1);
        expect(await store.count("t")).toBe(1);
      });

      it("by filter goes in steps, and leaves alone what arrives after the first", async () => {
        await store.put(
          "t",
          Array.from({ length: 7 }, (_, n) => makeRun({ dlqId: `n${n}`, createdAt: n, label: "x" })),
        );
        const selection = where({ name: "label", values: ["x"] });
        const first = await store.deleteMatching("t", { selection, count: 3, after: null, lastArrival: null });
        expect(first.deleted).toBe(3);
        await store.put("t", [
          makeRun({ dlqId: "new-early", createdAt: 0, label: "x" }),
          makeRun({ dlqId: "new", createdAt: 5, label: "x" }),
        ]);
        const second = await store.deleteMatching("t", { selection, count: 3, ...(first.next ?? fail()) });
        expect(second.deleted).toBe(3);
        const third = await store.deleteMatching("t", { selection, count: 3, ...(second.next ?? fail()) });
        expect(third).toEqual({ deleted: 1, next: null });
        expect(await idsOf(store, "t")).toEqual(["new-early", "new"]);
      });

      it("says that it is done when exactly the count was left", async () => {
        await store.put(
          "t",
          Array.from({ length: 4 }, (_, n) => makeRun({ dlqId: `n${n}`, createdAt: n })),
        );
        const step = { selection: EVERYTHING, count: 2, after: null, lastArrival: null };
        const first = await store.deleteMatching("t", step);
        const second = await store.deleteMatching("t", { ...step, ...(first.next ?? fail()) });
        expect([first.deleted, second]).toEqual([2, { deleted: 2, next: null }]);
      });

      it("never gives an arrival twice, so that a delete's bound holds", async () => {
        await store.put("t", [makeRun({ dlqId: "a", createdAt: 1 }), makeRun({ dlqId: "b", createdAt: 2 })]);
        const step = { selection: EVERYTHING, count: 1, after: null, lastArrival: null };
        const first = await store.deleteMatching("t", step);
        await store.deleteIds("t", ["b"]);
        await store.put("t", [makeRun({ dlqId: "c", createdAt: 2 })]);
        expect(await store.deleteMatching("t", { ...step, ...(first.next ?? fail()) })).toEqual({
          deleted: 0,
          next: null,
        });
        expect(await idsOf(store, "t")).toEqual(["c"]);
      });
    });

    describe("budget", () => {
      it("may end a page early, yet the walk stays exact", async () => {
        await opened.destroy();
        opened = await open({ budgetMs: 0 });
        store = opened.store;
        const runs = Array.from({ length: 20_000 }, (_, n) =>
          makeRun({
            dlqId: `n${n}`,
            createdAt: n,
            label: n % 2 ? "a" : "b",
            flowControlKey: n % 2 || n % 5_000 === 0 ? "k" : "j",
          }),
        );
        for (let n = 0; n < runs.length; n += 5_000) await store.put("t", runs.slice(n, n + 5_000));
        const filters: Filter[] = [
          { name: "label", values: ["b"] },
          { name: "flowControlKey", values: ["k"] },
        ];
        for (const order of ["earliestFirst", "latestFirst"] as const) {
          const ids = await idsOf(store, "t", { filters, order });
          const expected = ["n0", "n5000", "n10000", "n15000"];
          expect(ids).toEqual(order === "earliestFirst" ? expected : expected.toReversed());
        }
        const first = await store.page("t", { ...LIST, filters });
        expect(first.count).toBeLessThan(4);
        expect(first.next).not.toBeNull();
        let step = await store.deleteMatching("t", {
          selection: where(...filters),
          count: 100,
          after: null,
          lastArrival: null,
        });
        let deleted = step.deleted;
        while (step.next !== null) {
          step = await store.deleteMatching("t", { selection: where(...filters), count: 100, ...step.next });
          deleted += step.deleted;
        }
        expect(deleted).toBe(4);
        expect(await store.count("t")).toBe(runs.length - 4);
      });

      it("is not needed to know the end of a sparse listing", async () => {
        const runs = Array.from({ length: 9_000 }, (_, n) =>
          makeRun({
            dlqId: `n${n}`,
            createdAt: n,
            label: n % 2 ? "a" : "b",
            flowControlKey: n < 4 ? "k" : n % 2 ? "k" : "j",
          }),
        );
        await store.put("t", runs);
        const filters: Filter[] = [
          { name: "label", values: ["b"] },
          { name: "flowControlKey", values: ["k"] },
        ];
        const page = await store.page("t", { ...LIST, filters, count: 2 });
        expect([page.count, page.next]).toEqual([2, null]);
      });
    });

    describe("tokens", () => {
      const token: Token = {
        id: "tok_1",
        tenant: "t",
        name: "first",
        scopes: ["read", "manage"],
        hash: "ab".repeat(32),
        createdAt: NOW,
        expiresAt: NOW + 1,
        revokedAt: null,
      };

      it("are found by hash, listed, and revoked once", async () => {
        await store.addToken(token);
        await store.addToken({ ...token, id: "tok_2", hash: "cd".repeat(32), expiresAt: null, createdAt: NOW + 1 });
        expect(await store.findToken(token.hash)).toEqual(token);
        expect(await store.findToken("ef".repeat(32))).toBeNull();
        expect(await store.revokeToken("tok_1", NOW + 5)).toBe(true);
        expect(await store.revokeToken("tok_1", NOW + 6)).toBe(false);
        expect(await store.revokeToken("tok_9", NOW)).toBe(false);
        expect((await store.listTokens()).map(({ id, revokedAt }) => [id, revokedAt])).toEqual([
          ["tok_1", NOW + 5],
          ["tok_2", null],
        ]);
      });

      it("refuse a second of the same hash, and go on working", async () => {
        await store.addToken(token);
        await expect(store.addToken({ ...token, id: "tok_2" })).rejects.toMatchObject({ code: "internal" });
        await store.put("t", [makeRun({ dlqId: "a" })]);
        expect(await store.count("t")).toBe(1);
      });
    });

    describe("against the plain model", () => {
      it("pages the same, whatever is put, replaced and deleted between pages", async () => {
        let tenant = 0;
        const arrivals = { last: 0 };
        await fc.assert(
          fc.asyncProperty(
            fc.array(aRun, { maxLength: 80 }),
            aQuery,
            fc.array(fc.option(aChange, { nil: undefined }), { maxLength: 12 }),
            async (runs, query, changes) => {
              const name = `model-${++tenant}`;
              const model = new Model(arrivals);
              await apply(store, name, model, { put: runs });
              const stayed = new Set(model.matches(query).map(({ run }) => run.dlqId));
              const seen: string[] = [];
              let after = query.after;
              for (let turn = 0; turn < 200; turn++) {
                const asked = { ...query, after };
                const page = await store.page(name, asked);
                const expected = model.page(asked);
                expect(page.records.map((part) => Buffer.from(part).toString()).join(",")).toBe(
                  expected.records.join(","),
                );
                expect(page.count).toBe(expected.records.length);
                expect(page.next !== null).toBe(expected.more);
                seen.push(...parseRecords(page.records).map((record) => String(record["dlqId"])));
                if (page.next === null) break;
                after = page.next;
                const change = changes[turn];
                if (change !== undefined) {
                  await apply(store, name, model, change);
                  const now = new Set(model.matches(query).map(({ run }) => run.dlqId));
                  for (const id of stayed) if (!now.has(id)) stayed.delete(id);
                  // Put again under an old id is a new arrival: it did not stay.
                  if ("delete" in change) for (const id of change.delete) stayed.delete(id);
                }
              }
              expect(new Set(seen).size).toBe(
                seen.filter((id) => stayed.has(id)).length + new Set(seen.filter((id) => !stayed.has(id))).size,
              );
              for (const id of stayed) expect(seen.filter((other) => other === id)).toEqual([id]);
              expect(await store.count(name)).toBe(model.size);
            },
          ),
          { numRuns: 150 },
        );
      });

      it("deletes the same, in any steps", async () => {
        let tenant = 0;
        await fc.assert(
          fc.asyncProperty(
            fc.array(aRun, { maxLength: 80 }),
            aSelection,
            fc.integer({ min: 1, max: 20 }),
            fc.array(aRun, { maxLength: 5 }),
            async (runs, selection, count, later) => {
              const name = `delete-${++tenant}`;
              const model = new Model();
              await apply(store, name, model, { put: runs });
              const doomed = model.matches(selection).map(({ run }) => run.dlqId);
              let step = await store.deleteMatching(name, { selection, count, after: null, lastArrival: null });
              let deleted = step.deleted;
              expect(step.deleted).toBe(Math.min(count, doomed.length));
              model.delete(doomed);
              const fresh = later.filter((run) => !runs.some((old) => old.dlqId === run.dlqId));
              await apply(store, name, model, { put: fresh });
              while (step.next !== null) {
                step = await store.deleteMatching(name, { selection, count, ...step.next });
                deleted += step.deleted;
              }
              expect(deleted).toBe(doomed.length);
              expect((await idsOf(store, name)).sort()).toEqual(model.ids().sort());
            },
          ),
          { numRuns: 80 },
        );
      });
    });
  });
}

async function apply(store: Store, tenant: string, model: Model, change: Change): Promise<void> {
  if ("put" in change) {
    await store.put(tenant, change.put);
    model.put(change.put);
  } else {
    expect(await store.deleteIds(tenant, change.delete)).toBe(model.delete(change.delete));
  }
}

async function textOf(store: Store, dlqId: string): Promise<string | null> {
  const record = await store.get("t", dlqId);
  expect(record?.bytes).toBe(Buffer.byteLength(record?.json ?? ""));
  return record?.json ?? null;
}

function fail(): never {
  throw new Error("the delete should have had more to do");
}
