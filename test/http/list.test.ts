import { createHash } from "node:crypto";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { encodeCursor } from "#dlo/cursor.js";
import { FILTERS } from "#dlo/query.js";
import { aChange, aQuery, aRun } from "../support/arbitrary.js";
import { Model } from "../support/model.js";
import { makeRun } from "../support/runs.js";
import { startTestService, type TestService } from "../support/service.js";

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());

const FULL = {
  dlqId: "full",
  createdAt: 1_763_000_000_123,
  workflowUrl: "https://shop.example/w",
  workflowRunId: "wfr_full",
  workflowCreatedAt: 1_763_000_000_000,
  url: "https://shop.example/step",
  method: "POST",
  header: { "Content-Type": ["application/json"], "X-Many": ["1", "2"] },
  body: '{"a":1}',
  bodyBase64: "",
  maxRetries: 3,
  failureCallback: "https://shop.example/failed",
  callerIP: "203.0.113.7",
  label: "checkout",
  flowControlKey: "payments",
  failureFunctionState: "CALLBACK_FAIL",
  responseStatus: 503,
  responseHeader: { "Retry-After": ["1"] },
  responseBody: "",
  responseBodyBase64: "/w==",
};

describe("a record", () => {
  it("comes back with all twenty fields, from both paths and both operations", async () => {
    await service.store.put("default", [makeRun(FULL)]);
    for (const path of ["/v2/workflows/dlq", "/v2/dlq"]) {
      const list = await service.request(`${path}?dlqIds=full`);
      expect(list.json).toEqual({ cursor: "", messages: [FULL] });
      const one = await service.request(`${path}/full`);
      expect(one.json).toEqual(FULL);
      expect(Object.keys(one.json)).toHaveLength(20);
    }
  });

  it("is sent with headers fit for data that must not be kept or guessed at", async () => {
    const { headers, text } = await service.request("/v2/workflows/dlq/full");
    expect(headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("content-length")).toBe(String(Buffer.byteLength(text)));
    expect(headers.get("x-request-id")).toMatch(/^[\w-]+$/);
  });

  it("answers HEAD as GET, without the body", async () => {
    for (const path of ["/v2/workflows/dlq/full", "/v2/workflows/dlq?dlqIds=full"]) {
      const get = await service.request(path);
      const head = await service.request(path, { method: "HEAD" });
      expect([head.status, head.text]).toEqual([200, ""]);
      expect(head.headers.get("content-length")).toBe(get.headers.get("content-length"));
    }
  });
});

describe("every filter", () => {
  for (const { name, field, aliases } of FILTERS) {
    for (const spelling of [name, ...aliases]) {
      it(`${spelling} finds the record by ${field}`, async () => {
        await service.store.put("default", [makeRun(FULL), makeRun({ dlqId: "bare" })]);
        const value = String(FULL[field as keyof typeof FULL]);
        const found = await service.request(`/v2/workflows/dlq?${spelling}=${encodeURIComponent(value)}`);
        expect(found.json.messages.map((run: { dlqId: string }) => run.dlqId)).toEqual(["full"]);
      });
    }
  }
});

