import { DloError } from "./errors.js";

/** JSON.parse takes a million levels and JSON.stringify dies of them: one such record would break every listing. */
const MAX_DEPTH = 32;

/** A double needs at most 25 characters; a longer token is noise, and comparing it would be work for an adversary. */
const MAX_NUMBER = 400;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const NEWLINE = 0x0a;

/** The bytes of one record within a request body, and what an error calls it. */
export interface Slice {
  readonly start: number;
  readonly end: number;
  readonly name: string;
}

/** The elements of a JSON array, or the one value that the body is. */
export function* splitJson(bytes: Uint8Array): Generator<Slice> {
  let at = skipSpace(bytes, 0);
  if (at === bytes.length) throw malformed("The body is empty; send one record, an array of records, or NDJSON.");
  if (bytes[at] !== OPEN_BRACKET) {
    const end = scanValue(bytes, at, "The record");
    if (skipSpace(bytes, end) !== bytes.length) throw malformed("Send one JSON value: something follows the first.");
    yield { start: at, end, name: "The record" };
    return;
  }
  at = skipSpace(bytes, at + 1);
  for (let index = 1; bytes[at] !== CLOSE_BRACKET || index > 1; index++) {
    const name = `Record ${index}`;
    const end = scanValue(bytes, at, name);
    if (end === at) throw malformed(`${name} of the array is missing; look for a stray comma or a missing bracket.`);
    yield { start: at, end, name };
    at = skipSpace(bytes, end);
    if (bytes[at] === CLOSE_BRACKET) break;
    if (bytes[at] !== COMMA) throw malformed(`The array does not go on with a comma or end after record ${index}.`);
    at = skipSpace(bytes, at + 1);
  }
  if (skipSpace(bytes, at + 1) !== bytes.length) throw malformed("Something follows the array's closing bracket.");
}

/** The lines of NDJSON that are not blank. */
export function* splitLines(bytes: Uint8Array): Generator<Slice> {
  for (let from = 0, line = 1; from < bytes.length; line++) {
    const newline = bytes.indexOf(NEWLINE, from);
    const end = newline === -1 ? bytes.length : newline;
    const start = skipSpace(bytes, from, end);
    const name = `Line ${line}`;
    if (start < end) {
      if (skipSpace(bytes, scanValue(bytes, start, name, end), end) !== end) {
        throw malformed(`${name} holds more than one JSON value.`);
      }
      yield { start, end, name };
    }
    from = end + 1;
  }
}

function skipSpace(bytes: Uint8Array, from: number, end = bytes.length): number {
  let at = from;
  while (at < end && isSpace(bytes[at])) at++;
  return at;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/**
 * Where the value that begins at `start` ends. Checks what JSON.parse would let through (depth, numbers that a
 * double cannot keep) and leaves the grammar to JSON.parse: on malformed text the end found is merely some end.
 */
function scanValue(bytes: Uint8Array, start: number, name: string, end = bytes.length): number {
  let depth = 0;
  let at = start;
  while (at < end) {
    const byte = bytes[at] as number;
    if (byte === QUOTE) {
      at = scanString(bytes, at, end);
    } else if (byte === 0x7b || byte === OPEN_BRACKET) {
      if (++depth > MAX_DEPTH) throw malformed(`${name} nests deeper than ${MAX_DEPTH} levels; flatten it.`);
      at++;
      continue;
    } else if (byte === 0x7d || byte === CLOSE_BRACKET) {
      if (depth === 0) return at;
      depth--;
      at++;
    } else if (byte === 0x2d || (byte >= 0x30 && byte <= 0x39)) {
      at = scanNumber(bytes, at, end, name);
    } else if (depth === 0 && (byte === COMMA || isSpace(byte))) {
      return at;
    } else {
      at++;
      continue;
    }
    if (depth === 0) return at;
  }
  return at;
}

function scanString(bytes: Uint8Array, start: number, end: number): number {
  let at = start + 1;
  while (at < end) {
    const byte = bytes[at];
    if (byte === QUOTE) return at + 1;
    at += byte === BACKSLASH ? 2 : 1;
  }
  return end;
}

function scanNumber(bytes: Uint8Array, start: number, end: number, name: string): number {
  let at = start + 1;
  let exponent = false;
  for (; at < end; at++) {
    const byte = bytes[at] as number;
    if (byte === 0x65 || byte === 0x45) exponent = true;
    else if (!((byte >= 0x30 && byte <= 0x39) || byte === 0x2e || byte === 0x2b || byte === 0x2d)) break;
  }
  // Up to 15 digits always survive a double.
  if (exponent || at - start > 15) {
    const token = Buffer.from(bytes.subarray(start, Math.min(at, start + MAX_NUMBER + 1))).toString("latin1");
    if (token.length > MAX_NUMBER || !survivesDouble(token)) {
      throw malformed(
        `${name} holds the number ${token.slice(0, 40)}, which a double cannot keep; send it as a string.`,
      );
    }
  }
  return at;
}

/** Whether the number comes back with exactly the value it was written with. */
export function survivesDouble(token: string): boolean {
  const value = Number(token);
  // Not a JSON number at all: JSON.parse will say so.
  if (Number.isNaN(value)) return true;
  return Number.isFinite(value) && decimal(token) === decimal(String(value));
}

/** Significant digits and exponent, without leading or trailing zeros: equal for equal values. */
function decimal(token: string): string {
  const match = /^(-?)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?$/.exec(token);
  if (match === null) return token;
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = match;
  const digits = whole + fraction;
  let first = 0;
  let last = digits.length;
  while (digits[first] === "0") first++;
  while (last > first && digits[last - 1] === "0") last--;
  const significant = digits.slice(first, last);
  if (significant === "") return "0";
  return `${sign}${significant}e${BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - last)}`;
}

function malformed(message: string): DloError {
  return new DloError("invalid_json", message);
}
