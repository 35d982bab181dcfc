import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ERRORS } from "#dlo/errors.js";
import { ROUTES } from "#dlo/http/routes.js";
import { FILTERS } from "#dlo/query.js";
import { RUN_FIELDS } from "#dlo/run-fields.js";
import { makeRun } from "../support/runs.js";
import { parseRaw, SECRET, sendRaw, startTestService, type TestService } from "../support/service.js";

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());

describe("health", () => {
  it("answers without a token", async () => {
    expect((await service.request("/healthz", { token: null })).json).toEqual({ status: "ok" });
    expect((await service.request("/readyz", { token: null })).json).toEqual({ status: "ready" });
  });

  it("is not ready while stopping, yet alive, and asks for connections to be closed", async () => {
    service.app.stopping.now = true;
    const ready = await service.request("/readyz", { token: null });
    expect([ready.status, ready.json.code, ready.headers.get("retry-after")]).toEqual([503, "stopping", "5"]);
    expect(ready.headers.get("connection")).toBe("close");
    expect((await service.request("/healthz", { token: null })).status).toBe(200);
    service.app.stopping.now = false;
  });
});

describe("/metrics", () => {
  it("needs a token, and counts requests, times, failures and the asking tenant's records alone", async () => {
    expect((await service.request("/metrics", { token: null })).status).toBe(401);
    await service.store.put("default", [makeRun({ dlqId: "a" }), makeRun({ dlqId: "b" })]);
    await service.store.put("quiet", [makeRun({ dlqId: "c" })]);
    await service.request("/v2/workflows/dlq");
    await service.request("/v2/workflows/dlq?count=0");
    await service.request("/v2/workflows/dlq/a");
    await service.request("/nowhere/secret-path");
    const { text, headers } = await service.request("/metrics");
    expect(headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(text).toContain(
      'dlo_http_request_duration_seconds_count{route="/v2/workflows/dlq",method="GET",status="200"} 1\n',
    );
    expect(text).toContain(
      'dlo_http_request_duration_seconds_count{route="/v2/workflows/dlq",method="GET",status="400"} 1\n',
    );
    expect(text).toContain(
      'dlo_http_request_duration_seconds_bucket{route="/v2/workflows/dlq",method="GET",status="200",le="+Inf"} 1\n',
    );
    expect(text).toContain('route="unrouted",method="GET",status="404"');
    expect(text).toMatch(
      /dlo_http_request_duration_seconds_sum\{route="\/v2\/workflows\/dlq",method="GET",status="200"\} 0\.0*[1-9]/,
    );
    expect(text).toMatch(/dlo_store_duration_seconds_count\{call="page"\} 1\n/);
    expect(text).toMatch(/dlo_auth_failures_total [1-9]\d*\n/);
    expect(text).toContain("\ndlo_records 2\n");
    expect(text).not.toContain("secret-path");
    const quiet = await service.request("/metrics", { token: await service.token("quiet", ["read"]) });
    expect(quiet.text).toContain("\ndlo_records 1\n");
    for (const line of text.trim().split("\n"))
      expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+(\{[^{}]*\})? [\d.e+-]+)$/);
  });

  it("is open to all where the operator says so", async () => {
    const open = await startTestService({ publicMetrics: true });
    try {
      await open.store.put("a", [makeRun({ dlqId: "1" })]);
      await open.store.put("b", [makeRun({ dlqId: "2" })]);
      const { status, text } = await open.request("/metrics", { token: null });
      expect(status).toBe(200);
      expect(text).toContain("\ndlo_records 2\n");
    } finally {
      await open.stop();
    }
  });
});

describe("pages that nobody takes", () => {
  it("are bounded: further listings are turned away until they are taken", async () => {
    const small = await startTestService({ budget: { maxOut: 20 * 1024 * 1024 } });
    try {
      await small.store.put(
        "default",
        [1, 2].map((n) => makeRun({ dlqId: `big-${n}`, body: "x".repeat(3_900_000) })),
      );
      const socket = connect(small.port, "127.0.0.1");
      socket.pause();
      socket.write(`GET /v2/dlq HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${SECRET}\r\n\r\n`.repeat(12));
      let answer = await small.request("/v2/dlq");
      for (let turn = 0; answer.status === 200 && turn < 50; turn++) answer = await small.request("/v2/dlq");
      expect([answer.status, answer.json.code, answer.headers.get("retry-after")]).toEqual([503, "overloaded", "1"]);
      expect((await small.request("/v2/dlq/big-1")).status).toBe(200);
      socket.destroy();
      while (answer.status !== 200) answer = await small.request("/v2/dlq");
    } finally {
      await small.stop();
    }
  });
});

