import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { makeRun } from "../support/runs.js";
import { startTestService, type TestService } from "../support/service.js";

let service: TestService;
beforeEach(async () => {
  service = await startTestService();
  await service.store.put(
    "default",
    Array.from({ length: 250 }, (_, n) => makeRun({ dlqId: `n${n}`, createdAt: n, label: n % 2 ? "odd" : "even" })),
  );
  await service.store.put("other", [makeRun({ dlqId: "n1", label: "odd" })]);
});
afterEach(() => service.stop());

const remove = (path: string, init: RequestInit = {}) => service.request(path, { method: "DELETE", ...init });
const body = (value: unknown, type = "application/json") => ({
  body: JSON.stringify(value),
  headers: { "content-type": type },
});

describe("DELETE of one", () => {
  it("is 200 with an empty body, then 404, on both paths", async () => {
    for (const path of ["/v2/workflows/dlq/n1", "/v2/dlq/n2"]) {
      const first = await remove(path);
      expect([first.status, first.text, first.headers.get("content-length")]).toEqual([200, "", "0"]);
      const second = await remove(path);
      expect([second.status, second.json.code]).toEqual([404, "run_not_found"]);
    }
    expect(await service.store.count("default")).toBe(248);
    expect(await service.store.count("other")).toBe(1);
  });

  it("takes any content type without a body, as some clients send", async () => {
    for (const type of ["application/json", "text/plain"]) {
      const id = type === "text/plain" ? "n4" : "n3";
      expect((await remove(`/v2/workflows/dlq/${id}`, { headers: { "content-type": type } })).status).toBe(200);
    }
  });
});

describe("DELETE of many", () => {
  it("by dlqIds, in query or body; other filters ignored, missing ids no error", async () => {
    expect((await remove("/v2/dlq?dlqIds=n1&dlqIds=n2&dlqIds=nope&label=even")).text).toBe('{"deleted":2}');
    expect((await remove("/v2/workflows/dlq", body({ dlqIds: ["n3", "n4"] }))).text).toBe('{"deleted":2}');
    expect((await remove("/v2/workflows/dlq?dlqIds=n5", body({ dlqIds: ["n6"] }))).text).toBe('{"deleted":2}');
    expect(await service.store.count("default")).toBe(244);
  });

  it("by filter and by all, up to count a call, with a cursor while more remain", async () => {
    const first = (await remove("/v2/workflows/dlq?label=odd")).json;
    expect(first.deleted).toBe(100);
    await service.store.put("default", [makeRun({ dlqId: "late", createdAt: 200, label: "odd" })]);
    const second = (await remove(`/v2/workflows/dlq?cursor=${first.cursor}&label=odd`)).json;
    expect(second).toEqual({ deleted: 25 });
    expect(await service.store.count("default")).toBe(126);
    let deleted = 0;
    let cursor: string | undefined;
    do {
      const answer: { deleted: number; cursor?: string } = (
        await remove(`/v2/dlq?count=50${cursor === undefined ? "" : `&cursor=${cursor}`}`)
      ).json;
      deleted += answer.deleted;
      cursor = answer.cursor;
    } while (cursor !== undefined);
    expect(deleted).toBe(126);
    expect((await remove("/v2/workflows/dlq")).json).toEqual({ deleted: 0 });
    expect(await service.store.count("other")).toBe(1);
  });

  it("by dates", async () => {
    expect((await remove("/v2/workflows/dlq?fromDate=10&toDate=19")).json).toEqual({ deleted: 10 });
    expect(await service.store.get("default", "n9")).not.toBeNull();
    expect(await service.store.get("default", "n20")).not.toBeNull();
  });

  const ids = (n: number) => Array.from({ length: n }, (_, i) => `dlqIds=n${i}`).join("&");
  const refused: readonly (readonly [string, string, RequestInit, number, string])[] = [
    ["an unknown parameter", "?lable=odd", {}, 400, "unknown_parameter"],
    ["an order", "?order=latestFirst", {}, 400, "invalid_parameter"],
    ["an empty cursor", "?cursor=", {}, 400, "invalid_parameter"],
    ["an empty dlqIds", "?dlqIds=", {}, 400, "invalid_parameter"],
    ["an empty id among others", "?dlqIds=n1&dlqIds=", {}, 400, "invalid_parameter"],
    ["101 dlqIds", `?${ids(101)}`, {}, 400, "too_many_values"],
    ["a count of 0", "?count=0", {}, 400, "invalid_parameter"],
    ["a count of 101", "?count=101", {}, 400, "invalid_parameter"],
    ["a query of nothing", "?&", {}, 400, "invalid_parameter"],
    ["an empty label", "?label=", {}, 400, "invalid_parameter"],
    ["dates the wrong way round", "?fromDate=5&toDate=1", {}, 400, "invalid_parameter"],
    ["a malformed escape", "?label=%zz", {}, 400, "invalid_encoding"],
    ["a body without dlqIds", "", body({}), 400, "invalid_body"],
    ["an empty list", "", body({ dlqIds: [] }), 400, "invalid_body"],
    ["an empty id in the body", "", body({ dlqIds: [""] }), 400, "invalid_parameter"],
    [
      "101 ids in the body",
      "",
      body({ dlqIds: Array.from({ length: 101 }, (_, n) => `n${n}`) }),
      400,
      "too_many_values",
    ],
    ["NUL in an id of the body", "", body({ dlqIds: ["n1\0zzz"] }), 400, "invalid_parameter"],
    ["half a character in one", "", body({ dlqIds: ["\ud800"] }), 400, "invalid_parameter"],
    ["a body over 1 MiB", "", body({ dlqIds: ["x".repeat(1024 * 1024)] }), 413, "body_too_large"],
    ["numbers for ids", "", body({ dlqIds: [1] }), 400, "invalid_body"],
    ["another shape", "", body({ dlqIds: ["n1"], all: true }), 400, "invalid_body"],
    ["an array", "", body(["n1"]), 400, "invalid_body"],
    ["null", "", body(null), 400, "invalid_body"],
    ["malformed JSON", "", { body: "{", headers: { "content-type": "application/json" } }, 400, "invalid_json"],
    ["another content type", "", body({ dlqIds: ["n1"] }, "text/plain"), 415, "unsupported_media_type"],
  ];
  for (const [name, query, init, status, code] of refused) {
    it(`refuses ${name} and deletes nothing`, async () => {
      const answer = await remove(`/v2/workflows/dlq${query}`, init);
      expect([answer.status, answer.json.code]).toEqual([status, code]);
      expect(await service.store.count("default")).toBe(250);
    });
  }

  it("refuses a listing's cursor, another tenant's and one that other filters contradict", async () => {
    const listing = (await service.request("/v2/workflows/dlq?count=1")).json.cursor;
    expect((await remove(`/v2/workflows/dlq?cursor=${listing}`)).json.code).toBe("invalid_cursor");
    const { cursor } = (await remove("/v2/workflows/dlq?label=odd&count=1")).json;
    expect((await remove(`/v2/workflows/dlq?cursor=${cursor}&label=even`)).json.code).toBe("cursor_mismatch");
    const token = await service.token("other", ["manage"]);
    const theirs = await service.request(`/v2/workflows/dlq?cursor=${cursor}`, { method: "DELETE", token });
    expect(theirs.json.code).toBe("invalid_cursor");
    expect(await service.store.count("default")).toBe(249);
    expect((await service.request(`/v2/workflows/dlq?cursor=${cursor}`)).json.code).toBe("invalid_cursor");
  });
});
