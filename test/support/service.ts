import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import pino from "pino";
import { openSqlite } from "#dlo/engines/sqlite.js";
import { buildServer } from "#dlo/http/server.js";
import type { Store } from "#dlo/store.js";
import { hashSecret, type Scope, type Token } from "#dlo/token.js";

export const SECRET = "bootstrap-secret-0123456789";

export interface TestService {
  readonly url: string;
  readonly port: number;
  readonly store: Store;
  readonly app: FastifyInstance;
  /** Log lines so far, parsed. */
  readonly log: Record<string, unknown>[];
  /** Moves the service's clock. */
  readonly clock: { now: number };
  /** A token of its own for a tenant. */
  token(tenant: string, scopes: Scope[], more?: Partial<Token>): Promise<string>;
  request(path: string, init?: RequestInit & { token?: string | null }): Promise<Answer>;
  stop(): Promise<void>;
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came back
  readonly json: any;
}

/** The service on a real socket, over a store of its own. */
export async function startTestService(
  options: { publicMetrics?: boolean; maxRecordBytes?: number; budget?: { maxIn?: number; maxOut?: number } } = {},
): Promise<TestService> {
  const folder = mkdtempSync(join(tmpdir(), "dlo-http-"));
  const clock = { now: 1_763_000_000_000 };
  const now = (): number => clock.now;
  const onFatal = (reason: string): void => {
    throw new Error(reason);
  };
  const store = openSqlite({ path: join(folder, "dlo.db"), now, budgetMs: 2_000, onFatal });
  const log: Record<string, unknown>[] = [];
  const writeLine = (line: string): void => void log.push(JSON.parse(line));
  const logger = pino({ level: "info" }, { write: writeLine });
  const app = await buildServer({
    ...{ store, logger, writeLine, now, randomBytes, bootstrapSecret: SECRET, publicMetrics: false },
    ...{ maxRecordBytes: 4 * 1024 * 1024, version: "0.0.0", ...options },
  });
  await app.listen({ host: "127.0.0.1", port: 0 });
  const address = app.server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const url = `http://127.0.0.1:${port}`;
  let tokens = 0;
  return {
    ...{ url, port, store, app, log, clock },
    async token(tenant, scopes, more = {}) {
      const secret = `secret-${++tokens}-${randomBytes(12).toString("hex")}`;
      const row = { id: `tok_${tokens}`, tenant, name: "", scopes, hash: hashSecret(secret), createdAt: 0 };
      await store.addToken({ ...row, expiresAt: null, revokedAt: null, ...more });
      return secret;
    },
    async request(path, { token = SECRET, ...init } = {}) {
      const headers = new Headers(init.headers);
      if (token !== null) headers.set("authorization", `Bearer ${token}`);
      const response = await fetch(`${url}${path}`, { ...init, headers, redirect: "manual" });
      const text = await response.text();
      const isJson = response.headers.get("content-type")?.startsWith("application/json") === true && text !== "";
      return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined };
    },
    async stop() {
      app.server.closeAllConnections();
      await app.close();
      await store.close();
      rmSync(folder, { recursive: true });
    },
  };
}

/** Sends bytes as they are and gives back all that came until the other side closed, or `waitMs` passed in silence. */
export function sendRaw(port: number, bytes: string | Buffer, waitMs = 500): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    const chunks: Buffer[] = [];
    const done = (): void => {
      socket.destroy();
      resolve(Buffer.concat(chunks).toString("utf8"));
    };
    socket.setTimeout(waitMs, done);
    socket.on("data", (chunk) => chunks.push(chunk));
    socket.on("end", done);
    socket.on("error", (error) => (chunks.length > 0 ? done() : reject(error)));
    socket.write(bytes);
  });
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string;
}

/** A raw answer, taken apart. */
export function parseRaw(text: string): RawAnswer {
  const [head = "", ...rest] = text.split("\r\n\r\n");
  const [line = "", ...lines] = head.split("\r\n");
  const headers = Object.fromEntries(
    lines.map((header) => [
      header.slice(0, header.indexOf(":")).toLowerCase(),
      header.slice(header.indexOf(":") + 1).trim(),
    ]),
  );
  return { status: Number(line.split(" ")[1]), headers, body: rest.join("\r\n\r\n") };
}
