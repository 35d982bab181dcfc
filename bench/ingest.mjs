// Durable ingest over HTTP: one client, batches of 1,000; each is acknowledged before the next is sent.
import { join } from "node:path";
import { demoRuns } from "../dist/cli/demo-runs.js";
import { startServer } from "./processes.mjs";

const BATCH = 1000;
const BATCHES = 60;

export async function measureIngest(dlo, work, env, token) {
  const batches = [];
  let batch = [];
  for (const run of demoRuns(BATCH * BATCHES, 2, 1_763_000_000_000)) {
    batch.push(JSON.stringify(run));
    if (batch.length === BATCH) {
      batches.push(batch.join("\n"));
      batch = [];
    }
  }
  const store = `sqlite:${join(work, "ingest.db")}`;
  const service = await startServer([dlo, "serve", "--port", "0", "--log-level", "warn", "--store", store], env);
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/x-ndjson" };
  const start = performance.now();
  for (const body of batches) {
    const response = await fetch(`http://127.0.0.1:${service.port}/dlo/runs`, { method: "POST", headers, body });
    if (response.status !== 200) throw new Error(`ingest answered ${response.status}: ${await response.text()}`);
    await response.arrayBuffer();
  }
  const rate = (BATCH * BATCHES) / ((performance.now() - start) / 1000);
  await service.stop();
  console.log(
    `durable ingest, one client, batches of ${BATCH}: ${Math.round(rate)} records/s (service on one core, all its threads)`,
  );
}
