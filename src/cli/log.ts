import { Writable } from "node:stream";
import pc from "picocolors";
import pino, { type Logger } from "pino";
import type { LogLevel } from "../config.js";

export interface Log {
  readonly logger: Logger;
  /** A line at level info that is already JSON: for the one line of every request, which is worth formatting by hand. */
  readonly writeLine: (line: string) => void;
}

/** Lines of requests are gathered until there are so many bytes, or for so long. */
const BLOCK = 8192;
const DELAY_MS = 200;

/** JSON lines to stderr; on a terminal, lines for people. */
export function makeLog(level: LogLevel, terminal: boolean): Log {
  const stream = terminal ? prettyStream() : pino.destination({ dest: 2, sync: true });
  const logger = pino({ level, base: null }, stream);
  if (!logger.isLevelEnabled("info")) return { logger, writeLine: () => undefined };
  return { logger, writeLine: gather((block) => void stream.write(block)) };
}

/** A write for each line costs a tenth of a small request. What is gathered goes out when the process ends, too. */
function gather(write: (block: string) => void): (line: string) => void {
  let block = "";
  let timer: NodeJS.Timeout | null = null;
  const flush = (): void => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    if (block !== "") write(block);
    block = "";
  };
  process.once("exit", flush);
  return (line) => {
    block += line;
    if (block.length >= BLOCK) flush();
    else timer ??= setTimeout(flush, DELAY_MS).unref();
  };
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
      const lines = chunk.toString("utf8").trimEnd().split("\n");
      process.stderr.write(`${lines.map(prettyLine).join("\n")}\n`, () => done());
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
