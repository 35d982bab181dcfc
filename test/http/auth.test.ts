import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Scope } from "#dlo/token.js";
import { parseRaw, SECRET, sendRaw, startTestService, type TestService } from "../support/service.js";

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());

async function withHeaders(headers: string, target = "/v2/workflows/dlq") {
  const bytes = `GET ${target} HTTP/1.1\r\nHost: x\r\n${headers}Connection: close\r\n\r\n`;
  const answer = parseRaw(await sendRaw(service.port, bytes));
  return { ...answer, json: JSON.parse(answer.body) };
}

const MISSING = { error: "Send the header Authorization: Bearer <token>.", code: "missing_token" };
const INVALID = { error: "The token is unknown, expired or revoked; use another.", code: "invalid_token" };

describe("a request", () => {
  it("without a bearer token is 401 and is told how", async () => {
    for (const headers of [
      "",
      "Authorization: Basic abc\r\n",
      "Authorization: Bearer\r\n",
      `Authorization: ${SECRET}\r\n`,
      "Authorization: Bearer a b\r\n",
    ]) {
      const answer = await withHeaders(headers);
      expect([answer.status, answer.headers["www-authenticate"], answer.json]).toEqual([
        401,
        'Bearer realm="dlo"',
        MISSING,
      ]);
    }
  });

  it("with the scheme in any case passes", async () => {
    for (const scheme of ["bearer", "BEARER", "Bearer ", "bEaReR"]) {
      expect((await withHeaders(`Authorization: ${scheme} ${SECRET}\r\n`)).status).toBe(200);
    }
  });

  it("with two Authorization headers is 400, whichever is right", async () => {
    const good = `Authorization: Bearer ${SECRET}\r\n`;
    for (const headers of [good + good, `${good}authorization: Bearer x\r\n`, `Authorization: Bearer x\r\n${good}`]) {
      const answer = await withHeaders(headers);
      expect([answer.status, answer.json]).toEqual([
        400,
        { error: "Send one Authorization header, not several.", code: "invalid_header", parameter: "Authorization" },
      ]);
    }
  });

  it("with a token in the query is not let in", async () => {
    expect((await withHeaders("", `/v2/workflows/dlq?token=${SECRET}`)).status).toBe(401);
  });

  it("with a token unknown, expired or revoked is 401 invalid_token", async () => {
    const expired = await service.token("t", ["read"], { expiresAt: service.clock.now });
    const revoked = await service.token("t", ["read"], { revokedAt: 1 });
    for (const token of ["unknown", expired, revoked, `${SECRET}x`, SECRET.slice(1)]) {
      const answer = await withHeaders(`Authorization: Bearer ${token}\r\n`);
      expect([answer.status, answer.headers["www-authenticate"], answer.json]).toEqual([
        401,
        'Bearer realm="dlo", error="invalid_token"',
        INVALID,
      ]);
    }
  });

  it("is judged by route and method first, then token, then parameters", async () => {
    expect((await withHeaders("", "/nowhere?count=0")).status).toBe(404);
    expect((await withHeaders("", "/v2/workflows/dlq?count=0")).status).toBe(401);
    expect((await withHeaders(`Authorization: Bearer ${SECRET}\r\n`, "/v2/workflows/dlq?count=0")).status).toBe(400);
    const reader = await service.token("t", ["read"]);
    const answer = await service.request("/v2/workflows/dlq?count=0", { method: "DELETE", token: reader });
    expect([answer.status, answer.json.code]).toEqual([403, "insufficient_scope"]);
  });

  it("stops working within 5 s of its token's expiry or revocation", async () => {
    const token = await service.token("t", ["read"], { id: "tok_short", expiresAt: service.clock.now + 1000 });
    expect((await service.request("/v2/workflows/dlq", { token })).status).toBe(200);
    service.clock.now += 1000;
    expect((await service.request("/v2/workflows/dlq", { token })).status).toBe(401);
    const second = await service.token("t", ["read"], { id: "tok_gone" });
    expect((await service.request("/v2/workflows/dlq", { token: second })).status).toBe(200);
    await service.store.revokeToken("tok_gone", service.clock.now);
    const start = Date.now();
    while ((await service.request("/v2/workflows/dlq", { token: second })).status === 200) {
      expect(Date.now() - start).toBeLessThan(5_000);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  });
});

describe("scopes", () => {
  const operations: readonly (readonly [string, string, Scope])[] = [
    ["GET", "/v2/workflows/dlq", "read"],
    ["GET", "/v2/dlq", "read"],
    ["GET", "/v2/workflows/dlq/x", "read"],
    ["GET", "/metrics", "read"],
    ["POST", "/dlo/runs", "ingest"],
    ["DELETE", "/v2/workflows/dlq", "manage"],
    ["DELETE", "/v2/dlq/x", "manage"],
  ];
  for (const [method, path, scope] of operations) {
    it(`${method} ${path} takes ${scope} and nothing less`, async () => {
      const others = (["read", "ingest", "manage"] as const).filter((other) => other !== scope);
      const without = await service.token("scopes", others);
      const refused = await service.request(path, { method, token: without });
      expect([refused.status, refused.headers.get("www-authenticate"), refused.json]).toEqual([
        403,
        'Bearer realm="dlo", error="insufficient_scope"',
        {
          error: `This needs a token with scope ${scope}; this one has ${others.join(", ")}.`,
          code: "insufficient_scope",
        },
      ]);
      const allowed = await service.request(path, { method, token: await service.token("scopes", [scope]) });
      expect([200, 400, 404, 415]).toContain(allowed.status);
    });
  }
});

describe("guessing", () => {
  it("is 429 after 20 wrong tokens in a minute, while a right one still passes", async () => {
    const fresh = await startTestService();
    try {
      for (let n = 0; n < 20; n++) expect((await fresh.request("/v2/dlq", { token: `wrong-${n}` })).status).toBe(401);
      const slowed = await fresh.request("/v2/dlq", { token: "wrong-again" });
      expect([slowed.status, slowed.json]).toEqual([
        429,
        { error: "Too many wrong tokens from this address; wait, or use a right one.", code: "too_many_failures" },
      ]);
      expect(Number(slowed.headers.get("retry-after"))).toBeGreaterThan(0);
      expect(Number(slowed.headers.get("retry-after"))).toBeLessThanOrEqual(60);
      expect((await fresh.request("/v2/dlq")).status).toBe(200);
      expect((await fresh.request("/v2/dlq", { token: null })).status).toBe(401);
    } finally {
      await fresh.stop();
    }
  });
});
