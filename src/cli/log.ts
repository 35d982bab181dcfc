import { Writable } from "node:stream";
import pc from "picocolors";
import pino, { type Logger } from "pino";
import type { LogLevel } from "../config.js";

export interface Log {
  readonly logger: Logger;
  /** A line at level info that is already JSON: for the one line of every request, which is worth formatting by hand. */
  readonly writeLine: (line: string) => void;
}

/** JSON lines to stderr; on a terminal, lines for people. */
export function makeLog(level: LogLevel, terminal: boolean): Log {
  // Gathered and written in blocks, a fifth of a second late at most: a write for each line cost a tenth of a request.
  const stream = terminal
    ? prettyStream()
    : pino.destination({ dest: 2, sync: true, minLength: 8192, periodicFlush: 200 });
  const logger = pino({ level, base: null }, stream);
  const silent = !logger.isLevelEnabled("info");
  return { logger, writeLine: silent ? () => undefined : (line) => void stream.write(line) };
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
  const at = new Date(Number(time)).toISOString().slice(11, 23);
  return [pc.dim(at), LEVELS[Number(level)] ?? level, msg, ...details].join(" ") + (stack ? `\n${stack}` : "");
}
