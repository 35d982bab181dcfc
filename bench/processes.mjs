// Starting, pinning and ending the processes of a benchmark.
import { execFileSync, spawn } from "node:child_process";
import { openSync } from "node:fs";
import { cpus } from "node:os";

/** Server and load get a core each where the machine has two and `taskset`. */
export const pinned = cpus().length >= 2 && has("taskset");

function has(command) {
  try {
    execFileSync("sh", ["-c", `command -v ${command}`]);
    return true;
  } catch {
    return false;
  }
}

function start(core, args, env = {}, log = undefined) {
  const command = pinned ? ["taskset", "-c", String(core), process.execPath, ...args] : [process.execPath, ...args];
  const stderr = log === undefined ? "inherit" : openSync(log, "w");
  return spawn(command[0], command.slice(1), { stdio: ["ignore", "pipe", stderr], env: { ...process.env, ...env } });
}

/** Resolves when the server has said where it listens. */
export function startServer(args, env, log) {
  const child = start(0, args, env, log);
  return new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`${args[0]} ended with ${code}`)));
    child.stdout.on("data", (chunk) => {
      const match = /listening on http:\/\/[^:]+:(\d+)/.exec(chunk.toString());
      if (match) resolve({ child, port: Number(match[1]), stop: () => stopServer(child) });
    });
  });
}

function stopServer(child) {
  child.removeAllListeners("exit");
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  return ended;
}

export function runLoad(orders) {
  const child = start(1, [new URL("./load.mjs", import.meta.url).pathname, JSON.stringify(orders)]);
  let text = "";
  child.stdout.on("data", (chunk) => {
    text += chunk;
  });
  return new Promise((resolve, reject) => {
    child.once("exit", (code) =>
      code === 0 ? resolve(JSON.parse(text)) : reject(new Error(`load ended with ${code}`)),
    );
  });
}
