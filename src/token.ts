import { hash } from "node:crypto";
import { crc32 } from "node:zlib";

export const SCOPES = ["read", "ingest", "manage"] as const;
export type Scope = (typeof SCOPES)[number];

/** A token as the store keeps it: its hash stands for the secret, which is shown once and never kept. */
export interface Token {
  readonly id: string;
  readonly tenant: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** SHA-256 of the secret, lower-case hex. */
  readonly hash: string;
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
}

/** The tenant that the bootstrap token belongs to. */
export const DEFAULT_TENANT = "default";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** `dlo_`, 43 characters of randomness, 6 of checksum; the checksum lets secret scanners tell a token from noise. */
export function makeSecret(randomBytes: (size: number) => Uint8Array): string {
  let random = "";
  while (random.length < 43) {
    for (const byte of randomBytes(64)) {
      // 248 = 4 * 62: beyond it a remainder would favour the first characters.
      if (byte < 248 && random.length < 43) random += BASE62[byte % 62];
    }
  }
  return `dlo_${random}${secretChecksum(random)}`;
}

export function secretChecksum(random: string): string {
  let rest = crc32(random);
  let digits = "";
  for (let i = 0; i < 6; i++) {
    digits = BASE62[rest % 62] + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

export function hashSecret(secret: string): string {
  return hash("sha256", secret);
}

/** What a bearer token may look like at all: visible ASCII. The bootstrap token has at least 16 of them. */
export function isBootstrapSecret(text: string): boolean {
  return /^[\x21-\x7e]{16,8192}$/.test(text);
}

export function isUsable(token: Token, now: number): boolean {
  return token.revokedAt === null && (token.expiresAt === null || now < token.expiresAt);
}

/** Tenant names go into cursors, logs and command lines: plain, and short. */
export function isTenantName(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(text);
}