describe("logs", () => {
  it("have a line a request, with its id, and no secrets, queries, ids or bodies", async () => {
    const answer = await service.request("/v2/workflows/dlq/some-private-id?label=private-label");
    await service.request("/dlo/runs", {
      ...{ method: "POST", body: '{"dlqId":"logged","body":"private-body"}' },
      headers: { "content-type": "application/json", "idempotency-key": "private-key" },
    });
    await service.request("/v2/dlq", { token: "wrong-private-token" });
    const id = answer.headers.get("x-request-id");
    const lines = service.log.filter((line) => line["reqId"] === id);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({
      level: 30,
      method: "GET",
      route: "/v2/workflows/dlq/:dlqId",
      status: 404,
      msg: "request",
    });
    expect(lines[0]?.["ms"]).toBeGreaterThan(0);
    const all = JSON.stringify(service.log);
    expect(all).not.toContain("private");
    expect(all).not.toContain(SECRET);
  });

  it("have what went wrong inside, where the answer says nothing of it", async () => {
    const broken = await startTestService();
    try {
      Object.assign(broken.store, {
        count: async () => {
          throw new Error("inside detail");
        },
      });
      const answer = await broken.request("/metrics");
      const id = answer.headers.get("x-request-id");
      expect([answer.status, answer.json]).toEqual([
        500,
        { error: `The service failed unexpectedly; look for request ${id} in its log.`, code: "internal" },
      ]);
      const line = broken.log.find((entry) => entry["reqId"] === id && entry["level"] === 50);
      expect(JSON.stringify(line)).toContain("inside detail");
    } finally {
      await broken.stop();
    }
  });
});

describe("the description", () => {
  it("at /openapi.json has every route, parameter, field and error, each with an example", async () => {
    const { json } = await service.request("/openapi.json", { token: null });
    expect(json.openapi).toBe("3.1.0");
    for (const { path, method, about } of ROUTES) {
      const operation = json.paths[path.replace(":dlqId", "{dlqId}")][method.toLowerCase()];
      expect(operation.summary).toBe(about.summary);
      for (const code of about.errors ?? []) {
        const answer = operation.responses[ERRORS[code].status].content["application/json"];
        expect(answer.examples[code].value.code).toBe(code);
      }
    }
    const list = json.paths["/v2/workflows/dlq"].get;
    const parameters = list.parameters.map((parameter: { name: string }) => parameter.name);
    expect(parameters).toEqual(
      expect.arrayContaining(["cursor", "count", "order", "fromDate", "toDate", ...FILTERS.map(({ name }) => name)]),
    );
    const { schema } = json.paths["/v2/workflows/dlq/{dlqId}"].get.responses["200"].content["application/json"];
    expect(schema.$ref).toBe("#/components/schemas/FailedRun");
    const record = json.components.schemas.FailedRun;
    expect(Object.keys(record.properties)).toEqual(Object.keys(RUN_FIELDS));
    expect(Object.keys(record.examples[0])).toHaveLength(20);
    const described = new Set<string>();
    for (const path of Object.values<
      Record<string, { responses: Record<string, { content?: Record<string, { examples?: object }> }> }>
    >(json.paths)) {
      for (const operation of Object.values(path)) {
        for (const response of Object.values(operation.responses)) {
          for (const code of Object.keys(response.content?.["application/json"]?.examples ?? {})) described.add(code);
        }
      }
    }
    const atStart = ["invalid_config", "store_in_use", "schema_too_new"];
    expect([...described].sort()).toEqual(
      Object.keys(ERRORS)
        .filter((code) => !atStart.includes(code) && code !== "unknown_route")
        .sort(),
    );
  });

  it("examples are what the service would take and send", async () => {
    const { json } = await service.request("/openapi.json", { token: null });
    const [example] = json.paths["/dlo/runs"].post.requestBody.content["application/json"].schema.examples;
    const answer = await service.request("/dlo/runs", {
      ...{ method: "POST", body: JSON.stringify(example), headers: { "content-type": "application/json" } },
    });
    expect(answer.json).toEqual({ dlqIds: [example.dlqId] });
    expect((await service.request(`/v2/workflows/dlq/${example.dlqId}`)).json).toEqual(example);
  });

  it("at /docs leads nowhere else, and is recorded once", async () => {
    for (const path of [
      "/docs/static/..",
      "/docs/static/../../package.json",
      "/docs/static/%2e%2e/x",
      "/docs/nothing",
    ]) {
      const before = service.log.length;
      const answer = parseRaw(
        await sendRaw(service.port, `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`),
      );
      expect([path, answer.status, JSON.parse(answer.body).code]).toEqual([path, 404, "unknown_route"]);
      expect(service.log.length).toBe(before + 1);
    }
    const before = service.log.length;
    await service.request("/docs", { token: null });
    expect(service.log.slice(before)).toMatchObject([{ route: "/docs", status: 200 }]);
  });

  it("at /docs loads from this service alone", async () => {
    const { status, text, headers } = await service.request("/docs", { token: null });
    expect(status).toBe(200);
    expect(headers.get("content-security-policy")).toContain("default-src 'none'");
    const assets = [...text.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1] as string);
    expect(assets.length).toBeGreaterThan(3);
    for (const asset of assets) {
      expect(asset.startsWith("/docs/")).toBe(true);
      expect([asset, (await service.request(asset, { token: null })).status]).toEqual([asset, 200]);
    }
  });
});
