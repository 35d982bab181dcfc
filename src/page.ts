/** Records of one page end at this many bytes, though never before the first (interface §4.1 leaves it open). */
export const PAGE_BYTES = 8 * 1024 * 1024;

/** createdAt is below this: 2^42 ms reaches the year 2109. */
export const CREATED_AT_END = 2 ** 42;

/** Arrivals are counted below this: at a million a second it lasts nine years. */
export const ARRIVAL_END = 2 ** 48;

/**
 * Where a record stands: listings are ordered by createdAt, then by arrival. `arrival` counts every record
 * that ever entered the store, from 1; it is never reused and survives replacement of the record.
 */
export interface Position {
  readonly createdAt: number;
  readonly arrival: number;
}

/** One page as the store hands it over. */
export interface Page {
  /** Wire JSON of the records, joined by commas; in several pieces where the page was gathered in several steps. */
  readonly records: readonly Uint8Array[];
  readonly count: number;
  /** The listing goes on strictly beyond this position; null exactly when nothing further matched. */
  readonly next: Position | null;
}

export const EMPTY_PAGE: Page = { records: [], count: 0, next: null };