describe("several values", () => {
  it("are any of them: repeated, by commas, and a literal comma; across filters all", async () => {
    const tenant = await service.token("values", ["read"]);
    const labels = ["a", "b", "a,b", "c", "a b"];
    await service.store.put(
      "values",
      labels.map((label, n) => makeRun({ dlqId: label, createdAt: n, label, flowControlKey: n % 2 ? "odd" : "even" })),
    );
    const ids = async (query: string): Promise<string[]> => {
      const { json } = await service.request(`/v2/workflows/dlq?${query}`, { token: tenant });
      return json.messages.map((run: { dlqId: string }) => run.dlqId);
    };
    expect(await ids("label=a&label=b")).toEqual(["a", "b"]);
    expect(await ids("label=a,b")).toEqual(["a", "b", "a,b"]);
    expect(await ids("label=a,,c,")).toEqual(["a", "c"]);
    expect(await ids("label=a+b")).toEqual(["a b"]);
    expect(await ids("label=a%20b")).toEqual(["a b"]);
    expect(await ids("label=a,b,c&flowControlKey=even")).toEqual(["a"]);
    expect(await ids("dlqIds=a&dlqIds=a,b&dlqIds=nope")).toEqual(["a", "a,b"]);
    expect(await ids("source=workflow&trimBody=0&label=c")).toEqual(["c"]);
    expect(await ids("fromDate=1&toDate=3")).toEqual(["b", "a,b", "c"]);
    expect(await ids("fromDate=-5&toDate=0")).toEqual(["a"]);
    expect(await ids("toDate=-1")).toEqual([]);
    expect(await ids("fromDate=9223372036854775807")).toEqual([]);
    expect(await ids("fromDate=-9223372036854775808&toDate=9223372036854775807")).toEqual(labels);
    expect(await ids("&label=a&")).toEqual(["a"]);
  });
});

