import { timingSafeEqual } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { DloError } from "../errors.js";
import type { Store } from "../store.js";
import { DEFAULT_TENANT, hashSecret, isUsable, SCOPES, type Scope, type Token } from "../token.js";

/** Who asks: everything a request does is bound to this tenant. */
interface Principal {
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
  readonly #bootstrapHash: Buffer | null;
  /** By the whole header, so that a client's next request costs neither a hash nor a look into the store. */
  readonly #remembered = new Map<string, { token: Principal & Pick<Token, "expiresAt">; until: number }>();
  readonly #failures = new Map<string, { since: number; count: number }>();
  readonly #onFailure: () => void;

  constructor(store: Store, bootstrapSecret: string | null, now: () => number, onFailure: () => void) {
    this.#store = store;
    this.#now = now;
    this.#onFailure = onFailure;
    this.#bootstrapHash = bootstrapSecret === null ? null : Buffer.from(hashSecret(bootstrapSecret));
  }

  /** Calls back with the tenant, or with why there is none; at once where the token was seen a moment ago. */
  authenticate(request: FastifyRequest, scope: Scope, done: (error: unknown, tenant: string) => void): void {
    const known = this.#remembered.get(request.headers.authorization ?? "");
    if (known !== undefined && performance.now() < known.until && isCurrent(known.token, this.#now())) {
      done(refuseScope(known.token, scope), known.token.tenant);
      return;
    }
    this.#identify(request).then(
      (token) => done(refuseScope(token, scope), token.tenant),
      (error: unknown) => done(error, ""),
    );
  }

  async #identify(request: FastifyRequest): Promise<Principal> {
    const header = request.headers.authorization ?? "";
    const secret = readBearer(header);
    if (secret === null) {
      this.#onFailure();
      throw new DloError("missing_token", "Send the header Authorization: Bearer <token>.");
    }
    const token = await this.#find(hashSecret(secret));
    this.#remembered.delete(header);
    if (token === null) throw this.#fail(request.ip);
    if (this.#remembered.size >= REMEMBERED) this.#remembered.clear();
    this.#remembered.set(header, { token, until: performance.now() + REMEMBER_MS });
    return token;
  }

  async #find(hash: string): Promise<(Principal & Pick<Token, "expiresAt">) | null> {
    if (this.#bootstrapHash !== null && timingSafeEqual(Buffer.from(hash), this.#bootstrapHash)) return BOOTSTRAP;
    const token = await this.#store.findToken(hash);
    return token !== null && isUsable(token, this.#now()) ? token : null;
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

const BOOTSTRAP = { tenant: DEFAULT_TENANT, scopes: SCOPES, expiresAt: null };

function isCurrent({ expiresAt }: Pick<Token, "expiresAt">, now: number): boolean {
  return expiresAt === null || now < expiresAt;
}

function refuseScope({ scopes }: Principal, scope: Scope): DloError | null {
  if (scopes.includes(scope)) return null;
  const has = scopes.join(", ");
  return new DloError("insufficient_scope", `This needs a token with scope ${scope}; this one has ${has}.`);
}

function readBearer(header: string): string | null {
  const match = /^bearer +([\x21-\x7e]+) *$/i.exec(header);
  return match?.[1] ?? null;
}
