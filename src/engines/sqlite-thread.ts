import { Worker } from "node:worker_threads";
import { DloError } from "../errors.js";
import type { Write, WriteReply, WriteRequest } from "./sqlite-writer.js";

/** Bytes of records that may wait for the disk before further writes are turned away. */
const MAX_WAITING_BYTES = 192 * 1024 * 1024;
const MAX_WAITING_REQUESTS = 10_000;

interface Waiting {
  readonly bytes: number;
  readonly resolve: (result: number) => void;
  readonly reject: (error: DloError) => void;
}

/** This side of the writing thread: one promise for each write, settled when its transaction is. */
export class WriterThread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  #ticket = 0;
  #waitingBytes = 0;
  #closing = false;

  /** `onSettle` is called before the promise of a write settles. */
  constructor(path: string, onFatal: (reason: string) => void, onSettle: () => void) {
    // Without the flags of the process: some, such as --input-type, keep a thread from starting.
    this.#worker = new Worker(new URL("./sqlite-writer.js", import.meta.url), { workerData: path, execArgv: [] });
    this.#worker.on("message", (reply: WriteReply) => {
      if ("fatal" in reply) onFatal(reply.fatal);
      else {
        onSettle();
        this.#settle(reply);
      }
    });
    this.#worker.on("error", (error) => onFatal(`the writing thread failed: ${error.message}`));
    this.#worker.on("exit", (code) => {
      if (!this.#closing) onFatal(`the writing thread ended with ${code}`);
    });
  }

  send(write: Write): Promise<number> {
    const bytes = write.kind === "put" ? write.runs.reduce((sum, run) => sum + run.tail.length, 0) : 0;
    if (this.#waitingBytes + bytes > MAX_WAITING_BYTES || this.#waiting.size >= MAX_WAITING_REQUESTS) {
      const advice = "The store has as many writes queued as it takes: nothing was stored. Send it again shortly.";
      return Promise.reject(new DloError("overloaded", advice, { retryAfter: 1 }));
    }
    const ticket = ++this.#ticket;
    this.#waitingBytes += bytes;
    return new Promise((resolve, reject) => {
      this.#waiting.set(ticket, { bytes, resolve, reject });
      this.#worker.postMessage({ ticket, write } satisfies WriteRequest);
    });
  }

  #settle(reply: Exclude<WriteReply, { fatal: string }>): void {
    const waiting = this.#waiting.get(reply.ticket);
    if (waiting === undefined) return;
    this.#waiting.delete(reply.ticket);
    this.#waitingBytes -= waiting.bytes;
    if ("result" in reply) waiting.resolve(reply.result);
    else {
      const { code, message, ...detail } = reply;
      waiting.reject(new DloError(code, message, detail));
    }
  }

  /** Lets queued writes finish first. */
  async close(): Promise<void> {
    this.#closing = true;
    const ended = new Promise((resolve) => this.#worker.once("exit", resolve));
    this.#worker.postMessage("close");
    await ended;
  }
}
