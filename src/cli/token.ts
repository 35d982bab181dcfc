import { randomBytes } from "node:crypto";
import { parseDuration } from "../duration.js";
import { DloError } from "../errors.js";
import type { Store } from "../store.js";
import { isTenantName, isUsable, makeSecret, SCOPES, type Scope } from "../token.js";
import { tokenRow } from "./bootstrap.js";
import { printTable } from "./output.js";

export interface CreateOptions {
  readonly tenant: string;
  readonly scope: string;
  readonly name: string;
  readonly expires?: string;
}

/** Makes a token; its secret is returned and nowhere kept. */
export async function createToken(store: Store, options: CreateOptions): Promise<string> {
  const { tenant, name } = options;
  if (!isTenantName(tenant)) {
    const rule = "1 to 64 letters, digits, dots, dashes or underscores, the first a letter or digit";
    throw new DloError("invalid_config", `--tenant must be ${rule}, not "${tenant}".`);
  }
  if (name.length > 100 || /\p{Cc}/u.test(name)) {
    throw new DloError("invalid_config", "--name must be at most 100 characters, without control characters.");
  }
  const scopes = options.scope.split(",").map(readScope);
  const now = Date.now();
  const expiresAt = options.expires === undefined ? null : now + parseDuration(options.expires, "--expires");
  const secret = makeSecret(randomBytes);
  await store.addToken(tokenRow(secret, { tenant, name, scopes: [...new Set(scopes)], expiresAt }, now));
  return secret;
}

function readScope(text: string): Scope {
  const scope = SCOPES.find((known) => known === text.trim());
  if (scope === undefined) {
    throw new DloError("invalid_config", `--scope must be of ${SCOPES.join(", ")}, by commas, not "${text}".`);
  }
  return scope;
}

export async function listTokens(store: Store, terminal: boolean): Promise<void> {
  const now = Date.now();
  const rows = (await store.listTokens()).map((token) => {
    const state = token.revokedAt !== null ? "revoked" : isUsable(token, now) ? "active" : "expired";
    return [
      token.id,
      token.tenant,
      token.scopes.join(","),
      state,
      day(token.createdAt),
      day(token.expiresAt),
      token.name,
    ];
  });
  printTable([["ID", "TENANT", "SCOPES", "STATE", "CREATED", "EXPIRES", "NAME"], ...rows], terminal);
}

function day(time: number | null): string {
  return time === null ? "never" : new Date(time).toISOString().slice(0, 16).replace("T", " ");
}

export async function revokeToken(store: Store, id: string): Promise<boolean> {
  return store.revokeToken(id, Date.now());
}