describe("cursors", () => {
  it("carry order, filters and position: alone, or with the same parameters, on either path", async () => {
    const token = await service.token("cursors", ["read"]);
    const runs = Array.from({ length: 9 }, (_, n) =>
      makeRun({ dlqId: `n${n}`, createdAt: n >> 1, label: n % 3 ? "x,y" : "z" }),
    );
    await service.store.put("cursors", runs);
    const query = "label=x%2Cy&order=latestFirst&fromDate=0&toDate=3";
    const first = (await service.request(`/v2/workflows/dlq?${query}&count=2`, { token })).json;
    expect(first.messages.map((run: { dlqId: string }) => run.dlqId)).toEqual(["n7", "n5"]);
    const cursor = encodeURIComponent(first.cursor);
    for (const more of ["", `&${query}`, "&order=latestFirst", "&source=workflow", "&label=x,y"]) {
      const next = (await service.request(`/v2/dlq?cursor=${cursor}&count=3${more}`, { token })).json;
      expect(next.messages.map((run: { dlqId: string }) => run.dlqId)).toEqual(["n4", "n2", "n1"]);
      expect(next.cursor).toBe("");
    }
    const undated = (await service.request("/v2/workflows/dlq?count=1", { token })).json.cursor;
    for (const date of ["fromDate=0", "fromDate=-5", "toDate=9223372036854775807"]) {
      const answer = await service.request(`/v2/workflows/dlq?cursor=${undated}&${date}`, { token });
      expect([date, answer.status, answer.json.code]).toEqual([date, 400, "cursor_mismatch"]);
    }
    const dated = (await service.request("/v2/workflows/dlq?count=1&fromDate=-5", { token })).json.cursor;
    expect((await service.request(`/v2/workflows/dlq?cursor=${dated}&fromDate=-5`, { token })).status).toBe(200);
    const empty = (await service.request(`/v2/workflows/dlq?cursor=&count=1`, { token })).json;
    expect(empty.messages[0].dlqId).toBe("n0");
    for (const [more, parameter] of [
      ["order=earliestFirst", "order"],
      ["label=z", "label"],
      ["label=x,y&label=z", "label"],
      ["fromDate=1", "fromDate"],
      ["toDate=4", "toDate"],
      ["url=https://x.example", "url"],
    ]) {
      const answer = await service.request(`/v2/workflows/dlq?cursor=${cursor}&${more}`, { token });
      expect([answer.status, answer.json.code, answer.json.parameter]).toEqual([400, "cursor_mismatch", parameter]);
    }
  });

  it("are refused when damaged, unknown, of a delete, or of another tenant", async () => {
    const good = encodeCursor("default", {
      kind: "list",
      order: "earliestFirst",
      selection: { filters: [], from: 0, to: 5 },
      after: { createdAt: 1, arrival: 1 },
    });
    expect((await service.request(`/v2/workflows/dlq?cursor=${good}`)).status).toBe(200);
    const bytes = Buffer.from(good, "base64url");
    const damaged = Array.from(bytes, (byte, at) => {
      const copy = Buffer.from(bytes);
      copy[at] = byte ^ 1;
      return copy.toString("base64url");
    });
    const ofDelete = encodeCursor("default", {
      ...{ kind: "delete", selection: { filters: [], from: 0, to: 5 } },
      ...{ after: null, lastArrival: 5 },
    } as Parameters<typeof encodeCursor>[1]);
    const others = ["x", "AAAA", `${good}A`, `${good}=`, good.slice(1), good.toLowerCase(), `%20${good}`, ofDelete];
    for (const cursor of [...damaged, ...others]) {
      const answer = await service.request(`/v2/workflows/dlq?cursor=${cursor}`);
      expect([cursor, answer.status, answer.json.code]).toEqual([cursor, 400, "invalid_cursor"]);
    }
    const elsewhere = await service.token("elsewhere", ["read"]);
    const answer = await service.request(`/v2/workflows/dlq?cursor=${good}`, { token: elsewhere });
    expect(answer.json).toEqual({
      error: "Take the cursor unchanged from the previous answer, or leave it out to start from the first page.",
      code: "invalid_cursor",
      parameter: "cursor",
    });
  });

  it("that are forged with a right checksum are still checked inside", async () => {
    const sign = (text: string): string => {
      const body = Buffer.from(text);
      const check = createHash("sha256").update("1\0default\0").update(body).digest().subarray(0, 8);
      return Buffer.concat([Buffer.of(1), check, body]).toString("base64url");
    };
    expect((await service.request(`/v2/workflows/dlq?cursor=${sign('["a",0,5,1,1,0]')}`)).status).toBe(200);
    expect(
      (await service.request(`/v2/workflows/dlq?cursor=${sign('["a",0,5,1,1,0]\0label\x002\0x\0y')}`)).status,
    ).toBe(200);
    const many = (n: number): string =>
      `["a",0,5,1,1,0]\0dlqIds\0${n}\0${Array.from({ length: n }, (_, i) => i).join("\0")}`;
    for (const text of [
      many(600),
      many(101),
      `["a",0,5,1,1,0]\0label\x001\0${"x".repeat(5000)}`,
      "null",
      "{}",
      "[]",
      '["b",0,5,1,1,0]',
      '["a",-2,5,1,1,0]',
      '["a",0,1e15,1,1,0]',
      '["a",0,999999999999999,1,1,0]',
      '["a",0,5,-7,1,0]',
      '["a",0,5,1,999999999999999,0]',
      '["a",0,5,1,0.5,0]',
      '["a",0,5,-1,0,0]',
      '["a",0,5,1,1,-1]',
      '["a",0,5,1,1]',
      '["a",0,5,1,1,0]\0label',
      '["a",0,5,1,1,0]\0label\x000',
      '["a",0,5,1,1,0]\0label\x002\0x',
      '["a",0,5,1,1,0]\0nothing\x001\0x',
      '["a",0,5,1,1,0]\0label\x001\0',
      '["a",0,5,1,1,0]\0responseStatus\x001\0x',
      '["a",0,5,1,1,0]\0workflowCreatedAt\x001\x009999999999999999999',
      '["a",0,5,1,1,0]\0workflowRunId\x002\0a\0b',
      '["a",0,5,1,1,0]\0label\x001\0a\0label\x001\0b',
    ]) {
      const answer = await service.request(`/v2/workflows/dlq?cursor=${sign(text)}`);
      expect([text, answer.status]).toEqual([text, 400]);
    }
  });
});

