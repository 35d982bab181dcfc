import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { migrateSqlite, readMigrations } from "#dlo/engines/migrate.js";
import { COLUMNS, type Plan, selectPage } from "#dlo/engines/select.js";
import { openSqlite } from "#dlo/engines/sqlite.js";
import { Database } from "#dlo/engines/sqlite-database.js";
import { lockSqlite } from "#dlo/engines/sqlite-lock.js";
import { FILTERS } from "#dlo/query.js";
import type { Store } from "#dlo/store.js";
import { makeRun, NOW, parseRecords } from "../support/runs.js";

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "dlo-file-"));
  path = join(folder, "dlo.db");
});
afterEach(() => rmSync(folder, { recursive: true }));

function open(onFatal: (reason: string) => void = () => undefined): Store {
  return openSqlite({ path, now: () => NOW, budgetMs: 2_000, onFatal });
}

describe("query plans", () => {
  const range = { low: Buffer.alloc(12), high: Buffer.alloc(12, 0xff) };

  function planOf(db: Database, plan: Plan, order: "earliestFirst" | "latestFirst"): string[] {
    const { text, values } = selectPage(plan, order, range, 100, 65_536);
    return db.all(`EXPLAIN QUERY PLAN ${text}`, ...values).map((row) => String(row["detail"]));
  }

  it("walk one index in order for every single filter and for none, in both directions, with and without statistics", async () => {
    const store = open();
    const runs = Array.from({ length: 3_000 }, (_, n) =>
      makeRun({
        ...{
          dlqId: `n${n}`,
          createdAt: n,
          label: n % 3 ? "common" : `rare-${n}`,
          workflowUrl: "https://x.example/w",
          url: "https://x.example/s",
        },
        ...{
          workflowRunId: `wfr_${n}`,
          workflowCreatedAt: n,
          callerIP: "::1",
          flowControlKey: "k",
          responseStatus: 500,
        },
        failureFunctionState: "CALLBACK_FAIL",
      }),
    );
    await store.put("t", runs);
    await store.close();
    const db = new Database(path);
    for (const statistics of [false, true]) {
      if (statistics) db.exec("ANALYZE");
      for (const order of ["earliestFirst", "latestFirst"] as const) {
        const base = { tenant: 1, walk: null, tests: [], cost: 0, lastArrival: null };
        const all = planOf(db, base, order).join(" | ");
        expect(all).toContain("SEARCH run USING INDEX run_all (tenant=? AND place>? AND place<?)");
        expect(all).not.toContain("TEMP B-TREE");
        for (const { name } of FILTERS) {
          if (name === "dlqIds") continue;
          const column = COLUMNS[name];
          const one = planOf(db, { ...base, walk: { column, values: [1] } }, order).join(" | ");
          expect(one).toMatch(
            new RegExp(
              `SEARCH run USING INDEX run_${column} \\((tenant=\\? AND )?${column}=\\? AND place>\\? AND place<\\?\\)`,
            ),
          );
          expect(one).not.toContain("TEMP B-TREE");
          // Several values: each is walked in order, and no more than a page of each reaches the merge.
          const two = planOf(db, { ...base, walk: { column, values: [1, 2] } }, order);
          const walks = two.filter(
            (step) =>
              step.includes(`USING COVERING INDEX run_${column} `) || step.includes(`USING INDEX run_${column} `),
          );
          expect(walks).toHaveLength(2);
          expect(walks.every((step) => step.includes("place>? AND place<?"))).toBe(true);
        }
      }
    }
    db.close();
  });

  it("every filter has its column and its index", () => {
    const db = new Database(path);
    migrateSqlite(db);
    const columns = db.all("SELECT name FROM pragma_table_info('run')").map((row) => row["name"]);
    const indexes = db.all("SELECT name FROM pragma_index_list('run')").map((row) => row["name"]);
    for (const { name } of FILTERS) {
      expect(columns).toContain(COLUMNS[name]);
      expect(indexes).toContain(`run_${COLUMNS[name]}`);
    }
    db.close();
  });

  it("of several filters take the one that fewest runs meet, by counts that stay exact", async () => {
    const store = open();
    const runs = Array.from({ length: 300 }, (_, n) =>
      makeRun({
        dlqId: `n${n}`,
        createdAt: n,
        label: n < 3 ? "rare" : "common",
        flowControlKey: n % 2 ? "odd" : "even",
      }),
    );
    await store.put("t", runs);
    await store.put("t", [makeRun({ dlqId: "n1", label: "common" })]);
    await store.deleteIds("t", ["n2", "n4"]);
    await store.close();
    const db = new Database(path);
    const counts = db
      .all("SELECT filter, value, runs FROM term ORDER BY filter, value")
      .map((row) => Object.values(row));
    expect(counts).toEqual([
      ["flowControlKey", "even", 148],
      ["flowControlKey", "odd", 149],
      ["label", "common", 297],
      ["label", "rare", 1],
    ]);
    expect(db.get("SELECT runs FROM tenant")).toEqual({ runs: 298 });
    db.close();
  });

  it("forget a value that no run has any more", async () => {
    const store = open();
    await store.put("t", [makeRun({ dlqId: "a", label: "once" })]);
    await store.deleteIds("t", ["a"]);
    await store.put("t", [makeRun({ dlqId: "b", label: "once" })]);
    const filters = [{ name: "label" as const, values: ["once"] }];
    const page = await store.page("t", {
      filters,
      from: 0,
      to: NOW * 2,
      order: "earliestFirst",
      count: 5,
      after: null,
    });
    expect(parseRecords(page.records)).toMatchObject([{ dlqId: "b" }]);
    await store.close();
    const db = new Database(path);
    expect(db.get("SELECT count(*) AS n FROM term")).toEqual({ n: 1 });
    db.close();
  });
});

