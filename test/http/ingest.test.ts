import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SECRET, startTestService, type TestService } from "../support/service.js";

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());

const JSON_TYPE = { "content-type": "application/json" };
const NDJSON = { "content-type": "application/x-ndjson" };

function post(body: string | Buffer, headers: Record<string, string> = JSON_TYPE, token: string = SECRET) {
  return service.request("/dlo/runs", {
    method: "POST",
    body: body as NonNullable<RequestInit["body"]>,
    headers,
    token,
  });
}

async function stored(dlqId: string) {
  return (await service.request(`/v2/workflows/dlq/${encodeURIComponent(dlqId)}`)).json;
}

async function total(): Promise<number> {
  return service.store.count("default");
}

describe("POST /dlo/runs takes", () => {
  it("one record, an array, NDJSON, and nothing", async () => {
    expect((await post('{"dlqId":"one"}')).json).toEqual({ dlqIds: ["one"] });
    expect((await post(' [ {"dlqId":"two"} , {"dlqId":"three"} ] \n')).json).toEqual({ dlqIds: ["two", "three"] });
    expect((await post('{"dlqId":"four"}\r\n\n  \n{"dlqId":"five"}', NDJSON)).json).toEqual({
      dlqIds: ["four", "five"],
    });
    expect((await post("[]")).json).toEqual({ dlqIds: [] });
    expect((await post(" [ ] ")).json).toEqual({ dlqIds: [] });
    expect((await post("", NDJSON)).json).toEqual({ dlqIds: [] });
    for (const id of ["one", "two", "three", "four", "five"]) expect((await stored(id)).dlqId).toBe(id);
    const utf8 = await post('{"dlqId":"six"}', { "content-type": "Application/JSON; Charset=UTF-8" });
    expect(utf8.status).toBe(200);
  });

  it("records without id or time: the id sorts by time, the time is that of ingest", async () => {
    const first = (await post("{}")).json.dlqIds[0];
    service.clock.now += 5;
    const second = (await post("{}")).json.dlqIds[0];
    expect(first).toMatch(/^dlq_[0-9A-HJKMNP-TV-Z]{26}$/);
    expect(second > first).toBe(true);
    expect((await stored(second)).createdAt).toBe(service.clock.now);
    expect(await stored(first)).toEqual({
      ...{ dlqId: first, createdAt: service.clock.now - 5 },
      ...{ body: "", bodyBase64: "", responseBody: "", responseBodyBase64: "" },
    });
  });

  it("the same Idempotency-Key again without a second record", async () => {
    const headers = { ...JSON_TYPE, "idempotency-key": "order-4711!" };
    const before = await total();
    const first = (await post('[{"label":"x"},{"dlqId":"own"},{}]', headers)).json.dlqIds;
    service.clock.now += 1000;
    const again = (await post('[{"label":"x"},{"dlqId":"own"},{}]', headers)).json.dlqIds;
    expect(again).toEqual(first);
    expect(first[1]).toBe("own");
    expect(new Set(first).size).toBe(3);
    expect(await total()).toBe(before + 3);
    const other = (await post("[{}]", { ...headers, "idempotency-key": "order-4712" })).json.dlqIds;
    expect(first).not.toContain(other[0]);
    const tenant = await service.token("keys", ["ingest"]);
    expect(first).not.toContain((await post("[{}]", headers, tenant)).json.dlqIds[0]);
  });

  it("a replacement that keeps its place and its first time", async () => {
    await post('{"dlqId":"again","createdAt":77,"label":"old","failureFunctionState":"CALLBACK_INPROGRESS"}');
    await post('{"dlqId":"again","createdAt":99,"failureFunctionState":"CALLBACK_SUCCESS"}');
    const record = await stored("again");
    expect([record.createdAt, record.label, record.failureFunctionState]).toEqual([77, undefined, "CALLBACK_SUCCESS"]);
  });

  it("10,000 records at once", async () => {
    const lines = Array.from({ length: 10_000 }, (_, n) => `{"dlqId":"bulk-${n}","createdAt":${n % 10}}`).join("\n");
    const answer = await post(lines, NDJSON);
    expect(answer.json.dlqIds).toHaveLength(10_000);
    const eleven = await post(`${lines}\n{}`, NDJSON);
    expect([eleven.status, eleven.json.code]).toEqual([413, "too_many_records"]);
  });
});

