import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { demoRuns } from "#dlo/cli/demo-runs.js";
import { openSqlite } from "#dlo/engines/sqlite.js";
import { EVERYTHING } from "#dlo/query.js";
import type { Store } from "#dlo/store.js";
import { runDlo, serveDlo } from "../support/process.js";
import { parseRecords } from "../support/runs.js";

let folder: string;
let path: string;
let store: string[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "dlo-cli-"));
  path = join(folder, "dlo.db");
  store = ["--store", `sqlite:${path}`];
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function open(): Store {
  return openSqlite({ path, now: Date.now, budgetMs: 2_000, onFatal: () => undefined });
}

describe("dlo token", () => {
  it("creates, lists and revokes; a running service follows", async () => {
    const service = await serveDlo(store, { DLO_TOKEN: "bootstrap-0123456789" });
    const created = await runDlo([
      "token",
      "create",
      "--tenant",
      "acme",
      "--scope",
      "read,ingest",
      "--name",
      "billing",
      "--expires",
      "90d",
      ...store,
    ]);
    expect([created.code, created.stderr]).toEqual([0, ""]);
    expect(created.stdout).toMatch(/^dlo_[0-9A-Za-z]{49}\n$/);
    const token = created.stdout.trim();
    const ask = async () =>
      (await fetch(`${service.url}/v2/dlq`, { headers: { authorization: `Bearer ${token}` } })).status;
    expect(await ask()).toBe(200);
    const listed = await runDlo(["token", "list", ...store]);
    const rows = listed.stdout
      .trim()
      .split("\n")
      .map((line) => line.split("\t"));
    expect(rows[0]).toEqual(["ID", "TENANT", "SCOPES", "STATE", "CREATED", "EXPIRES", "NAME"]);
    expect(rows[1]?.slice(1, 4)).toEqual(["acme", "read,ingest", "active"]);
    expect(rows[1]?.[6]).toBe("billing");
    expect(listed.stdout).not.toContain(token.slice(4, 20));
    const id = rows[1]?.[0] as string;
    expect((await runDlo(["token", "revoke", id, ...store])).code).toBe(0);
    const start = Date.now();
    while ((await ask()) === 200) expect(Date.now() - start).toBeLessThan(5_000);
    expect((await runDlo(["token", "list", ...store])).stdout).toContain("revoked");
    const again = await runDlo(["token", "revoke", id, ...store]);
    expect([again.code, again.stderr]).toEqual([
      3,
      "dlo: no active token has this id; dlo token list shows the ids.\n",
    ]);
    await service.stop();
  });

  it("refuses to make a store, which a mistyped path would", async () => {
    for (const args of [["create"], ["list"], ["revoke", "tok_x"]]) {
      const { code, stderr } = await runDlo(["token", ...args, ...store]);
      expect([code, stderr]).toEqual([
        2,
        `dlo: There is no store at ${path}; check --store, or make one with dlo migrate.\n`,
      ]);
    }
    expect(existsSync(path)).toBe(false);
  });

  it("refuses what it cannot make", async () => {
    await runDlo(["migrate", ...store]);
    for (const [args, message] of [
      [["--scope", "everything"], /--scope must be of read, ingest, manage/],
      [["--tenant", "a b"], /--tenant must be/],
      [["--expires", "soon"], /--expires must be a time such as 12h or 90d/],
    ] as const) {
      const { code, stdout, stderr } = await runDlo(["token", "create", ...args, ...store]);
      expect([code, stdout]).toEqual([2, ""]);
      expect(stderr).toMatch(message);
    }
  });
});

describe("dlo migrate", () => {
  it("makes the store, and is content with one that is made", async () => {
    for (const _ of [1, 2]) {
      const { code, stdout, stderr } = await runDlo(["migrate", ...store]);
      expect([code, stdout, stderr]).toEqual([0, "", "The store is at this version's schema.\n"]);
    }
  });
});

describe("dlo demo", () => {
  it("makes the same believable runs from the same seed", async () => {
    const dump = async (): Promise<Record<string, unknown>[]> => {
      const opened = open();
      const page = await opened.page("default", { ...EVERYTHING, order: "earliestFirst", count: 100, after: null });
      await opened.close();
      return parseRecords(page.records);
    };
    const args = ["--count", "300", "--seed", "7", "--until", "1763000000000", ...store];
    const first = await runDlo(["demo", ...args]);
    expect([first.code, first.stdout, first.stderr]).toEqual([0, "", "Stored 300 runs; default has 300.\n"]);
    const before = await dump();
    expect((await runDlo(["demo", ...args])).code).toBe(0);
    expect(await dump()).toEqual(before);
    const opened = open();
    expect(await opened.count("default")).toBe(300);
    await opened.close();
    rmSync(path);
    await runDlo(["demo", ...args.with(3, "8")]);
    expect(await dump()).not.toEqual(before);
  });

  it("has several workflows, skewed labels, bursts, binary and large bodies, and all four states", () => {
    const runs = [...demoRuns(20_000, 3, 1_763_000_000_000)] as Record<string, string | number | undefined>[];
    const counts = (field: string): number[] => {
      const map = new Map<unknown, number>();
      for (const run of runs) map.set(run[field], (map.get(run[field]) ?? 0) + 1);
      return [...map.values()].sort((a, b) => b - a);
    };
    expect(counts("workflowUrl").length).toBeGreaterThanOrEqual(6);
    const labels = counts("label");
    expect(labels.length).toBeGreaterThan(8);
    expect((labels[0] ?? 0) / (labels.at(-1) ?? 1)).toBeGreaterThan(10);
    expect(new Set(runs.map((run) => run["failureFunctionState"]))).toEqual(
      new Set([undefined, "CALLBACK_SUCCESS", "CALLBACK_FAIL", "CALLBACK_INPROGRESS", "CALLBACK_CANCELED"]),
    );
    expect(runs.filter((run) => run["bodyBase64"] !== undefined).length).toBeGreaterThan(50);
    expect(runs.filter((run) => String(run["body"] ?? "").length > 50_000).length).toBeGreaterThan(0);
    const hours = new Map<number, number>();
    for (const run of runs) {
      const hour = Math.floor(Number(run["createdAt"]) / 3_600_000);
      hours.set(hour, (hours.get(hour) ?? 0) + 1);
    }
    const perHour = [...hours.values()].sort((a, b) => a - b);
    const median = perHour[Math.floor(perHour.length / 2)] ?? 0;
    expect(perHour.at(-1) ?? 0).toBeGreaterThan(10 * median);
    const times = runs.map((run) => Number(run["createdAt"]));
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(Math.max(...times)).toBeLessThanOrEqual(1_763_000_000_000);
  });

  it("refuses nonsense", async () => {
    const { code, stderr } = await runDlo(["demo", "--count", "many", ...store]);
    expect([code, stderr]).toEqual([2, 'dlo: --count must be a whole number from 0 to 100000000, not "many".\n']);
  });
});

describe("dlo", () => {
  it("helps, tells its version, and refuses unknown commands with 2", async () => {
    const help = await runDlo(["--help"]);
    expect(help.code).toBe(0);
    for (const command of ["serve", "token", "migrate", "demo"]) expect(help.stdout).toContain(command);
    for (const command of [["token", "create"], ["token", "list"], ["token", "revoke"], ["migrate"], ["demo"]]) {
      const { code, stdout } = await runDlo([...command, "--help"]);
      expect([code, /Examples?:/.test(stdout)]).toEqual([0, true]);
    }
    expect((await runDlo(["--version"])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    const unknown = await runDlo(["sevre"]);
    expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringMatching(/unknown command 'sevre'/)]);
  });
});
