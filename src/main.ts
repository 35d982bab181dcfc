import cluster from "node:cluster";
import { existsSync, readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import { fillStore } from "./cli/demo.js";
import { DEMO_SPAN_MS } from "./cli/demo-runs.js";
import { makeProgress } from "./cli/output.js";
import { BUDGET_MS, greet, prepareStore, programVersion, startService } from "./cli/serve.js";
import { createToken, listTokens, revokeToken } from "./cli/token.js";
import { runWorkers } from "./cli/workers.js";
import { type Config, readConfig, SETTINGS } from "./config.js";
import { openStore, sqlitePath } from "./engines/open.js";
import { lockSqlite } from "./engines/sqlite-lock.js";
import { DloError } from "./errors.js";
import type { Store } from "./store.js";
import { DEFAULT_TENANT, isTenantName } from "./token.js";

const OK = 0;
const FAILED = 1;
const USAGE = 2;
const NOT_FOUND = 3;

type Flags = Record<string, string | boolean | undefined>;

function buildProgram(finish: (code: number) => void): Command {
  const program = new Command("dlo")
    .description("Dead Letter Office: keeps failed workflow runs, and lets you list, search and clear them.")
    .version(programVersion())
    .exitOverride()
    .showHelpAfterError("(add --help for the options)");

  const serve = program.command("serve").description("run the service");
  for (const { flag, about, fallback, env } of SETTINGS) {
    serve.option(flag, `${about} (${env}; default ${String(fallback)})`);
  }
  serve
    .option("--config <file>", "JSON file with the same settings (DLO_CONFIG)")
    .option("--demo", "fill the store with believable failed runs if it is empty")
    .addHelpText(
      "after",
      "\nThe bootstrap token comes from DLO_TOKEN (16 or more visible characters); without it the first\nstart makes one and writes it beside the store.\n\nExamples:\n  dlo serve --port 0 --demo\n  dlo serve --store sqlite:/var/lib/dlo/dlo.db --host 0.0.0.0",
    )
    .action(async ({ config: file, demo, ...flags }: Flags) => finish(await serveCommand(flags, file, demo === true)));

  const token = program.command("token").description("create, list and revoke tokens, on the store itself");
  withStore(token.command("create"))
    .description("make a token and print it, once, alone, on stdout")
    .option("--tenant <name>", "whose runs it is for", DEFAULT_TENANT)
    .option("--scope <scopes>", "what it may do: read, ingest, manage, separated by commas", "read")
    .option("--name <text>", "what to call it in lists", "")
    .option("--expires <time>", "stop working after this long, such as 90d")
    .addHelpText(
      "after",
      "\nExamples:\n  dlo token create --scope ingest --name billing\n  dlo token create --tenant acme --scope read,manage --expires 90d",
    )
    .action(async (flags) => {
      process.stdout.write(`${await onStore(flags, (store) => createToken(store, flags), "existing")}\n`);
    });
  withStore(token.command("list"))
    .description("list tokens, never their secrets")
    .addHelpText("after", "\nExample:\n  dlo token list")
    .action((flags) => onStore(flags, (store) => listTokens(store, process.stdout.isTTY === true), "existing"));
  withStore(token.command("revoke"))
    .description("end a token; running services follow within 5 seconds")
    .argument("<id>", "as shown by dlo token list")
    .addHelpText("after", "\nExample:\n  dlo token revoke tok_3qO2yB1xk0aZ")
    .action(async (id, flags) => {
      if (await onStore(flags, (store) => revokeToken(store, id), "existing")) return;
      process.stderr.write("dlo: no active token has this id; dlo token list shows the ids.\n");
      finish(NOT_FOUND);
    });

  withStore(program.command("migrate"))
    .description("bring the store to this version's schema, creating it if need be")
    .addHelpText("after", "\nExample:\n  dlo migrate --store sqlite:./data/dlo.db")
    .action(async (flags) => {
      await onStore(flags, (store) => store.check());
      process.stderr.write("The store is at this version's schema.\n");
    });

  withStore(program.command("demo"))
    .description("put believable failed runs into the store")
    .option("--count <number>", "how many", "1000")
    .option("--seed <number>", "same seed, same --until: same runs", "1")
    .option("--until <time>", "newest run, Unix milliseconds (default: the start of this hour)")
    .option("--tenant <name>", "whose runs they are", DEFAULT_TENANT)
    .addHelpText("after", "\nExamples:\n  dlo demo\n  dlo demo --count 1000000 --seed 7 --store sqlite:./big.db")
    .action((flags) => demoCommand(flags));
  return program;
}

function withStore(command: Command): Command {
  const store = SETTINGS.find(({ name }) => name === "store");
  return command
    .option("--store <url>", `${store?.about} (${store?.env}; default ${String(store?.fallback)})`)
    .option("--config <file>", "JSON file with settings (DLO_CONFIG)");
}

function loadConfig(flags: Flags, file: string | boolean | undefined): Config {
  const path = typeof file === "string" ? file : process.env["DLO_CONFIG"];
  if (path === undefined) return readConfig(flags, process.env, null);
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw new DloError("invalid_config", `Cannot read the configuration file ${path}: ${(error as Error).message}.`);
  }
  return readConfig(flags, process.env, { path, text });
}