describe("a record keeps", () => {
  it("header names and values, strings as arrays, __proto__ among them", async () => {
    await post(
      '{"dlqId":"h","header":{"X-A":"1","x-a":["2","3"],"__proto__":"p","constructor":["c"],"Empty":[]},"responseHeader":{}}',
    );
    const text = (await service.request("/v2/workflows/dlq/h")).text;
    expect(text).toContain('"header":{"X-A":["1"],"x-a":["2","3"],"__proto__":["p"],"constructor":["c"],"Empty":[]}');
    expect(text).toContain('"responseHeader":{}');
  });

  it("fields of the producer's own, as they came", async () => {
    const own = {
      messageId: "m",
      notBefore: 5,
      labels: ["a", "b"],
      nested: { deep: [1, null, true, { x: -0.5e-7 }] },
      "": "empty name",
      constructor: { a: 1 },
    };
    await post(`{"dlqId":"own-fields","__proto__":{"polluted":true},${JSON.stringify(own).slice(1)}`);
    const text = (await service.request("/v2/workflows/dlq/own-fields")).text;
    const record = JSON.parse(text);
    expect(record).toMatchObject(own);
    expect(text).toContain('"__proto__":{"polluted":true}');
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  it("the state inside failureCallbackInfo, where it has none of its own", async () => {
    await post(
      '[{"dlqId":"s1","failureCallbackInfo":{"state":"CALLBACK_FAIL"}},{"dlqId":"s2","failureCallbackInfo":{"state":"X"}},{"dlqId":"s3","failureFunctionState":"CALLBACK_SUCCESS","failureCallbackInfo":{"state":"CALLBACK_FAIL"}}]',
    );
    expect((await stored("s1")).failureFunctionState).toBe("CALLBACK_FAIL");
    expect((await stored("s2")).failureFunctionState).toBeUndefined();
    expect((await stored("s3")).failureFunctionState).toBe("CALLBACK_SUCCESS");
  });

  it("bodies by the rule: text as text, base64 only for what is not UTF-8", async () => {
    const utf8 = Buffer.from("grüße \u0000").toString("base64");
    await post(
      `[{"dlqId":"b1","body":"nul \\u0000 é \\ud83d\\ude00"},{"dlqId":"b2","bodyBase64":"${utf8}"},{"dlqId":"b3","bodyBase64":"/w==","body":""},{"dlqId":"b4","responseBodyBase64":"gA=="}]`,
    );
    expect(await stored("b1")).toMatchObject({ body: "nul \u0000 é \u{1f600}", bodyBase64: "" });
    expect(await stored("b2")).toMatchObject({ body: "grüße \u0000", bodyBase64: "" });
    expect(await stored("b3")).toMatchObject({ body: "", bodyBase64: "/w==", responseBody: "" });
    expect(await stored("b4")).toMatchObject({ body: "", responseBody: "", responseBodyBase64: "gA==" });
  });

  it("numbers with the value they were written with", async () => {
    await post('{"dlqId":"n","x":[0.1,1e2,9007199254740991,-1.50,1E-7,123456789.125,0.1e1]}');
    expect((await stored("n")).x).toEqual([0.1, 100, 9007199254740991, -1.5, 1e-7, 123456789.125, 1]);
  });
});

const CHARACTERS = "1 to 2048 characters of text without NUL";

describe("POST /dlo/runs refuses, whole, and stores nothing:", () => {
  const cases: readonly (readonly [string, string, number, string, string | undefined, string])[] = [
    [
      "malformed JSON",
      '{"a":',
      400,
      "invalid_json",
      undefined,
      "The record is not well-formed JSON; check its quotes, commas and brackets.",
    ],
    [
      "an empty body",
      "",
      400,
      "invalid_json",
      undefined,
      "The body is empty; send one record, an array of records, or NDJSON.",
    ],
    ["two values", "{} {}", 400, "invalid_json", undefined, "Send one JSON value: something follows the first."],
    [
      "a trailing comma",
      "[{},]",
      400,
      "invalid_json",
      undefined,
      "Record 2 of the array is missing; look for a stray comma or a missing bracket.",
    ],
    [
      "a leading comma",
      "[,{}]",
      400,
      "invalid_json",
      undefined,
      "Record 1 of the array is missing; look for a stray comma or a missing bracket.",
    ],
    [
      "no comma",
      "[{} {}]",
      400,
      "invalid_json",
      undefined,
      "The array does not go on with a comma or end after record 1.",
    ],
    [
      "an open array",
      "[{}",
      400,
      "invalid_json",
      undefined,
      "The array does not go on with a comma or end after record 1.",
    ],
    [
      "brackets crossed",
      '[{"a":1]}',
      400,
      "invalid_json",
      undefined,
      "Record 1 is not well-formed JSON; check its quotes, commas and brackets.",
    ],
    ["text after the array", "[{}]x", 400, "invalid_json", undefined, "Something follows the array's closing bracket."],
    ["a number", "5", 400, "invalid_record", undefined, "The record must be a JSON object, not a number."],
    ["null in the array", "[{},null]", 400, "invalid_record", undefined, "Record 2 must be a JSON object, not null."],
    [
      "an array in the array",
      "[[]]",
      400,
      "invalid_record",
      undefined,
      "Record 1 must be a JSON object, not an array.",
    ],
    [
      "2^53+1",
      '{"x":9007199254740993}',
      400,
      "invalid_json",
      undefined,
      "The record holds the number 9007199254740993, which a double cannot keep; send it as a string.",
    ],
    [
      "1e400, deep",
      '{"x":[{"y":1e400}]}',
      400,
      "invalid_json",
      undefined,
      "The record holds the number 1e400, which a double cannot keep; send it as a string.",
    ],
    [
      "a lone surrogate",
      '{"body":"\\ud800"}',
      400,
      "invalid_record",
      undefined,
      "The record holds a lone surrogate (half a character); send well-formed Unicode.",
    ],
    [
      "a lone surrogate in a name",
      '{"\\udc00":1}',
      400,
      "invalid_record",
      undefined,
      "The record holds a lone surrogate (half a character); send well-formed Unicode.",
    ],
    [
      "null in a field",
      '{"label":null}',
      400,
      "invalid_record",
      "label",
      `The record has a label that is not ${CHARACTERS}; leave the field out where it has no value.`,
    ],
    [
      "an empty label",
      '{"label":""}',
      400,
      "invalid_record",
      "label",
      `The record has a label that is not ${CHARACTERS}.`,
    ],
    [
      "NUL in a label",
      '{"label":"a\\u0000"}',
      400,
      "invalid_record",
      "label",
      `The record has a label that is not ${CHARACTERS}.`,
    ],
    [
      "a long url",
      `{"url":"${"x".repeat(2049)}"}`,
      400,
      "invalid_record",
      "url",
      `The record has a url that is not ${CHARACTERS}.`,
    ],
    [
      "another state",
      '{"failureFunctionState":"DONE"}',
      400,
      "invalid_record",
      "failureFunctionState",
      "The record has a failureFunctionState that is not one of CALLBACK_INPROGRESS, CALLBACK_SUCCESS, CALLBACK_FAIL, CALLBACK_CANCELED.",
    ],
    [
      "a time too late",
      '{"createdAt":4398046511104}',
      400,
      "invalid_record",
      "createdAt",
      "The record has a createdAt that is not a Unix time in whole milliseconds from 0 to 4398046511103.",
    ],
    [
      "a negative time",
      '{"createdAt":-1}',
      400,
      "invalid_record",
      "createdAt",
      "The record has a createdAt that is not a Unix time in whole milliseconds from 0 to 4398046511103.",
    ],
    [
      "half a millisecond",
      '{"createdAt":1.5}',
      400,
      "invalid_record",
      "createdAt",
      "The record has a createdAt that is not a Unix time in whole milliseconds from 0 to 4398046511103.",
    ],
    [
      "a header of numbers",
      '{"header":{"a":[1]}}',
      400,
      "invalid_record",
      "header",
      "The record has a header that is not an object of header names, each with a string or an array of strings.",
    ],
    [
      "a header list",
      '{"responseHeader":[]}',
      400,
      "invalid_record",
      "responseHeader",
      "The record has a responseHeader that is not an object of header names, each with a string or an array of strings.",
    ],
    [
      "both bodies",
      '{"body":"a","bodyBase64":"/w=="}',
      400,
      "invalid_record",
      "bodyBase64",
      "The record has both body and bodyBase64; send only the one that carries the body.",
    ],
    [
      "both response bodies",
      '{"responseBody":"a","responseBodyBase64":"/w=="}',
      400,
      "invalid_record",
      "responseBodyBase64",
      "The record has both responseBody and responseBodyBase64; send only the one that carries the body.",
    ],
    [
      "bad base64",
      '{"bodyBase64":"*"}',
      400,
      "invalid_record",
      "bodyBase64",
      "The record has a bodyBase64 that is not padded standard base64.",
    ],
    [
      "unpadded base64",
      '{"bodyBase64":"/w"}',
      400,
      "invalid_record",
      "bodyBase64",
      "The record has a bodyBase64 that is not padded standard base64.",
    ],
    [
      "base64 with a line break",
      '{"bodyBase64":"/w\\n=="}',
      400,
      "invalid_record",
      "bodyBase64",
      "The record has a bodyBase64 that is not padded standard base64.",
    ],
    [
      "an empty id",
      '{"dlqId":""}',
      400,
      "invalid_record",
      "dlqId",
      "The record has a dlqId that is not 1 to 256 characters of text without control characters.",
    ],
    [
      "an id of 257",
      `{"dlqId":"${"x".repeat(257)}"}`,
      400,
      "invalid_record",
      "dlqId",
      "The record has a dlqId that is not 1 to 256 characters of text without control characters.",
    ],
    [
      "a control character",
      '{"dlqId":"a\\n"}',
      400,
      "invalid_record",
      "dlqId",
      "The record has a dlqId that is not 1 to 256 characters of text without control characters.",
    ],
    [
      "a lone surrogate in an id",
      '{"dlqId":"\\ud800"}',
      400,
      "invalid_record",
      "dlqId",
      "The record has a dlqId that is not 1 to 256 characters of text without control characters.",
    ],
    [
      "a text for a number",
      '{"responseStatus":"500"}',
      400,
      "invalid_record",
      "responseStatus",
      "The record has a responseStatus that is not a whole number.",
    ],
    [
      "negative retries",
      '{"maxRetries":-1}',
      400,
      "invalid_record",
      "maxRetries",
      "The record has a maxRetries that is not a whole number, 0 or more.",
    ],
    [
      "too deep",
      `{"x":${"[".repeat(32)}${"]".repeat(32)}}`,
      400,
      "invalid_json",
      undefined,
      "The record nests deeper than 32 levels; flatten it.",
    ],
    [
      "a million levels",
      `{"x":${"[".repeat(1_000_000)}`,
      400,
      "invalid_json",
      undefined,
      "The record nests deeper than 32 levels; flatten it.",
    ],
    [
      "a record too large",
      `{"body":"${"x".repeat(4 * 1024 * 1024)}"}`,
      413,
      "record_too_large",
      undefined,
      "The record exceeds 4194304 bytes of JSON; shorten its bodies.",
    ],
    [
      "a record much too large",
      `{"body":"${"x".repeat(17 * 1024 * 1024)}"}`,
      413,
      "record_too_large",
      undefined,
      "The record exceeds 4194304 bytes of JSON; shorten its bodies.",
    ],
  ];
  for (const [name, body, status, code, parameter, error] of cases) {
    it(name, async () => {
      const before = await total();
      const answer = await post(body);
      expect([answer.status, answer.json]).toEqual([
        status,
        parameter === undefined ? { error, code } : { error, code, parameter },
      ]);
      expect(await total()).toBe(before);
    });
  }

  it("a bad line 7,000 of 10,000", async () => {
    const before = await total();
    const lines = Array.from({ length: 10_000 }, (_, n) => (n === 6_999 ? '{"label":5}' : `{"dlqId":"line-${n}"}`));
    const answer = await post(lines.join("\n"), NDJSON);
    expect([answer.status, answer.json.error]).toEqual([400, `Line 7000 has a label that is not ${CHARACTERS}.`]);
    expect(await total()).toBe(before);
    const two = await post('{"a":1}\n{} {}\n', NDJSON);
    expect(two.json.error).toBe("Line 2 holds more than one JSON value.");
  });

  it("endless numbers, without spending time on them", async () => {
    for (const number of [`0.1${"0".repeat(1_000_000)}1`, `1e-${"9".repeat(1_000_000)}`, "9".repeat(1_000_000)]) {
      const answer = await post(`{"x":${number}}`);
      expect([answer.status, answer.json.code]).toEqual([400, "invalid_json"]);
    }
  });

  it("bodies beyond what may be under way at once, with 503, and goes on after them", async () => {
    const small = await startTestService({ budget: { maxIn: 1024 * 1024 } });
    try {
      const send = (bytes: number) =>
        small.request("/dlo/runs", { method: "POST", body: `{"body":"${"x".repeat(bytes)}"}`, headers: JSON_TYPE });
      const refused = await send(2 * 1024 * 1024);
      expect([refused.status, refused.json.code, refused.headers.get("retry-after")]).toEqual([503, "overloaded", "1"]);
      expect(await small.store.count("default")).toBe(0);
      expect((await send(1000)).status).toBe(200);
    } finally {
      await small.stop();
    }
  });

  it("a body that its client abandons, as no fault of the service", async () => {
    const before = service.log.length;
    const socket = connect(service.port, "127.0.0.1");
    socket.write(
      `POST /dlo/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${SECRET}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{`,
    );
    await sleep(100);
    socket.destroy();
    while (service.log.length === before) await sleep(10);
    expect(service.log.slice(before)).toMatchObject([{ level: 30, route: "/dlo/runs", status: 400 }]);
  });

  it("bytes that are not UTF-8", async () => {
    const answer = await post(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]));
    expect([answer.status, answer.json]).toEqual([
      400,
      { error: "The body is not valid UTF-8; encode it as UTF-8.", code: "invalid_json" },
    ]);
  });

  it("other content types, charsets and encodings", async () => {
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data",
      "application/jsonx",
      "nonsense",
      "application/json; charset=latin1",
    ]) {
      const answer = await post("{}", { "content-type": type });
      expect([type, answer.status, answer.json.code]).toEqual([type, 415, "unsupported_media_type"]);
    }
    const none = await post(Buffer.from("{}"), {});
    expect([none.status, none.json.code]).toEqual([415, "unsupported_media_type"]);
    const zipped = await post("{}", { ...JSON_TYPE, "content-encoding": "gzip" });
    expect([zipped.status, zipped.json.code]).toEqual([415, "unsupported_media_type"]);
  });

  it("a body over 64 MiB, declared or counted", async () => {
    const big = Buffer.alloc(64 * 1024 * 1024 + 1, 0x20);
    const declared = await post(big);
    expect([declared.status, declared.json.code]).toEqual([413, "body_too_large"]);
    let sent = 0;
    const stream = new ReadableStream({
      pull(controller) {
        if (sent >= big.length) controller.close();
        else controller.enqueue(big.subarray(sent, sent + 1024 * 1024));
        sent += 1024 * 1024;
      },
    });
    const counted = await service.request("/dlo/runs", {
      ...{ method: "POST", body: stream, headers: JSON_TYPE, duplex: "half" },
    } as RequestInit);
    expect([counted.status, counted.json.code]).toEqual([413, "body_too_large"]);
  });

  it("bad Idempotency-Keys and any query", async () => {
    for (const key of ["", "a b", "x".repeat(256)]) {
      const answer = await post("{}", { ...JSON_TYPE, "idempotency-key": key });
      expect([answer.status, answer.json.code, answer.json.parameter]).toEqual([
        400,
        "invalid_header",
        "Idempotency-Key",
      ]);
    }
    const answer = await service.request("/dlo/runs?label=x", { method: "POST", body: "{}", headers: JSON_TYPE });
    expect([answer.status, answer.json.code, answer.json.parameter]).toEqual([400, "unknown_parameter", "label"]);
  });
});
