import { timingSafeEqual } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { DloError } from "../errors.js";
import type { Store } from "../store.js";
import { DEFAULT_TENANT, hashSecret, isUsable, SCOPES, type Scope, type Token } from "../token.js";

/** Who asks: everything a request does is bound to this tenant. */
export interface Principal {
  readonly tenant: string;
  readonly scopes: readonly Scope[];
}

/** A revocation must reach every process within 5 s, so a remembered token lives for less. */
const REMEMBER_MS = 2_000;
const REMEMBERED = 10_000;
const FAILURES_A_MINUTE = 20;
const MINUTE_MS = 60_000;

export class Authenticator {
  readonly #store: Store;
  readonly #now: () => number;
  readonly #bootstrap: (Principal & { hash: Buffer }) | null;
  readonly #tokens = new Map<string, { token: Token; until: number }>();
  readonly #failures = new Map<string, { since: number; count: number }>();
  readonly #onFailure: () => void;

  constructor(store: Store, bootstrapSecret: string | null, now: () => number, onFailure: () => void) {
    this.#store = store;
    this.#now = now;
    this.#onFailure = onFailure;
    this.#bootstrap =
      bootstrapSecret === null
        ? null
        : { tenant: DEFAULT_TENANT, scopes: SCOPES, hash: Buffer.from(hashSecret(bootstrapSecret)) };
  }

  async authenticate(request: FastifyRequest, scope: Scope): Promise<Principal> {
    const principal = await this.#identify(request);
    if (!principal.scopes.includes(scope)) {
      const has = principal.scopes.join(", ");
      throw new DloError("insufficient_scope", `This needs a token with scope ${scope}; this one has ${has}.`);
    }
    return principal;
  }

  async #identify(request: FastifyRequest): Promise<Principal> {
    const secret = readBearer(request.headers.authorization);
    if (secret === null) {
      this.#onFailure();
      throw new DloError("missing_token", "Send the header Authorization: Bearer <token>.");
    }
    const hash = hashSecret(secret);
    if (this.#bootstrap !== null && timingSafeEqual(Buffer.from(hash), this.#bootstrap.hash)) return this.#bootstrap;
    const token = await this.#find(hash);
    if (token === null || !isUsable(token, this.#now())) throw this.#fail(request.ip);
    return token;
  }

  async #find(hash: string): Promise<Token | null> {
    const now = performance.now();
    const remembered = this.#tokens.get(hash);
    if (remembered !== undefined && now < remembered.until) return remembered.token;
    const token = await this.#store.findToken(hash);
    this.#tokens.delete(hash);
    if (token !== null) {
      if (this.#tokens.size >= REMEMBERED) this.#tokens.clear();
      this.#tokens.set(hash, { token, until: now + REMEMBER_MS });
    }
    return token;
  }

  /** Guessing is slowed down by address; a right token from there still passes, since it never comes here. */
  #fail(address: string): DloError {
    this.#onFailure();
    const now = performance.now();
    let failures = this.#failures.get(address);
    if (failures === undefined || now - failures.since >= MINUTE_MS) {
      if (this.#failures.size >= REMEMBERED) this.#failures.clear();
      failures = { since: now, count: 0 };
      this.#failures.set(address, failures);
    }
    failures.count++;
    if (failures.count > FAILURES_A_MINUTE) {
      const retryAfter = Math.ceil((failures.since + MINUTE_MS - now) / 1000);
      return new DloError("too_many_failures", "Too many wrong tokens from this address; wait, or use a right one.", {
        retryAfter,
      });
    }
    return new DloError("invalid_token", "The token is unknown, expired or revoked; use another.");
  }
}

function readBearer(header: string | undefined): string | null {
  const match = /^bearer +([\x21-\x7e]+) *$/i.exec(header ?? "");
  return match?.[1] ?? null;
}