async function serveCommand(flags: Flags, file: Flags[string], demo: boolean): Promise<number> {
  const config = loadConfig(flags, file);
  if (cluster.isWorker) return serveOne(config, () => undefined);
  const announce = (url: string): void => {
    process.stdout.write(`listening on ${url}\n`);
    if (process.stderr.isTTY) greet(url, config);
  };
  const unlock = lockSqlite(sqlitePath(config.store));
  try {
    await prepareStore(config, demo);
    return await (config.workers === 1 ? serveOne(config, announce) : runWorkers(config, announce));
  } finally {
    unlock();
  }
}

async function serveOne(config: Config, announce: (url: string) => void): Promise<number> {
  const { url, ended, stop } = await startService(config);
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  announce(url);
  return ended;
}

/** Commands about an existing store refuse to make one: a mistyped path would answer with an empty list. */
async function onStore<Result>(
  flags: Flags,
  work: (store: Store) => Promise<Result>,
  which: "any" | "existing" = "any",
): Promise<Result> {
  const config = loadConfig({ store: flags["store"] }, flags["config"]);
  if (which === "existing" && !existsSync(sqlitePath(config.store))) {
    const path = sqlitePath(config.store);
    throw new DloError("invalid_config", `There is no store at ${path}; check --store, or make one with dlo migrate.`);
  }
  const store = openStore(config.store, { now: Date.now, budgetMs: BUDGET_MS, onFatal: stopBroken });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

function stopBroken(reason: string): void {
  process.stderr.write(`dlo: the store failed: ${reason}\n`);
  process.exit(FAILED);
}

async function demoCommand(flags: Flags): Promise<void> {
  const count = wholeNumber(flags["count"], "--count", 100_000_000);
  const seed = wholeNumber(flags["seed"], "--seed", 2 ** 32 - 1);
  const hour = Math.floor(Date.now() / 3_600_000) * 3_600_000;
  const until = flags["until"] === undefined ? hour : wholeNumber(flags["until"], "--until", 2 ** 42 - 1);
  if (until < DEMO_SPAN_MS) {
    throw new DloError("invalid_config", `--until must be a Unix time in milliseconds, ${DEMO_SPAN_MS} or later.`);
  }
  const tenant = String(flags["tenant"]);
  if (!isTenantName(tenant)) throw new DloError("invalid_config", `--tenant "${tenant}" is no name of a tenant.`);
  const onProgress = makeProgress("stored", count);
  const total = await onStore(flags, async (store) => {
    await fillStore(store, { tenant, count, seed, until, onProgress });
    return store.count(tenant);
  });
  process.stderr.write(`Stored ${count} runs; ${tenant} has ${total}.\n`);
}

function wholeNumber(text: Flags[string], name: string, high: number): number {
  const value = /^\d{1,15}$/.test(String(text)) ? Number(text) : Number.NaN;
  if (value <= high) return value;
  throw new DloError("invalid_config", `${name} must be a whole number from 0 to ${high}, not "${String(text)}".`);
}

/** Runs the command line. The only place where the process is ended. */
export async function main(args: readonly string[]): Promise<void> {
  let exitCode = OK;
  const program = buildProgram((code) => {
    exitCode = code;
  });
  try {
    await program.parseAsync(args, { from: "user" });
  } catch (error) {
    exitCode = reportFailure(error);
  }
  // Whatever is still open (a handle, a thread) must not keep a finished command alive; output is flushed first.
  process.stdout.write("", () => process.stderr.write("", () => process.exit(exitCode)));
}

function reportFailure(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? OK : USAGE;
  if (error instanceof DloError) {
    process.stderr.write(`dlo: ${error.message}\n`);
    return error.code === "invalid_config" ? USAGE : FAILED;
  }
  process.stderr.write(`dlo: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  return FAILED;
}
