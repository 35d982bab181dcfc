import type { Position } from "../page.js";
import type { ListQuery, Order } from "../query.js";
import { encodePlace, type Range } from "./select.js";

export const WHOLE: Range = { low: Buffer.alloc(12), high: Buffer.alloc(12, 0xff) };

export function rangeOf(query: Pick<ListQuery, "order" | "from" | "to" | "after">): Range {
  // Arrivals count from 1, so nothing stands at arrival 0 and both ends may be exclusive.
  const range = {
    low: encodePlace({ createdAt: Math.max(0, query.from), arrival: 0 }),
    high: encodePlace({ createdAt: query.to + 1, arrival: 0 }),
  };
  return query.after === null ? range : beyond(range, query.after, query.order);
}

/** What remains of the range behind a position, in the direction of the walk. */
export function beyond(range: Range, position: Position, order: Order): Range {
  const place = encodePlace(position);
  if (order === "earliestFirst")
    return { low: Buffer.compare(place, range.low) > 0 ? place : range.low, high: range.high };
  return { low: range.low, high: Buffer.compare(place, range.high) < 0 ? place : range.high };
}

/** The range up to a position, included. */
export function upTo(range: Range, position: Position, order: Order): Range {
  const place = encodePlace(after(position, order));
  return order === "earliestFirst" ? { ...range, high: place } : { ...range, low: place };
}

/** The position just ahead of this one, against the direction of the walk. */
export function before(position: Position, order: Order): Position {
  return { ...position, arrival: position.arrival + (order === "earliestFirst" ? -1 : 1) };
}

function after(position: Position, order: Order): Position {
  return before(position, order === "earliestFirst" ? "latestFirst" : "earliestFirst");
}
