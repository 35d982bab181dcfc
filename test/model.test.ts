import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeCursor, encodeCursor } from "#dlo/cursor.js";
import { deriveDlqId, makeDlqId } from "#dlo/dlq-id.js";
import { parseDuration } from "#dlo/duration.js";
import { wireJson } from "#dlo/failed-run.js";
import { readRuns } from "#dlo/ingest.js";
import { survivesDouble } from "#dlo/json-scan.js";
import { type Selection, withParts } from "#dlo/query.js";
import {
  hashSecret,
  isBootstrapSecret,
  isTenantName,
  isUsable,
  makeSecret,
  secretChecksum,
  type Token,
} from "#dlo/token.js";
import { aSelection } from "./support/arbitrary.js";
import { ORIGIN } from "./support/runs.js";

describe("numbers", () => {
  it("survive exactly when the double has the value that was written", () => {
    for (const token of [
      "0",
      "-0",
      "1.0",
      "1e2",
      "0.1",
      "9007199254740992",
      "1e22",
      "123456789012345680000",
      "5e-324",
      "0e999",
      "1E+2",
      "0.30",
    ]) {
      expect([token, survivesDouble(token)]).toEqual([token, true]);
    }
    for (const token of [
      "9007199254740993",
      "1e400",
      "-1e400",
      "0.1234567890123456789",
      "1e-400",
      "18446744073709551615",
      "0.10000000000000000001",
    ]) {
      expect([token, survivesDouble(token)]).toEqual([token, false]);
    }
  });

  it("that JSON.stringify wrote always survive", () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) =>
        survivesDouble(JSON.stringify(value)),
      ),
    );
  });

  it("that are large integers survive exactly when BigInt agrees", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }), (value) => {
        const shown = BigInt(Number(String(value)).toLocaleString("fullwide", { useGrouping: false }));
        return survivesDouble(String(value)) === (shown === value);
      }),
    );
  });
});

describe("ingest", () => {
  it("gives back any JSON value that it took, in any of the three forms", async () => {
    const value = fc.jsonValue({ maxDepth: 4, noUnicodeString: false } as Parameters<typeof fc.jsonValue>[0]);
    const extra = fc.dictionary(
      fc
        .string({ unit: "grapheme" })
        .filter((name) => !/^(body|responseBody|[a-z]+[A-Z]|url|method|header|label|dlqId)/.test(name)),
      value,
      { maxKeys: 4 },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(extra, { minLength: 1, maxLength: 5 }), async (records) => {
        const sane = JSON.stringify(records);
        // Lone surrogates and negative zero are their own tests.
        fc.pre(!/\\ud[89a-f]/.test(sane));
        const array = await readRuns(Buffer.from(JSON.stringify(records, null, 2)), ORIGIN);
        const lines = await readRuns(Buffer.from(records.map((record) => JSON.stringify(record)).join("\n")), {
          ...ORIGIN,
          format: "ndjson",
        });
        for (const runs of [array, lines]) {
          const back = runs.map((run) => {
            const { dlqId, createdAt, body, bodyBase64, responseBody, responseBodyBase64, ...rest } = JSON.parse(
              wireJson(run),
            );
            expect([typeof dlqId, createdAt, body, bodyBase64, responseBody, responseBodyBase64]).toEqual([
              "string",
              ORIGIN.now(),
              "",
              "",
              "",
              "",
            ]);
            return rest;
          });
          expect(back).toEqual(JSON.parse(sane));
        }
      }),
      { numRuns: 200 },
    );
  });

  it("never takes text that JSON.parse would not", async () => {
    const near = fc.array(
      fc.constantFrom("{", "}", "[", "]", ",", ":", '"a"', '"', "\\", "1", "-", "e", ".", "true", "null", " ", "\n"),
      { maxLength: 12 },
    );
    await fc.assert(
      fc.asyncProperty(near, async (parts) => {
        const text = parts.join("");
        let good: boolean;
        try {
          const parsed: unknown = JSON.parse(text);
          const list = Array.isArray(parsed) ? parsed : [parsed];
          good = list.every((entry) => typeof entry === "object" && entry !== null && !Array.isArray(entry));
        } catch {
          good = false;
        }
        const taken = await readRuns(Buffer.from(text), ORIGIN).then(
          () => true,
          (error: { code?: string }) =>
            ["invalid_json", "invalid_record"].includes(error.code ?? "") ? false : Promise.reject(error),
        );
        expect([text, taken]).toEqual([text, good]);
      }),
      { numRuns: 3_000 },
    );
  });
});

