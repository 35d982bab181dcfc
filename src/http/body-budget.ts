import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { DloError } from "../errors.js";

/** Bodies of all requests under way together; parsed and queued they take a few times as much. */
const MAX_IN = 256 * 1024 * 1024;
/** Pages that were handed to sockets and not taken by their clients yet. */
const MAX_OUT = 256 * 1024 * 1024;
/** An answer below this is not worth counting. */
const COUNTED_OUT = 64 * 1024;

/** Bounds the memory that bodies take at once, in and out: each is limited, but any number may be under way. */
export class BodyBudget {
  readonly #maxIn: number;
  readonly #maxOut: number;
  #in = 0;
  #out = 0;

  constructor({ maxIn = MAX_IN, maxOut = MAX_OUT }: { maxIn?: number; maxOut?: number } = {}) {
    this.#maxIn = maxIn;
    this.#maxOut = maxOut;
  }

  /** Counts what arrives until the response is over, and cuts a body short that would go beyond the budget. */
  watchIn(body: Readable, request: IncomingMessage, response: ServerResponse): void {
    let held = 0;
    const count = (chunk: Buffer): void => {
      held += chunk.length;
      this.#in += chunk.length;
      if (this.#in <= this.#maxIn) return;
      body.removeListener("data", count);
      // Not destroyed: that would cut the connection, and the answer with it.
      body.emit("error", overloaded("Too many bodies are being taken at once"));
    };
    body.on("data", count);
    whenOver(request.socket, response, () => {
      this.#in -= held;
      held = 0;
    });
  }

  /** To be asked before a page is read. */
  refuseOut(): void {
    if (this.#out > this.#maxOut) throw overloaded("Too many answers wait for their clients to take them");
  }

  watchOut(bytes: number, request: IncomingMessage, response: ServerResponse): void {
    if (bytes < COUNTED_OUT) return;
    this.#out += bytes;
    whenOver(request.socket, response, () => {
      this.#out -= bytes;
    });
  }
}

/** A response that waits behind others on its connection never says that it is closed; the connection does. */
function whenOver(socket: Socket, response: ServerResponse, work: () => void): void {
  const over = (): void => {
    socket.removeListener("close", over);
    response.removeListener("close", over);
    work();
  };
  socket.once("close", over);
  response.once("close", over);
}

function overloaded(what: string): DloError {
  return new DloError("overloaded", `${what}; nothing was done. Try again shortly.`, { retryAfter: 1 });
}
