import { DloError } from "./errors.js";
import { MAX_RECORD_BYTES } from "./ingest.js";
import { didYouMean } from "./nearest.js";
import { isBootstrapSecret } from "./token.js";

const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Everything the service can be told, read once and frozen. */
export interface Config {
  readonly store: string;
  readonly host: string;
  readonly port: number;
  readonly workers: number;
  readonly logLevel: LogLevel;
  readonly publicMetrics: boolean;
  readonly maxRecordBytes: number;
  /** The bootstrap token, from the environment alone: a flag would show in the process list. */
  readonly token: string | null;
}

type SettingName = Exclude<keyof Config, "token">;

export interface Setting<Name extends SettingName = SettingName> {
  readonly name: Name;
  /** As commander writes it. */
  readonly flag: string;
  readonly env: string;
  readonly about: string;
  readonly fallback: Config[Name];
  readonly parse: (text: string, where: string) => Config[Name];
}

/** One row a setting: flags, variables, file keys, defaults and help all come from here. */
export const SETTINGS: readonly Setting[] = [
  setting("store", "--store <url>", "where runs are kept: sqlite:PATH", "sqlite:./data/dlo.db", (text) => text),
  setting("host", "--host <address>", "address to listen on", "127.0.0.1", (text) => text),
  setting("port", "--port <number>", "port to listen on; 0 picks a free one", 8787, number(0, 65535)),
  setting("workers", "--workers <number>", "processes that share the port and the store", 1, number(1, 64)),
  setting("logLevel", "--log-level <level>", `how much to log: ${LOG_LEVELS.join(", ")}`, "info", oneOf(LOG_LEVELS)),
  setting("publicMetrics", "--public-metrics", "serve /metrics without a token", false, flag),
  setting(
    "maxRecordBytes",
    "--max-record-bytes <number>",
    "largest record taken, in bytes of stored JSON",
    MAX_RECORD_BYTES,
    number(1024, 64 * 1024 * 1024),
  ),
];

function setting<Name extends SettingName>(
  name: Name,
  flagText: string,
  about: string,
  fallback: Config[Name],
  parse: (text: string, where: string) => Config[Name],
): Setting {
  const env = `DLO_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
  return { name, flag: flagText, env, about, fallback, parse };
}

/** Variables that are no settings of the service but known to the program. */
const OTHER_VARIABLES = ["DLO_TOKEN", "DLO_CONFIG", "DLO_URL"];

/** Flag over environment over file over default. An unknown name anywhere is an error, not a shrug. */
export function readConfig(
  flags: Readonly<Record<string, unknown>>,
  env: Readonly<Record<string, string | undefined>>,
  file: { readonly path: string; readonly text: string } | null,
): Config {
  refuseUnknownVariables(env);
  const fileValues = file === null ? {} : readFile(file.path, file.text);
  const values = SETTINGS.map(({ name, env: variable, fallback, parse, flag: flagText }) => {
    const flagName = flagText.split(" ")[0] ?? name;
    if (flags[name] !== undefined) return [name, parse(String(flags[name]), flagName)];
    if (env[variable] !== undefined) return [name, parse(env[variable], variable)];
    if (fileValues[name] !== undefined) return [name, parse(String(fileValues[name]), `"${name}" in ${file?.path}`)];
    return [name, fallback];
  });
  return Object.freeze({ ...Object.fromEntries(values), token: readToken(env["DLO_TOKEN"]) }) as Config;
}

function refuseUnknownVariables(env: Readonly<Record<string, string | undefined>>): void {
  const known = [...SETTINGS.map(({ env: variable }) => variable), ...OTHER_VARIABLES];
  for (const variable of Object.keys(env)) {
    if (!variable.startsWith("DLO_") || variable.startsWith("DLO_TEST_") || known.includes(variable)) continue;
    throw wrong(`The environment variable ${variable} is not known.${didYouMean(variable, known)}`);
  }
}

function readFile(path: string, text: string): Record<string, unknown> {
  let values: unknown;
  try {
    values = JSON.parse(text);
  } catch {
    throw wrong(`The configuration file ${path} is not well-formed JSON.`);
  }
  if (typeof values !== "object" || values === null || Array.isArray(values)) {
    throw wrong(`The configuration file ${path} must hold a JSON object.`);
  }
  const known: string[] = SETTINGS.map(({ name }) => name);
  for (const key of Object.keys(values)) {
    if (!known.includes(key)) throw wrong(`"${key}" in ${path} is not known.${didYouMean(key, known)}`);
  }
  return values as Record<string, unknown>;
}

function readToken(text: string | undefined): string | null {
  if (text === undefined) return null;
  if (isBootstrapSecret(text)) return text;
  throw wrong("DLO_TOKEN must be 16 or more visible ASCII characters, without spaces.");
}

function number(low: number, high: number): (text: string, where: string) => number {
  return (text, where) => {
    if (/^\d{1,15}$/.test(text) && Number(text) >= low && Number(text) <= high) return Number(text);
    throw wrong(`${where} must be a whole number from ${low} to ${high}, not "${text}".`);
  };
}

function oneOf<Value extends string>(values: readonly Value[]): (text: string, where: string) => Value {
  return (text, where) => {
    const value = values.find((known) => known === text);
    if (value === undefined) throw wrong(`${where} must be one of ${values.join(", ")}, not "${text}".`);
    return value;
  };
}

function flag(text: string, where: string): boolean {
  if (text === "true" || text === "1") return true;
  if (text === "false" || text === "0") return false;
  throw wrong(`${where} must be true or false, not "${text}".`);
}

function wrong(message: string): DloError {
  return new DloError("invalid_config", message);
}
