import { createHash } from "node:crypto";

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** `dlq_` and 26 characters: 10 of time, so that ids sort by it, and 16 of randomness. */
export function makeDlqId(now: number, random: Uint8Array): string {
  let time = "";
  for (let i = 0, rest = now; i < 10; i++, rest = Math.floor(rest / 32)) time = CROCKFORD[rest % 32] + time;
  return `dlq_${time}${base32(random, 16)}`;
}

/** The id of a record without one, sent under an Idempotency-Key: the same key and place give the same id. */
export function deriveDlqId(tenant: string, idempotencyKey: string, index: number): string {
  const digest = createHash("sha256").update(`${tenant}\0${idempotencyKey}\0${index}`).digest();
  return `dlq_${base32(digest, 26)}`;
}

function base32(bytes: Uint8Array, length: number): string {
  let text = "";
  // One byte a character wastes three bits of each, and there are enough.
  for (let i = 0; i < length; i++) text += CROCKFORD[(bytes[i] ?? 0) & 31];
  return text;
}

/** Bytes of randomness that `makeDlqId` takes. */
export const DLQ_ID_RANDOM_BYTES = 16;
