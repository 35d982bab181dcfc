import { DloError } from "../errors.js";

export interface Parameter {
  readonly name: string;
  readonly value: string;
}

/** URLSearchParams never rejects anything; here malformed escapes are errors, for a guess could widen a delete. */
export function parseQueryString(text: string): Parameter[] {
  const parameters: Parameter[] = [];
  for (const pair of text.split("&")) {
    if (pair === "") continue;
    const equals = pair.indexOf("=");
    const name = equals === -1 ? pair : pair.slice(0, equals);
    const value = equals === -1 ? "" : pair.slice(equals + 1);
    const plain = decode(name.replaceAll("+", " "), null);
    parameters.push({ name: plain, value: decode(value.replaceAll("+", " "), plain) });
  }
  return parameters;
}

/** Strict percent-decoding of one path segment: a plus is a plus there. */
export function decodeSegment(segment: string): string {
  return decode(segment, "dlqId");
}

function decode(text: string, parameter: string | null): string {
  const detail = parameter === null ? {} : { parameter };
  if (/[^\x21-\x7e ]/.test(text)) {
    throw new DloError("invalid_encoding", "Percent-encode everything in the address that is not plain ASCII.", detail);
  }
  let decoded: string;
  try {
    decoded = text.includes("%") ? decodeURIComponent(text) : text;
  } catch {
    throw new DloError(
      "invalid_encoding",
      "The address holds a malformed percent-escape, or one that is not UTF-8; encode it again.",
      detail,
    );
  }
  if (decoded.includes("\0")) throw new DloError("invalid_encoding", "NUL (%00) is not allowed in an address.", detail);
  return decoded;
}
