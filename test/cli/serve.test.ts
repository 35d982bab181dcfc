import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { secretChecksum } from "#dlo/token.js";
import { runDlo, serveDlo } from "../support/process.js";

let folder: string;
let store: string[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "dlo-serve-"));
  store = ["--store", `sqlite:${join(folder, "data", "dlo.db")}`];
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

interface Page {
  readonly cursor: string;
  readonly messages: { dlqId: string }[];
}

const TOKEN = "a-token-of-16-or-more";

function list(url: string, token: string, query = ""): Promise<Response> {
  return fetch(`${url}/v2/workflows/dlq${query}`, { headers: { authorization: `Bearer ${token}` } });
}

function call(
  url: string,
  agent: Agent,
  method: string,
  path: string,
  body = "",
): Promise<{ status: number; requestId: string }> {
  const headers = {
    authorization: `Bearer ${TOKEN}`,
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
  };
  return new Promise((resolve, reject) => {
    const sent = request(`${url}${path}`, { agent, method, headers }, (response) => {
      response.resume();
      const { statusCode = 0, headers: answered } = response;
      response.on("end", () => resolve({ status: statusCode, requestId: String(answered["x-request-id"]) }));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

describe("dlo serve", () => {
  it("says exactly one line on stdout, makes a token for the owner's eyes, and stops on SIGTERM", async () => {
    const service = await serveDlo(store);
    const file = join(folder, "data", "token");
    const token = readFileSync(file, "utf8").trim();
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, "data")).mode & 0o777).toBe(0o700);
    expect(token).toMatch(/^dlo_[0-9A-Za-z]{49}$/);
    expect(token.slice(-6)).toBe(secretChecksum(token.slice(4, 47)));
    expect((await list(service.url, token)).status).toBe(200);
    expect((await list(service.url, "wrong")).status).toBe(401);
    const { code, stdout, stderr } = await service.stop();
    expect([code, stdout]).toEqual([0, `listening on ${service.url}\n`]);
    expect(stderr).not.toContain(token);
    const again = await serveDlo(store);
    expect(readFileSync(file, "utf8").trim()).toBe(token);
    expect((await list(again.url, token)).status).toBe(200);
    await again.stop();
  });

  it("takes the bootstrap token from DLO_TOKEN and then makes no file", async () => {
    const service = await serveDlo(store, { DLO_TOKEN: TOKEN });
    expect((await list(service.url, TOKEN)).status).toBe(200);
    expect(existsSync(join(folder, "data", "token"))).toBe(false);
    await service.stop();
  });

  it("takes over the token that an interrupted first start left", async () => {
    await runDlo(["migrate", ...store]);
    writeFileSync(join(folder, "data", "token"), `${TOKEN}\n`, { mode: 0o600 });
    const service = await serveDlo(store);
    expect((await list(service.url, TOKEN)).status).toBe(200);
    await service.stop();
  });

  it("fills an empty store with --demo, never one that holds anything", async () => {
    const first = await serveDlo([...store, "--demo"], { DLO_TOKEN: TOKEN });
    const page = (await (await list(first.url, TOKEN)).json()) as Page;
    expect(page.messages).toHaveLength(100);
    expect(page.cursor).not.toBe("");
    await fetch(`${first.url}/v2/dlq/${page.messages[0]?.dlqId}`, {
      method: "DELETE",
      headers: { authorization: `Bearer ${TOKEN}` },
    });
    const metrics = async (url: string) =>
      (await (await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${TOKEN}` } })).text()).match(
        /dlo_records (\d+)/,
      )?.[1];
    expect(await metrics(first.url)).toBe("2999");
    await first.stop();
    const second = await serveDlo([...store, "--demo"], { DLO_TOKEN: TOKEN });
    expect(await metrics(second.url)).toBe("2999");
    await second.stop();
  });

  it("refuses a store that another service runs on, until that one is gone, even by kill -9", async () => {
    const first = await serveDlo(store, { DLO_TOKEN: TOKEN });
    const second = await runDlo(["serve", "--port", "0", ...store], { DLO_TOKEN: TOKEN });
    expect(second.code).toBe(1);
    expect(second.stderr).toMatch(/^dlo: Another service runs on .*; stop it, or give this one another --store\.\n$/);
    first.child.kill("SIGKILL");
    await first.ended;
    const third = await serveDlo(store, { DLO_TOKEN: TOKEN });
    expect((await third.stop()).code).toBe(0);
  });

  it("takes flag over environment over file", async () => {
    const file = join(folder, "dlo.json");
    writeFileSync(file, JSON.stringify({ store: store[1], host: "127.0.0.3", logLevel: "warn" }));
    const service = await serveDlo(["--config", file, "--host", "127.0.0.1"], {
      DLO_TOKEN: TOKEN,
      DLO_HOST: "127.0.0.2",
    });
    expect(service.url).toMatch(/^http:\/\/127\.0\.0\.1:/);
    expect((await list(service.url, TOKEN)).status).toBe(200);
    expect((await service.stop()).stderr).toBe("");
    const byEnv = await serveDlo(["--config", file], { DLO_TOKEN: TOKEN, DLO_HOST: "127.0.0.2" });
    expect(byEnv.url).toMatch(/^http:\/\/127\.0\.0\.2:/);
    await byEnv.stop();
  });

  const mistakes: readonly (readonly [string, string[], Record<string, string>, RegExp])[] = [
    ["an unknown flag", ["--prot", "1"], {}, /unknown option '--prot'/],
    ["an unknown variable", [], { DLO_PROT: "1" }, /DLO_PROT is not known\. Did you mean DLO_PORT\?/],
    ["a port out of range", ["--port", "65536"], {}, /--port must be a whole number from 0 to 65535, not "65536"/],
    ["a bad variable", [], { DLO_PORT: "http" }, /DLO_PORT must be a whole number from 0 to 65535, not "http"/],
    ["a short token", [], { DLO_TOKEN: "short" }, /DLO_TOKEN must be 16 or more visible ASCII characters/],
    ["another store", ["--store", "mysql://x"], {}, /"mysql:\/\/x" is not of the form sqlite:PATH/],
    ["a log level", ["--log-level", "loud"], {}, /--log-level must be one of trace, debug, info/],
    ["a missing file", ["--config", "/nonexistent.json"], {}, /Cannot read the configuration file/],
  ];
  for (const [name, args, env, message] of mistakes) {
    it(`refuses ${name} with exit code 2 and says so`, async () => {
      const { code, stdout, stderr } = await runDlo(["serve", ...args], env, folder);
      expect([code, stdout]).toEqual([2, ""]);
      expect(stderr).toMatch(message);
      expect(existsSync(join(folder, "data"))).toBe(false);
    });
  }

  it("refuses an unknown key in the file, and a file that is not JSON", async () => {
    const file = join(folder, "dlo.json");
    writeFileSync(file, '{"prot": 1}');
    expect((await runDlo(["serve", "--config", file])).stderr).toMatch(
      /"prot" in .* is not known\. Did you mean port\?/,
    );
    writeFileSync(file, "{");
    expect((await runDlo(["serve", "--config", file])).stderr).toMatch(/is not well-formed JSON/);
  });

  it("says when the port is taken, and leaves with 2", async () => {
    const first = await serveDlo(store, { DLO_TOKEN: TOKEN });
    const port = new URL(first.url).port;
    const second = await runDlo(["serve", "--port", port, "--store", `sqlite:${join(folder, "other.db")}`], {
      DLO_TOKEN: TOKEN,
    });
    expect([second.code, second.stderr]).toEqual([
      2,
      expect.stringMatching(/Cannot listen on 127\.0\.0\.1:\d+: .*EADDRINUSE/),
    ]);
    await first.stop();
  });

  it("lists every setting with its default in its help", async () => {
    const { code, stdout } = await runDlo(["serve", "--help"]);
    expect(code).toBe(0);
    for (const text of [
      "--store",
      "DLO_STORE",
      "sqlite:./data/dlo.db",
      "--port",
      "8787",
      "--host",
      "127.0.0.1",
      "--workers",
      "--log-level",
      "--demo",
      "DLO_TOKEN",
      "Examples:",
    ]) {
      expect(stdout).toContain(text);
    }
  });

  it("finishes what is under way on SIGTERM, resets nobody, and is gone within 10 s", async () => {
    const service = await serveDlo([...store, "--demo", "--log-level", "warn"], { DLO_TOKEN: TOKEN });
    let answered = 0;
    const failures: unknown[] = [];
    let stopping = false;
    const client = async (): Promise<void> => {
      while (!stopping) {
        try {
          const response = await list(service.url, TOKEN, "?count=100");
          await response.arrayBuffer();
          if (response.status === 200) answered++;
          else failures.push(response.status);
        } catch (error) {
          // Once it has been told to stop, new connections may be refused; cut ones never.
          const { code } = (error as { cause?: { code?: string } }).cause ?? {};
          if (code !== "ECONNREFUSED") failures.push(code ?? error);
          return;
        }
      }
    };
    const clients = Array.from({ length: 6 }, client);
    await sleep(500);
    const start = Date.now();
    const ended = service.stop();
    await Promise.all(clients);
    stopping = true;
    expect((await ended).code).toBe(0);
    expect(Date.now() - start).toBeLessThan(10_000);
    expect(failures).toEqual([]);
    expect(answered).toBeGreaterThan(20);
  });

  it("takes two signals as one", async () => {
    for (const workers of ["1", "2"]) {
      const service = await serveDlo([...store, "--workers", workers], { DLO_TOKEN: TOKEN });
      await (await list(service.url, TOKEN)).arrayBuffer();
      service.child.kill("SIGINT");
      service.child.kill("SIGTERM");
      await sleep(50);
      service.child.kill("SIGINT");
      expect([workers, (await service.ended).code]).toEqual([workers, 0]);
    }
  });

  it("has workers that see at once what another acknowledged, even while they walk long conjunctions", async () => {
    const service = await serveDlo([...store, "--workers", "2", "--log-level", "warn"], { DLO_TOKEN: TOKEN });
    // Connections that stay with one worker; the stem of the request ids tells with which.
    const byWorker = new Map<string, Agent[]>();
    while (byWorker.size < 2 || [...byWorker.values()].some((agents) => agents.length < 5)) {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      const stem = (await call(service.url, agent, "GET", "/healthz")).requestId.slice(0, 8);
      byWorker.set(stem, [...(byWorker.get(stem) ?? []), agent]);
    }
    const [writer = [], reader = []] = [...byWorker.values()];
    const post = (runs: unknown) => call(service.url, writer[0] as Agent, "POST", "/dlo/runs", JSON.stringify(runs));
    for (let n = 0; n < 40_000; n += 5_000) {
      await post(Array.from({ length: 5_000 }, (_, i) => ({ createdAt: n + i, label: "a", url: "u" })));
    }
    await post(Array.from({ length: 5_000 }, (_, i) => ({ createdAt: i, flowControlKey: "k", url: "v" })));
    let walking = true;
    const walks = reader.slice(1, 5).map(async (agent) => {
      while (walking) await call(service.url, agent, "GET", "/v2/dlq?url=u&label=a&flowControlKey=k");
    });
    let missed = 0;
    for (let n = 0; n < 300; n++) {
      expect((await post({ dlqId: `new-${n}` })).status).toBe(200);
      if ((await call(service.url, reader[0] as Agent, "GET", `/v2/dlq/new-${n}`)).status !== 200) missed++;
    }
    walking = false;
    await Promise.all(walks);
    for (const agent of [...writer, ...reader]) agent.destroy();
    await service.stop();
    expect(missed).toBe(0);
  });

  it("shares port and store between --workers, exactly", async () => {
    const service = await serveDlo([...store, "--workers", "2"], { DLO_TOKEN: TOKEN });
    const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json", connection: "close" };
    const writers = Array.from({ length: 6 }, async (_, w) => {
      for (let n = 0; n < 20; n++) {
        const body = JSON.stringify([{ dlqId: `${w}-${n}`, createdAt: 5, label: `w${w}` }]);
        expect((await fetch(`${service.url}/dlo/runs`, { method: "POST", headers, body })).status).toBe(200);
        // Whichever process answers sees what the other acknowledged.
        expect((await fetch(`${service.url}/v2/dlq/${w}-${n}`, { headers })).status).toBe(200);
      }
    });
    await Promise.all(writers);
    const seen: string[] = [];
    let cursor = "";
    do {
      const page = (await (await fetch(`${service.url}/v2/dlq?count=7&cursor=${cursor}`, { headers })).json()) as Page;
      seen.push(...page.messages.map((run) => run.dlqId));
      cursor = page.cursor;
    } while (cursor !== "");
    expect(seen).toHaveLength(120);
    expect(new Set(seen).size).toBe(120);
    const { code, stdout } = await service.stop();
    expect([code, stdout]).toEqual([0, `listening on ${service.url}\n`]);
  });
});
