// `npm run bench -- [page|get|store|ingest ...] [--records N] [--seconds S] [--rounds R]`: builds its data once, starts the service as users do,
// interleaves every contender in rounds of one run, and prints ratios: absolute figures of a shared machine mean little.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { measureIngest } from "./ingest.mjs";
import { pinned, runLoad, startServer } from "./processes.mjs";
import { measureStore } from "./store.mjs";

const { values: options, positionals: wanted } = parseArgs({
  allowPositionals: true,
  options: {
    records: { type: "string", default: "1000000" },
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "5" },
  },
});
const wants = (name) => wanted.length === 0 || wanted.includes(name);
const records = Number(options.records);
const seconds = Number(options.seconds);
const rounds = Number(options.rounds);
const root = fileURLToPath(new URL("..", import.meta.url));
const dlo = join(root, "bin/dlo.js");
const token = "benchmark-token-0123456789";
const env = { DLO_TOKEN: token };

function buildData() {
  const folder = join(root, "bench/.data");
  const path = join(folder, `demo-${records}.db`);
  if (existsSync(path)) return path;
  mkdirSync(folder, { recursive: true });
  console.error(`Building ${records} records (once)...`);
  const args = ["demo", "--count", String(records), "--seed", "1", "--until", "1763000000000"];
  execFileSync(process.execPath, [dlo, ...args, "--store", `sqlite:${path}.part`], {
    stdio: ["ignore", "inherit", "inherit"],
  });
  execFileSync("mv", [`${path}.part`, path]);
  return path;
}

async function fetchText(port, path) {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { authorization: `Bearer ${token}` } });
  if (!response.ok) throw new Error(`${path} answered ${response.status}`);
  return response.text();
}

/** Cursors all over the listing: real ones, walked to from dates spread over it. */
async function collect(port, store) {
  const first = JSON.parse(await fetchText(port, "/v2/workflows/dlq?count=1")).messages[0].createdAt;
  const last = JSON.parse(await fetchText(port, "/v2/workflows/dlq?count=1&order=latestFirst")).messages[0].createdAt;
  const pages = [];
  const gets = [];
  const bodies = [];
  const record = [];
  let random = 1;
  while (pages.length < 1024) {
    random = (random * 48271) % 2147483647;
    const from = first + Math.floor(((last - first) * random) / 2147483647);
    const order = pages.length % 2 ? "latestFirst" : "earliestFirst";
    const bound = order === "latestFirst" ? `toDate=${from}` : `fromDate=${from}`;
    const page = JSON.parse(await fetchText(port, `/v2/workflows/dlq?count=1&order=${order}&${bound}`));
    if (page.cursor === "") continue;
    const path = `/v2/workflows/dlq?cursor=${page.cursor}&count=100`;
    pages.push(path);
    gets.push(`/v2/workflows/dlq/${page.messages[0].dlqId}`);
    if (bodies.length < 256) bodies.push(JSON.stringify(await fetchText(port, path)));
    if (record.length < 256) record.push(JSON.stringify(JSON.stringify(page.messages[0])));
  }
  const files = {};
  for (const [name, lines] of Object.entries({ pages, gets, bodies, record })) {
    files[name] = join(store, name);
    writeFileSync(files[name], `${lines.join("\n")}\n`);
  }
  return {
    files,
    pageBytes: Math.round(bodies.reduce((sum, body) => sum + Buffer.byteLength(JSON.parse(body)), 0) / bodies.length),
  };
}

function median(list) {
  const sorted = list.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

async function compare(title, contenders, orders) {
  const results = contenders.map(() => []);
  for (const [i, { port }] of contenders.entries()) await runLoad({ ...orders[i], port, seconds: 8 });
  for (let round = 0; round < rounds; round++) {
    for (const [i, { port }] of contenders.entries()) {
      const result = await runLoad({ ...orders[i], port, seconds });
      if (result.failed > 0) throw new Error(`${result.failed} requests failed`);
      results[i].push(result);
    }
  }
  const rates = results.map((list) => list.map((result) => result.perSecond));
  const ratios = rates[1].map((rate, round) => rate / rates[0][round]);
  const spread = `${Math.min(...ratios).toFixed(2)}-${Math.max(...ratios).toFixed(2)}`;
  console.log(
    `| ${title} | ${Math.round(median(rates[1]))}/s | ${Math.round(median(rates[0]))}/s | ${median(ratios).toFixed(2)} (${spread}) | ` +
      `${median(results[1].map((result) => result.p50)).toFixed(2)} / ${median(results[1].map((result) => result.p99)).toFixed(2)} ms |`,
  );
}

/** The service and the ceiling, over HTTP, a core each. */
async function measureHttp(path, work) {
  // Logs as by default, one line a request, into a file: an operator's usual set-up.
  const service = await startServer([dlo, "serve", "--port", "0", "--store", `sqlite:${path}`], env, join(work, "log"));
  const { files, pageBytes } = await collect(service.port, work);
  const barePages = await startServer([join(root, "bench/bare.mjs"), files.bodies]);
  const bareRecords = await startServer([join(root, "bench/bare.mjs"), files.record]);
  const order = (paths) => ({ connections: 8, token, paths });
  const pinning = pinned ? "server and load pinned to a core each" : "not pinned";
  console.log(
    `${records} records, pages of 100 (${pageBytes} bytes), ${rounds} rounds of ${seconds} s, node ${process.version}, ${pinning}\n`,
  );
  console.log(
    "| | service | bare node:http, same bytes from memory | ratio (spread) | p50 / p99 |\n|---|---|---|---|---|",
  );
  if (wants("page"))
    await compare("page at a random position", [barePages, service], [order(files.pages), order(files.pages)]);
  if (wants("get")) await compare("get by id", [bareRecords, service], [order(files.gets), order(files.gets)]);
  await Promise.all([service.stop(), barePages.stop(), bareRecords.stop()]);
  console.log("");
}

const path = buildData();
const work = mkdtempSync(join(tmpdir(), "dlo-bench-"));
try {
  if (wants("page") || wants("get")) await measureHttp(path, work);
  if (wants("store")) await measureStore(path);
  if (wants("ingest")) await measureIngest(dlo, work, env, token);
} finally {
  rmSync(work, { recursive: true });
}
