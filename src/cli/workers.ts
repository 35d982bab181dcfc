import cluster, { type Worker } from "node:cluster";
import type { AddressInfo } from "node:net";
import type { Config } from "../config.js";

/**
 * Several processes that share the port and the store. The first to fail takes all down with its exit code: whoever
 * watches this program starts it again, and nothing limps on half alive.
 */
export async function runWorkers(config: Config, announce: (url: string) => void): Promise<number> {
  const workers = Array.from({ length: config.workers }, () => cluster.fork());
  let stopped = false;
  const stop = (): void => {
    // Once: a second signal would end a worker that is still finishing its requests.
    if (!stopped) for (const worker of workers) worker.process.kill("SIGTERM");
    stopped = true;
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  const exits = workers.map(exitOf);
  const port = await Promise.race([allListening(workers), Promise.race(exits)]);
  if (typeof port === "object") announce(`http://${config.host}:${port.port}`);
  const first = typeof port === "number" ? port : await Promise.race(exits);
  stop();
  const codes = await Promise.all(exits);
  return first !== 0 ? first : (codes.find((code) => code !== 0) ?? 0);
}

async function allListening(workers: readonly Worker[]): Promise<AddressInfo> {
  const addresses = await Promise.all(
    workers.map(
      (worker) => new Promise<AddressInfo>((resolve) => worker.once("listening", resolve as (a: unknown) => void)),
    ),
  );
  return addresses[0] as AddressInfo;
}

function exitOf(worker: Worker): Promise<number> {
  return new Promise((resolve) => worker.once("exit", (code) => resolve(code ?? 1)));
}
