import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const DLO = fileURLToPath(new URL("../../bin/dlo.js", import.meta.url));

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The environment of the test, without anything that would configure the program. */
function cleanEnv(more: Record<string, string>): NodeJS.ProcessEnv {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("DLO_")));
  return { ...env, ...more };
}

interface Started {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  stdout(): string;
  stderr(): string;
}

function startDlo(args: readonly string[], env: Record<string, string> = {}, cwd?: string): Started {
  const options = { env: cleanEnv(env), stdio: ["ignore", "pipe", "pipe"] as ["ignore", "pipe", "pipe"] };
  const child = spawn(process.execPath, [DLO, ...args], cwd === undefined ? options : { ...options, cwd });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk) => {
    stdout += chunk;
  });
  child.stderr.on("data", (chunk) => {
    stderr += chunk;
  });
  const ended = new Promise<Ended>((resolve) => child.on("close", (code) => resolve({ code, stdout, stderr })));
  return { child, ended, stdout: () => stdout, stderr: () => stderr };
}

export function runDlo(args: readonly string[], env: Record<string, string> = {}, cwd?: string): Promise<Ended> {
  return startDlo(args, env, cwd).ended;
}

/** Starts `dlo serve` and resolves with its address once it says that it listens. */
export async function serveDlo(
  args: readonly string[],
  env: Record<string, string> = {},
  cwd?: string,
): Promise<Started & { url: string; stop: () => Promise<Ended> }> {
  const started = startDlo(["serve", "--port", "0", ...args], env, cwd);
  const url = await new Promise<string>((resolve, reject) => {
    started.child.stdout?.on("data", () => {
      const match = /^listening on (\S+)\n/.exec(started.stdout());
      if (match?.[1] !== undefined) resolve(match[1]);
    });
    void started.ended.then(({ code, stderr }) => reject(new Error(`dlo serve ended with ${code}: ${stderr}`)));
  });
  return {
    ...started,
    url,
    stop: () => {
      started.child.kill("SIGTERM");
      return started.ended;
    },
  };
}