describe("two processes on one file", () => {
  it("fail a write that finds the store locked within seconds, however many wait", async () => {
    const store = open();
    const other = new Database(path);
    other.exec("BEGIN IMMEDIATE");
    const start = performance.now();
    const writes = Array.from({ length: 5 }, (_, n) => store.put("t", [makeRun({ dlqId: `n${n}` })]));
    for (const write of writes)
      await expect(write).rejects.toMatchObject({ code: "overloaded", detail: { retryAfter: 1 } });
    expect(performance.now() - start).toBeLessThan(8_000);
    other.exec("ROLLBACK");
    other.close();
    await store.put("t", [makeRun({ dlqId: "after" })]);
    expect(await store.count("t")).toBe(1);
    await store.close();
  });

  it("let others in while a conjunction of filters without counts is walked", async () => {
    const store = open();
    const runs = Array.from({ length: 9_000 }, (_, n) =>
      makeRun({ dlqId: `n${n}`, createdAt: n, workflowCreatedAt: n % 2, workflowRunId: n % 2 ? "odd" : "even" }),
    );
    await store.put("t", runs);
    const filters = [
      { name: "workflowCreatedAt" as const, values: ["1"] },
      { name: "workflowRunId" as const, values: ["even"] },
    ];
    let turns = 0;
    const count = (): NodeJS.Immediate => setImmediate(() => ++turns < 1_000 && count());
    count();
    const none = await store.page("t", { filters, from: 0, to: NOW, order: "earliestFirst", count: 5, after: null });
    expect([none.count, none.next, turns > 0]).toEqual([0, null, true]);
    await store.close();
  });
});

