import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client as QStash } from "@upstash/qstash";
import { Client as Workflow } from "@upstash/workflow";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { serveDlo } from "../support/process.js";

const TOKEN = "sdk-token-0123456789";
let folder: string;
let service: Awaited<ReturnType<typeof serveDlo>>;
let workflow: Workflow;
let qstash: QStash;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "dlo-sdk-"));
  service = await serveDlo(["--store", `sqlite:${join(folder, "dlo.db")}`, "--log-level", "warn"], {
    DLO_TOKEN: TOKEN,
  });
  const options = { baseUrl: service.url, token: TOKEN, retry: false as const, enableTelemetry: false };
  workflow = new Workflow(options);
  qstash = new QStash(options);
});
afterAll(async () => {
  await service.stop();
  rmSync(folder, { recursive: true });
});

async function record(runs: Record<string, unknown>[]): Promise<void> {
  const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
  const response = await fetch(`${service.url}/dlo/runs`, { method: "POST", headers, body: JSON.stringify(runs) });
  expect(response.status).toBe(200);
}

const RUNS = Array.from({ length: 25 }, (_, n) => ({
  dlqId: `1752829295505-${n}`,
  createdAt: 1_752_829_295_505 + n,
  workflowRunId: `wfr_${n}`,
  workflowUrl: "https://shop.example/api/order",
  url: `https://shop.example/api/order?step=${n % 3}`,
  workflowCreatedAt: 1_752_829_290_000,
  label: n % 2 ? "odd label, with comma" : "even",
  responseStatus: n % 5 ? 500 : 503,
  responseBody: "failed",
  failureFunctionState: n % 2 ? "CALLBACK_FAIL" : "CALLBACK_SUCCESS",
  callerIP: "203.0.113.7",
}));

describe("@upstash/workflow", () => {
  it("lists and pages", async () => {
    await record(RUNS);
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await workflow.dlq.list(cursor === undefined ? { count: 10 } : { cursor, count: 10 });
      seen.push(...page.messages.map((message) => message.dlqId));
      cursor = page.cursor;
    } while (cursor);
    expect(seen).toEqual(RUNS.map((run) => run.dlqId));
  });

  it("filters", async () => {
    const ids = async (filter: NonNullable<Parameters<typeof workflow.dlq.list>[0]>["filter"]): Promise<string[]> =>
      (await workflow.dlq.list(filter === undefined ? {} : { filter })).messages.map((message) => message.dlqId);
    expect(await ids({ label: "odd label, with comma" })).toEqual(RUNS.filter((_, n) => n % 2).map((run) => run.dlqId));
    expect(await ids({ responseStatus: 503 })).toEqual(RUNS.filter((_, n) => n % 5 === 0).map((run) => run.dlqId));
    expect(await ids({ url: "https://shop.example/api/order?step=1" })).toHaveLength(8);
    expect(await ids({ workflowRunId: "wfr_7" })).toEqual(["1752829295505-7"]);
    expect(await ids({ failureFunctionState: "CALLBACK_FAIL" })).toHaveLength(12);
    expect(await ids({ fromDate: RUNS[3]?.createdAt ?? 0, toDate: RUNS[5]?.createdAt ?? 0 })).toHaveLength(3);
  });

  it("sees the fields it declares", async () => {
    const [message] = (await workflow.dlq.list({ count: 1 })).messages;
    expect(message).toMatchObject({
      ...{ dlqId: "1752829295505-0", workflowRunId: "wfr_0", workflowUrl: "https://shop.example/api/order" },
      ...{ responseStatus: 503, responseBody: "failed", callerIP: "203.0.113.7", createdAt: 1_752_829_295_505 },
    });
  });

  it("deletes one, many, by filter and all", async () => {
    expect(await workflow.dlq.delete("1752829295505-0")).toMatchObject({ deleted: 1 });
    expect(await workflow.dlq.delete(["1752829295505-1", "1752829295505-2", "gone"])).toMatchObject({ deleted: 2 });
    expect(await workflow.dlq.delete({ filter: { label: "even" } })).toMatchObject({ deleted: 11 });
    let deleted = 0;
    let cursor: string | undefined;
    do {
      const result: { deleted: number; cursor?: string } = await workflow.dlq.delete(
        cursor === undefined ? { all: true, count: 4 } : { all: true, count: 4, cursor },
      );
      deleted += result.deleted;
      cursor = result.cursor;
    } while (cursor !== undefined && cursor !== "");
    expect(deleted).toBe(11);
    expect((await workflow.dlq.list()).messages).toEqual([]);
  });

  it("shows our sentence when something is wrong", async () => {
    await expect(workflow.dlq.list({ count: 500 })).rejects.toThrow(
      "count must be a whole number from 1 to 100, in digits.",
    );
  });
});

describe("@upstash/qstash", () => {
  it("lists, pages, filters and deletes", async () => {
    await record(RUNS);
    const first = await qstash.dlq.listMessages({ count: 20 });
    expect(first.messages).toHaveLength(20);
    const second = await qstash.dlq.listMessages({ count: 20, cursor: first.cursor ?? "" } as never);
    expect(second.messages.map((message) => message.dlqId)).toEqual(RUNS.slice(20).map((run) => run.dlqId));
    expect(second.cursor ?? "").toBe("");
    const filtered = await qstash.dlq.listMessages({ filter: { responseStatus: 503 } });
    expect(filtered.messages).toHaveLength(5);
    const byId = await qstash.dlq.listMessages({ dlqIds: ["1752829295505-3", "nope"] });
    expect(byId.messages.map((message) => message.dlqId)).toEqual(["1752829295505-3"]);
    expect(await qstash.dlq.delete("1752829295505-3")).toEqual({ deleted: 1 });
    expect(await qstash.dlq.delete(["1752829295505-4", "1752829295505-5"])).toMatchObject({ deleted: 2 });
    expect(await qstash.dlq.delete({ filter: { callerIp: "203.0.113.7" } } as never)).toMatchObject({ deleted: 22 });
    await expect(qstash.dlq.delete("1752829295505-3")).rejects.toThrow("No failed run has this dlqId");
  });
});
