import { DloError } from "./errors.js";

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** `90d`, `12h` -> milliseconds. */
export function parseDuration(text: string, where: string): number {
  const match = /^(\d{1,6})([smhdw])$/.exec(text);
  const unit = UNITS[match?.[2] ?? ""];
  if (match === null || unit === undefined || Number(match[1]) === 0) {
    throw new DloError("invalid_config", `${where} must be a time such as 12h or 90d, not "${text}".`);
  }
  return Number(match[1]) * unit;
}