describe("the file", () => {
  it("is in WAL mode with full synchronisation at every open", () => {
    for (const _ of [1, 2]) {
      const db = new Database(path);
      expect(db.get("PRAGMA journal_mode")).toEqual({ journal_mode: "wal" });
      expect(db.get("PRAGMA synchronous")).toEqual({ synchronous: 2 });
      db.close();
    }
  });

  it("of a newer schema is refused, and left as it is", async () => {
    await open().close();
    const db = new Database(path);
    db.exec("PRAGMA user_version = 999");
    db.close();
    expect(() => open()).toThrow(expect.objectContaining({ code: "schema_too_new" }));
    const again = new Database(path);
    expect(again.get("PRAGMA user_version")).toEqual({ user_version: 999 });
    again.close();
  });

  it("of another program is refused, and left as it is", () => {
    const db = new Database(path);
    db.exec("CREATE TABLE theirs (x)");
    db.close();
    expect(() => open()).toThrow(expect.objectContaining({ code: "invalid_config" }));
    const again = new Database(path);
    expect(again.all("SELECT name FROM sqlite_schema")).toEqual([{ name: "theirs" }]);
    again.close();
  });

  it("that is no database stops the open", () => {
    writeFileSync(path, "this is not a database, and long enough to be read as one ".repeat(40));
    expect(() => open()).toThrow(/is no usable database: SQLite error 26: file is not a database/);
  });

  it("rolls a failed migration back whole", () => {
    const db = new Database(path);
    const bad = { version: 2, name: "002_bad", sql: "CREATE TABLE half (x); CREATE TABLE half (x);" };
    expect(() => migrateSqlite(db, [...readMigrations("sqlite"), bad])).toThrow(/already exists/);
    expect(db.get("PRAGMA user_version")).toEqual({ user_version: 1 });
    expect(db.get("SELECT 1 FROM sqlite_schema WHERE name = 'half'")).toBeUndefined();
    db.close();
  });

  it("is claimed by one service; the claim ends with it", () => {
    const unlock = lockSqlite(path);
    expect(() => lockSqlite(path)).toThrow(expect.objectContaining({ code: "store_in_use" }));
    unlock();
    lockSqlite(path)();
  });

  it("made by many starters at once is made once", async () => {
    const code = `import { openSqlite } from ${JSON.stringify(new URL("../../dist/engines/sqlite.js", import.meta.url).href)};
      const store = openSqlite({ path: ${JSON.stringify(path)}, now: Date.now, budgetMs: 1000, onFatal: (r) => { throw new Error(r); } });
      await store.check(); await store.close();`;
    const ends = Array.from({ length: 6 }, () => run(code)).map(({ ended }) => ended);
    expect(await Promise.all(ends)).toEqual(Array(6).fill({ code: 0, stderr: "" }));
    await open().close();
  });

  it("keeps what was acknowledged through kill -9, once each", async () => {
    const code = `import { openSqlite } from ${JSON.stringify(new URL("../../dist/engines/sqlite.js", import.meta.url).href)};
      const store = openSqlite({ path: ${JSON.stringify(path)}, now: Date.now, budgetMs: 1000, onFatal: () => process.exit(9) });
      const start = Number(process.argv[1]);
      for (let n = start; ; n += 3) {
        const ids = [n, n + 1, n + 2].map((id) => "r" + id);
        await store.put("t", ids.map((dlqId) => ({ dlqId, createdAt: 1, tail: ',"body":""}', keys: { dlqIds: dlqId, label: "l" } })));
        process.stdout.write(ids.join("\\n") + "\\n");
      }`;
    const acknowledged = new Set<string>();
    for (let cycle = 0; cycle < 8; cycle++) {
      const { child, ended } = run(code, [String(cycle * 1_000_000)]);
      let text = "";
      child.stdout?.on("data", (chunk: Buffer) => {
        text += chunk;
      });
      while (text.length < 300) await new Promise((resolve) => setTimeout(resolve, 5));
      await new Promise((resolve) => setTimeout(resolve, 11 * cycle));
      child.kill("SIGKILL");
      await ended;
      // Behind the last line break stands at most a part of a line.
      for (const id of text.split("\n").slice(0, -1)) acknowledged.add(id);
    }
    const store = open();
    const db = new Database(path);
    expect(db.get("PRAGMA integrity_check")).toEqual({ integrity_check: "ok" });
    const stored = db.all("SELECT dlq_ids FROM run").map((row) => String(row["dlq_ids"]));
    expect(new Set(stored).size).toBe(stored.length);
    expect(stored.length % 3).toBe(0);
    expect([...acknowledged].filter((id) => !stored.includes(id))).toEqual([]);
    expect(acknowledged.size).toBeGreaterThan(100);
    expect(await store.count("t")).toBe(stored.length);
    db.close();
    await store.close();
  });
});

function run(
  code: string,
  args: string[] = [],
): { child: ChildProcess; ended: Promise<{ code: number | null; stderr: string }> } {
  const child = spawn(process.execPath, ["--input-type=module", "-e", code, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stderr = "";
  child.stderr?.on("data", (chunk) => {
    stderr += chunk;
  });
  return { child, ended: new Promise((resolve) => child.on("close", (exit) => resolve({ code: exit, stderr }))) };
}