describe("cursors", () => {
  it("come back as they were made", () => {
    const position = fc.record({ createdAt: fc.nat({ max: 2 ** 31 - 1 }), arrival: fc.nat() });
    fc.assert(
      fc.property(
        aSelection,
        position,
        fc.constantFrom("earliestFirst" as const, "latestFirst" as const),
        (given, after, order) => {
          const sorted = (filters: Selection["filters"]) =>
            filters.map(({ name, values }) => ({ name, values: withParts(name, values).sort() }));
          const selection = { ...given, filters: sorted(given.filters) };
          const cursor = { kind: "list" as const, order, selection, after };
          const text = encodeCursor("t", cursor);
          expect(text).toMatch(/^[\w-]+$/);
          const back = decodeCursor("t", "list", text);
          expect({ ...back, selection: { ...back.selection, filters: sorted(back.selection.filters) } }).toEqual(
            cursor,
          );
          expect(() => decodeCursor("u", "list", text)).toThrow(expect.objectContaining({ code: "invalid_cursor" }));
          expect(() => decodeCursor("t", "delete", text)).toThrow(expect.objectContaining({ code: "invalid_cursor" }));
        },
      ),
    );
  });
});

describe("ids", () => {
  it("sort by time and differ within it", () => {
    const ids = [0, 1, 1_763_000_000_000, 1_763_000_000_001, 2 ** 42 - 1].map((time) =>
      makeDlqId(time, randomBytes(16)),
    );
    expect(ids.toSorted()).toEqual(ids);
    expect(ids.every((id) => /^dlq_[0-9A-HJKMNP-TV-Z]{26}$/.test(id))).toBe(true);
    expect(makeDlqId(5, randomBytes(16))).not.toBe(makeDlqId(5, randomBytes(16)));
  });

  it("derived from a key differ by tenant, key and position alone", () => {
    expect(deriveDlqId("t", "k", 0)).toBe(deriveDlqId("t", "k", 0));
    const all = [
      deriveDlqId("t", "k", 0),
      deriveDlqId("t", "k", 1),
      deriveDlqId("t", "l", 0),
      deriveDlqId("u", "k", 0),
    ];
    expect(new Set(all).size).toBe(4);
  });
});

describe("tokens", () => {
  it("have 43 characters of randomness and a checksum over them", () => {
    const secret = makeSecret(randomBytes);
    expect(secret).toMatch(/^dlo_[0-9A-Za-z]{49}$/);
    expect(secret.slice(47)).toBe(secretChecksum(secret.slice(4, 47)));
    expect(makeSecret(randomBytes)).not.toBe(secret);
    expect(hashSecret("abc")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  });

  it("are usable until they expire or are revoked", () => {
    const token: Token = {
      ...{ id: "", tenant: "t", name: "", scopes: ["read"], hash: "" },
      createdAt: 0,
      expiresAt: 10,
      revokedAt: null,
    };
    expect([9, 10].map((now) => isUsable(token, now))).toEqual([true, false]);
    expect(isUsable({ ...token, revokedAt: 1 }, 2)).toBe(false);
  });

  it("of the bootstrap kind are visible ASCII, and tenants plain names", () => {
    expect(["x".repeat(15), "x".repeat(16), `${"x".repeat(16)} y`, "é".repeat(20)].map(isBootstrapSecret)).toEqual([
      false,
      true,
      false,
      false,
    ]);
    expect(["a", "Acme-1.eu", "", "-a", "a b", "x".repeat(65)].map(isTenantName)).toEqual([
      true,
      true,
      false,
      false,
      false,
      false,
    ]);
  });
});

describe("durations", () => {
  it("are a number and a unit", () => {
    expect(["90s", "5m", "12h", "90d", "2w"].map((text) => parseDuration(text, "x"))).toEqual([
      90_000, 300_000, 43_200_000, 7_776_000_000, 1_209_600_000,
    ]);
    for (const text of ["", "5", "d", "1.5h", "-1d", "0d", "5y"])
      expect(() => parseDuration(text, "--x")).toThrow(/--x must be a time/);
  });
});