describe("long filters", () => {
  it("never make a cursor that the service would refuse, alone or with the parameters again", async () => {
    const token = await service.token("long", ["read"]);
    const odd = "\u0001".repeat(2_048);
    const list = Array.from({ length: 100 }, (_, n) => `${n}${"y".repeat(37)}`).join(",");
    await service.store.put("long", [
      ...[1, 2, 3].map((n) => makeRun({ dlqId: `odd-${n}`, createdAt: n, label: odd })),
      ...[1, 2, 3].map((n) => makeRun({ dlqId: `list-${n}`, createdAt: n, label: list.split(",")[n] })),
    ]);
    for (const label of [odd, list]) {
      const query = `label=${encodeURIComponent(label).replaceAll("%2C", ",")}&count=1`;
      const first = await service.request(`/v2/workflows/dlq?${query}`, { token });
      expect(first.json.messages).toHaveLength(1);
      const alone = await service.request(`/v2/workflows/dlq?cursor=${first.json.cursor}`, { token });
      expect(alone.json.messages).toHaveLength(2);
      const again = await service.request(`/v2/workflows/dlq?cursor=${first.json.cursor}&${query}`, { token });
      expect([again.status, again.json.messages.length]).toEqual([200, 1]);
    }
  });
});

describe("listing over HTTP against the plain model", () => {
  it("is exact with cursors alone or with parameters, whatever changes between pages", async () => {
    let tenants = 0;
    const arrivals = { last: 0 };
    await fc.assert(
      fc.asyncProperty(
        fc.array(aRun, { maxLength: 50 }),
        aQuery,
        fc.array(fc.option(aChange, { nil: undefined }), { maxLength: 6 }),
        fc.boolean(),
        async (runs, query, changes, alone) => {
          const tenant = `http-${++tenants}`;
          const token = await service.token(tenant, ["read"]);
          const model = new Model(arrivals);
          await service.store.put(tenant, runs);
          model.put(runs);
          const stayed = new Set(model.matches(query).map(({ run }) => run.dlqId));
          const parameters = new URLSearchParams({ order: query.order, count: String(query.count) });
          for (const { name, values } of query.filters) for (const value of values) parameters.append(name, value);
          if (query.to < 10) {
            parameters.set("fromDate", String(query.from));
            parameters.set("toDate", String(query.to));
          }
          const seen: string[] = [];
          let cursor = "";
          for (let turn = 0; turn < 100; turn++) {
            const asked = new URLSearchParams(alone && cursor !== "" ? {} : parameters);
            asked.set("cursor", cursor);
            const { status, json } = await service.request(`/v2/workflows/dlq?${asked}`, { token });
            expect(status).toBe(200);
            seen.push(...json.messages.map((run: { dlqId: string }) => run.dlqId));
            cursor = json.cursor;
            if (cursor === "") break;
            const change = changes[turn];
            if (change !== undefined && "put" in change) {
              await service.store.put(tenant, change.put);
              model.put(change.put);
            } else if (change !== undefined) {
              await service.store.deleteIds(tenant, change.delete);
              model.delete(change.delete);
              for (const id of change.delete) stayed.delete(id);
            }
            const now = new Set(model.matches(query).map(({ run }) => run.dlqId));
            for (const id of stayed) if (!now.has(id)) stayed.delete(id);
          }
          if (changes.every((change) => change === undefined)) {
            // The URL spells `a,b` as any of three, so the model is asked the same.
            expect(seen).toEqual(model.matches(widen(query), query.order).map(({ run }) => run.dlqId));
          }
          for (const id of stayed) expect(seen.filter((other) => other === id)).toEqual([id]);
        },
      ),
      { numRuns: 60 },
    );
  });
});

function widen<Query extends { filters: readonly { name: string; values: readonly string[] }[] }>(query: Query): Query {
  const filters = query.filters.map(({ name, values }) => {
    const list = FILTERS.find((filter) => filter.name === name)?.takes === "list";
    return { name, values: list ? [...values, ...values.flatMap((value) => value.split(","))] : values };
  });
  return { ...query, filters };
}
