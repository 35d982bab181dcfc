import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeRun } from "../support/runs.js";
import { parseRaw, SECRET, sendRaw, startTestService, type TestService } from "../support/service.js";

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
  await service.store.put("default", [makeRun({ dlqId: "a", createdAt: 5, label: "x" })]);
});
afterAll(() => service.stop());

const AUTH = `Authorization: Bearer ${SECRET}\r\n`;

/** One GET as raw bytes; what comes back must be an error in our shape, whole. */
async function raw(target: string, headers = AUTH, method = "GET") {
  const answer = parseRaw(
    await sendRaw(service.port, `${method} ${target} HTTP/1.1\r\nHost: x\r\n${headers}Connection: close\r\n\r\n`),
  );
  return { ...answer, json: answer.body === "" ? undefined : JSON.parse(answer.body) };
}

function expectShape(answer: { status: number; headers: Record<string, string>; body: string }): void {
  expect(answer.headers["content-type"]).toBe("application/json; charset=utf-8");
  expect(answer.headers["content-length"]).toBe(String(Buffer.byteLength(answer.body)));
  expect(answer.headers["x-request-id"]).toMatch(/^[\w-]+$/);
  expect(answer.headers["cache-control"]).toBe("no-store");
  expect(answer.headers["x-content-type-options"]).toBe("nosniff");
  const { error, code, parameter, ...rest } = JSON.parse(answer.body);
  expect(rest).toEqual({});
  expect(error).toMatch(/^[A-Z/\w"%].*\.$|\?$/s);
  expect(code).toMatch(/^[a-z_]+$/);
  expect(["string", "undefined"]).toContain(typeof parameter);
}

const COUNT = "count must be a whole number from 1 to 100, in digits.";
const PERCENT = "The address holds a malformed percent-escape, or one that is not UTF-8; encode it again.";
const integer = (name: string): string => `${name} must be a whole number (64-bit), in digits.`;

/** query -> code, parameter, sentence. */
const QUERIES: readonly (readonly [string, string, string | undefined, string])[] = [
  ...["0", "-1", "101", "1e9", "abc", "1.5", "1e2", "%205", "+5", "0x10", "1000000000000", "٣"].map(
    (count) => [`count=${encodeURI(count).replace("%2520", "%20")}`, "invalid_parameter", "count", COUNT] as const,
  ),
  ["count=", "invalid_parameter", "count", "count is empty; give it a value or leave it out."],
  ["count", "invalid_parameter", "count", "count is empty; give it a value or leave it out."],
  ["count=5&count=5", "repeated_parameter", "count", "count takes one value; give it once."],
  ...["fromDate", "toDate", "workflowCreatedAt", "responseStatus"].flatMap((name) =>
    ["9223372036854775808", "-9223372036854775809", "1.5", "1e3", "abc", "%201", "--1", "-"].map(
      (value) => [`${name}=${value}`, "invalid_parameter", name, integer(name)] as const,
    ),
  ),
  ["fromDate=5&toDate=4", "invalid_parameter", "fromDate", "fromDate is later than toDate; exchange them."],
  ["fromDate=1&fromDate=1", "repeated_parameter", "fromDate", "fromDate takes one value; give it once."],
  ...["latestfirst", "LatestFirst", "desc", "earliestFirst%20"].map(
    (order) => [`order=${order}`, "invalid_parameter", "order", "order must be earliestFirst or latestFirst."] as const,
  ),
  ["lable=x", "unknown_parameter", "lable", 'There is no parameter "lable". Did you mean label?'],
  ["Label=x", "unknown_parameter", "Label", 'There is no parameter "Label". Did you mean label?'],
  ["zzz=1", "unknown_parameter", "zzz", 'There is no parameter "zzz".'],
  ["=1", "unknown_parameter", "", 'There is no parameter "".'],
  ["__proto__=1", "unknown_parameter", "__proto__", 'There is no parameter "__proto__".'],
  ["token=x", "unknown_parameter", "token", 'There is no parameter "token".'],
  [
    "messageId=x",
    "unknown_parameter",
    "messageId",
    "messageId filters messages, and these are workflow runs; leave it out.",
  ],
  [
    "queueName=x",
    "unknown_parameter",
    "queueName",
    "queueName filters messages, and these are workflow runs; leave it out.",
  ],
  [
    "source=api",
    "invalid_parameter",
    "source",
    "source=workflow is the only value for workflow runs; leave source out.",
  ],
  [
    "trimBody=1",
    "invalid_parameter",
    "trimBody",
    "trimBody=0 is the only value for workflow runs; leave trimBody out.",
  ],
  ...[
    "workflowUrl",
    "workflowRunId",
    "workflowCreatedAt",
    "label",
    "failureFunctionState",
    "callerIp",
    "flowControlKey",
  ].map(
    (name) => [`${name}=`, "invalid_parameter", name, `${name} is empty; give it a value or leave it out.`] as const,
  ),
  ["dlqIds=", "invalid_parameter", "dlqIds", "dlqIds is empty; give it a value or leave it out."],
  ["order=", "invalid_parameter", "order", "order is empty; give it a value or leave it out."],
  [
    "workflowRunId=a&workflowRunId=b",
    "repeated_parameter",
    "workflowRunId",
    "workflowRunId takes one value; give it once.",
  ],
  [
    "workflowCreatedAt=1&workflowCreatedAt=2",
    ...(["repeated_parameter", "workflowCreatedAt", "workflowCreatedAt takes one value; give it once."] as const),
  ],
  [
    "callerIp=1&callerIP=&label=x",
    "invalid_parameter",
    "callerIP",
    "callerIP is empty; give it a value or leave it out.",
  ],
  ...["%zz", "%", "%2", "%ff", "%ED%A0%80", "%C0%80"].map(
    (value) => [`label=${value}`, "invalid_encoding", "label", PERCENT] as const,
  ),
  ["label=a%00b", "invalid_encoding", "label", "NUL (%00) is not allowed in an address."],
  ["%zz=a", "invalid_encoding", undefined, PERCENT],
  [
    `label=${"a,".repeat(50)}b,${Array.from({ length: 101 }, (_, n) => n).join(",")}`,
    "too_many_values",
    "label",
    "label takes at most 100 values.",
  ],
  [
    `label=${"x".repeat(2100)}&url=${"y".repeat(2000)}`,
    "too_many_values",
    undefined,
    "Keep all filters together within 4096 bytes.",
  ],
];

describe("a listing refuses, with the whole sentence,", () => {
  for (const [query, code, parameter, error] of QUERIES) {
    it(query.slice(0, 60), async () => {
      const answer = await raw(`/v2/workflows/dlq?${query}`);
      expectShape(answer);
      expect(answer.status).toBe(400);
      expect(answer.json).toEqual(parameter === undefined ? { error, code } : { error, code, parameter });
    });
  }

  it("a raw byte that is not ASCII", async () => {
    const answer = parseRaw(
      await sendRaw(
        service.port,
        `GET /v2/workflows/dlq?label=é HTTP/1.1\r\nHost: x\r\n${AUTH}Connection: close\r\n\r\n`,
      ),
    );
    expectShape(answer);
    expect(answer.status).toBe(400);
  });
});

describe("values that look odd are data", () => {
  for (const query of [
    "count=007",
    "fromDate=0&toDate=0",
    "fromDate=-1",
    "label=resume",
    "label=,",
    "failureFunctionState=WHATEVER",
    "workflowCreatedAt=9223372036854775807",
    "cursor=",
    "label=%2B",
  ]) {
    it(query, async () => {
      const answer = await raw(`/v2/workflows/dlq?${query}`);
      expect(answer.status).toBe(200);
    });
  }
});

describe("lengths", () => {
  it("a query over 8 KiB is 414, the cursor not counted", async () => {
    const answer = await raw(`/v2/workflows/dlq?label=${"x".repeat(8192)}`);
    expectShape(answer);
    expect([answer.status, answer.json]).toEqual([
      414,
      { error: "Keep the query within 8192 bytes, not counting its cursor.", code: "uri_too_long" },
    ]);
    const withCursor = await raw(`/v2/workflows/dlq?cursor=${"x".repeat(9000)}&label=x`);
    expect([withCursor.status, withCursor.json.code]).toEqual([400, "invalid_cursor"]);
  });

  it("a request line over 16 KiB is 414", async () => {
    const answer = await raw(`/v2/workflows/dlq?cursor=${"x".repeat(16_400)}`);
    expectShape(answer);
    expect([answer.status, answer.json]).toEqual([
      414,
      { error: "Keep the request line within 16384 bytes.", code: "uri_too_long" },
    ]);
  });

  it("headers over 16 KiB, or more than 100, are 431, even with the token last", async () => {
    const long = `X-Long: ${"x".repeat(16_384)}\r\n`;
    const many = Array.from({ length: 101 }, (_, n) => `X-${n}: 1\r\n`).join("");
    const thousands = Array.from({ length: 3_000 }, (_, n) => `X-${n}: 1\r\n`).join("");
    const endless = `X-Long: ${"x".repeat(100_000)}\r\n`;
    for (const headers of [long, many, thousands, endless]) {
      const answer = await raw("/v2/workflows/dlq", headers + AUTH);
      expectShape(answer);
      expect([answer.status, answer.json.code]).toEqual([431, "headers_too_large"]);
    }
    expect(
      (await raw("/v2/workflows/dlq", AUTH + Array.from({ length: 90 }, (_, n) => `X-${n}: 1\r\n`).join(""))).status,
    ).toBe(200);
  });

  it("a long query together with long headers passes, each within its own limit", async () => {
    const answer = await raw(
      `/v2/workflows/dlq?cursor=${"x".repeat(16_000)}`,
      `${AUTH}X-Long: ${"x".repeat(15_000)}\r\n`,
    );
    expect([answer.status, answer.json.code]).toEqual([400, "invalid_cursor"]);
  });
});

describe("paths", () => {
  const UNKNOWN = { error: "Nothing is served at this path; /docs lists what is.", code: "unknown_route" };
  for (const target of [
    ...[
      "/v2/workflows/dlq/",
      "/v2//workflows/dlq",
      "//x/v2/workflows/dlq",
      "/v2/workflows/../workflows/dlq",
      "/v2/workflows/./dlq",
    ],
    ...[
      "/v2/workflows/dlq/a/",
      "/v2/workflows/dlq/a/b",
      "/v2/workflows/%64lq",
      "/V2/workflows/dlq",
      "/v2/workflows",
      "/v2/workflows/dlq;x",
    ],
    ...[
      "/v2/workflows/dlq%2Fa",
      "/..%2f..%2fetc/passwd",
      "/dlo/runs/",
      "/unknown",
      "*",
      "/healthz/",
      "http://x",
      "/v2/workflows/dlq#label=x",
      "/v2/workflows/dlq/a#b",
      "/v2/workflows/dlq?label=x#y",
    ],
  ]) {
    it(`${target} is 404`, async () => {
      const answer = await raw(target);
      expectShape(answer);
      expect([answer.status, answer.json]).toEqual([404, UNKNOWN]);
    });
  }

  it("an absolute-form target is taken by its path", async () => {
    expect((await raw("http://anything.example/v2/workflows/dlq/a")).json.dlqId).toBe("a");
    expect((await raw("http://anything.example/v2/workflows/../dlq/a")).status).toBe(404);
    expect((await raw("http://anything.example/v2/workflows/dlq", "")).status).toBe(401);
  });
});

describe("ids", () => {
  const odd = [
    "a/b",
    "..",
    ".",
    "%2F",
    "é",
    "湯\u{1f600}",
    "__proto__",
    "constructor",
    "resume",
    "a b",
    "a+b",
    "x".repeat(256),
    "\u{1f600}".repeat(256),
    "?",
    "#",
  ];

  it("of any Unicode are data, never path", async () => {
    await service.store.put(
      "default",
      odd.map((dlqId) => makeRun({ dlqId })),
    );
    for (const dlqId of odd) {
      const segment = encodeURIComponent(dlqId).replaceAll(".", "%2e");
      const answer = await raw(`/v2/workflows/dlq/${segment}`);
      expect([answer.status, answer.json.dlqId]).toEqual([200, dlqId]);
    }
    expect((await raw("/v2/workflows/dlq/a+b")).json.dlqId).toBe("a+b");
    expect((await raw("/v2/workflows/dlq/..")).json.dlqId).toBe("..");
  });

  it("unknown, too long or another tenant's are one and the same 404", async () => {
    await service.store.put("other", [makeRun({ dlqId: "theirs" })]);
    const bodies = new Set<string>();
    for (const id of ["nope", "theirs", "x".repeat(257), "x".repeat(5000), "%0A", "toString", "%2e%2e%2f"]) {
      const answer = await raw(`/v2/workflows/dlq/${id}`);
      expectShape(answer);
      expect(answer.status).toBe(404);
      bodies.add(answer.body);
    }
    expect([...bodies]).toEqual([
      '{"error":"No failed run has this dlqId; it may have been deleted.","code":"run_not_found"}',
    ]);
  });

  it("that cannot be decoded are 400, after the token was judged", async () => {
    for (const id of ["%zz", "%ff", "%ED%A0%80", "%", "%00", "a%00"]) {
      const answer = await raw(`/v2/workflows/dlq/${id}`);
      expectShape(answer);
      expect([id, answer.status, answer.json.code, answer.json.parameter]).toEqual([
        id,
        400,
        "invalid_encoding",
        "dlqId",
      ]);
      expect((await raw(`/v2/workflows/dlq/${id}`, "")).status).toBe(401);
    }
  });
});

describe("methods", () => {
  for (const [target, allow] of [
    ["/v2/workflows/dlq", "GET, HEAD, DELETE"],
    ["/v2/dlq", "GET, HEAD, DELETE"],
    ["/v2/workflows/dlq/a", "GET, HEAD, DELETE"],
    ["/v2/dlq/%zz", "GET, HEAD, DELETE"],
    ["/dlo/runs", "POST"],
    ["/healthz", "GET, HEAD"],
    ["/metrics", "GET, HEAD"],
    ["/docs", "GET, HEAD"],
  ] as const) {
    for (const method of [
      "PUT",
      "PATCH",
      "OPTIONS",
      "PROPFIND",
      "TRACE",
      "QUERY",
      allow.includes("POST") ? "GET" : "POST",
    ]) {
      it(`${method} ${target} is 405 and says what is allowed, without a token`, async () => {
        const answer = await raw(target, "", method);
        expectShape(answer);
        expect([answer.status, answer.headers["allow"], answer.json]).toEqual([
          405,
          allow,
          { error: `This path takes ${allow}.`, code: "method_not_allowed" },
        ]);
      });
    }
  }
});

describe("bytes that are not HTTP", () => {
  for (const bytes of [
    "hello\r\n\r\n",
    "GET / HTTP/9.9\r\n\r\n",
    "GET /v2/workflows/dlq HTTP/1.1\r\nBad Header: x\r\n\r\n",
    "FOO /v2/workflows/dlq HTTP/1.1\r\nHost: x\r\n\r\n",
    "POST /dlo/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    "POST /dlo/runs HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n",
    "\x16\x03\x01\x00\xa5\x01\x00",
  ]) {
    it(JSON.stringify(bytes.slice(0, 50)), async () => {
      const answer = parseRaw(await sendRaw(service.port, bytes));
      expectShape(answer);
      expect([answer.status, JSON.parse(answer.body)]).toEqual([
        400,
        { error: "This is not a well-formed HTTP/1.1 request.", code: "malformed_http" },
      ]);
    });
  }

  it("a missing Host is 400", async () => {
    const answer = parseRaw(
      await sendRaw(service.port, `GET /v2/workflows/dlq HTTP/1.1\r\n${AUTH}Connection: close\r\n\r\n`),
    );
    expectShape(answer);
    expect([answer.status, JSON.parse(answer.body)]).toEqual([
      400,
      { error: "Send a Host header.", code: "invalid_header", parameter: "Host" },
    ]);
  });

  it("a malformed request after a good one on the same connection is still answered", async () => {
    const good = `GET /v2/workflows/dlq/a HTTP/1.1\r\nHost: x\r\n${AUTH}\r\n`;
    const text = await new Promise<string>((resolve) => {
      const socket = connect(service.port, "127.0.0.1");
      let seen = "";
      socket.on("data", (chunk) => {
        if (seen === "") socket.write("nonsense\r\n\r\n");
        seen += chunk;
      });
      socket.on("close", () => resolve(seen));
      socket.write(good);
    });
    expect(text.startsWith("HTTP/1.1 200")).toBe(true);
    expect(text).toContain('"code":"malformed_http"');
  });

  it("a body on GET is ignored", async () => {
    const answer = await raw("/v2/workflows/dlq/a", `${AUTH}Content-Length: 5\r\nContent-Type: text/weird\r\n`);
    expect(answer.status).toBe(200);
    const both = await sendRaw(
      service.port,
      `GET /v2/workflows/dlq/a HTTP/1.1\r\nHost: x\r\n${AUTH}Content-Length: 5\r\n\r\nhelloGET /v2/workflows/dlq/a HTTP/1.1\r\nHost: x\r\n${AUTH}\r\n`,
    );
    expect(both.match(/HTTP\/1.1 200/g)).toHaveLength(2);
  });

  it("an unknown Expect is ignored", async () => {
    expect((await raw("/v2/workflows/dlq/a", `${AUTH}Expect: miracles\r\n`)).status).toBe(200);
  });
});

describe("slow clients", () => {
  it("that never finish their headers get 408 within 10 s or so, and bodies within 30 s", async () => {
    const slowHeaders = sendRaw(service.port, "GET /v2/workflows/dlq HTTP/1.1\r\nHost: x\r\nX-Slow: ", 15_000);
    const slowBody = sendRaw(
      service.port,
      `POST /dlo/runs HTTP/1.1\r\nHost: x\r\n${AUTH}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{`,
      40_000,
    );
    for (const text of [await slowHeaders, await slowBody]) {
      const answer = parseRaw(text);
      expectShape(answer);
      expect([answer.status, JSON.parse(answer.body)]).toEqual([
        408,
        {
          error: "The request came too slowly: headers within 10 s, all of it within 30 s.",
          code: "request_timeout",
        },
      ]);
    }
  });
});
