import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { DloError } from "../errors.js";
import type { Store } from "../store.js";
import { DEFAULT_TENANT, hashSecret, isBootstrapSecret, isUsable, makeSecret, SCOPES, type Token } from "../token.js";

export interface NewToken {
  readonly tenant: string;
  readonly name: string;
  readonly scopes: Token["scopes"];
  readonly expiresAt: number | null;
}

/** What the store keeps of a secret. */
export function tokenRow(secret: string, { tenant, name, scopes, expiresAt }: NewToken, now: number): Token {
  const id = `tok_${randomBytes(9).toString("base64url")}`;
  return { id, tenant, name, scopes, hash: hashSecret(secret), createdAt: now, expiresAt, revokedAt: null };
}

/**
 * First start without DLO_TOKEN: makes a token with every scope and leaves it in `<data dir>/token`, for the owner's
 * eyes only. Returns the file's path when it was made now. The file comes before the store: a start that is cut off
 * between the two finds the file next time and takes the token from it.
 */
export async function ensureToken(store: Store, dataDir: string, now: number): Promise<string | null> {
  if ((await store.listTokens()).length > 0) return null;
  const path = join(dataDir, "token");
  const secret = readSecret(path) ?? writeSecret(path, makeSecret(randomBytes));
  const token = { tenant: DEFAULT_TENANT, name: "bootstrap", scopes: SCOPES, expiresAt: null };
  await store.addToken(tokenRow(secret, token, now));
  return path;
}

/** Whether the file that the first start left still lets anyone in. */
export async function hasUsableToken(store: Store, dataDir: string): Promise<boolean> {
  const secret = readSecret(join(dataDir, "token"));
  const token = secret === null ? null : await store.findToken(hashSecret(secret));
  return token !== null && isUsable(token, Date.now());
}

function readSecret(path: string): string | null {
  let secret: string;
  try {
    secret = readFileSync(path, "utf8").trim();
  } catch {
    return null;
  }
  if (isBootstrapSecret(secret)) return secret;
  throw new DloError("invalid_config", `${path} does not hold a token; remove it, and the next start makes one.`);
}

function writeSecret(path: string, secret: string): string {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const file = openSync(path, "wx", 0o600);
  writeSync(file, `${secret}\n`);
  fsyncSync(file);
  closeSync(file);
  return secret;
}
