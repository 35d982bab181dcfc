import { Writable } from "node:stream";
import pc from "picocolors";
import pino, { type Logger } from "pino";
import type { LogLevel } from "../config.js";

/** JSON lines to stderr; on a terminal, lines for people. */
export function makeLogger(level: LogLevel, terminal: boolean): Logger {
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  return terminal ? pino(options, prettyStream()) : pino(options, pino.destination({ dest: 2, sync: false }));
}

const LEVELS: Readonly<Record<number, string>> = {
  10: pc.dim("trace"),
  20: pc.dim("debug"),
  30: pc.green("info"),
  40: pc.yellow("warn"),
  50: pc.red("error"),
};

function prettyStream(): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      process.stderr.write(`${prettyLine(chunk.toString("utf8"))}\n`, () => done());
    },
  });
}

function prettyLine(line: string): string {
  const { level, time, msg, err, ...rest } = JSON.parse(line) as Record<string, unknown>;
  const details = Object.entries(rest).map(([name, value]) => pc.dim(`${name}=`) + String(value));
  const stack = (err as { stack?: string } | undefined)?.stack;
  const at = String(time).slice(11, 23);
  return [pc.dim(at), LEVELS[Number(level)] ?? level, msg, ...details].join(" ") + (stack ? `\n${stack}` : "");
}
