import { DloError } from "../errors.js";

/** The engine can promise nothing any more: the process must stop (correct or stopped). */
export class FatalStoreError extends Error {
  override readonly name = "FatalStoreError";
}

const BUSY = 5;
const LOCKED = 6;
const READONLY = 8;
const IOERR = 10;
const CORRUPT = 11;
const FULL = 13;
const CANTOPEN = 14;
const NOTADB = 26;

/** What the driver threw -> what callers are promised. Anything else is a bug of ours and passes through. */
export function translateSqliteError(error: unknown): unknown {
  const code = (error as { errcode?: unknown } | null)?.errcode;
  if (typeof code !== "number") return error;
  const text = (error as Error).message;
  // The low byte is the kind; the rest says which.
  switch (code & 0xff) {
    case FULL:
      return new DloError("disk_full", "The disk is full: nothing was stored. Free some space and send it again.", {
        cause: error,
      });
    case BUSY:
    case LOCKED:
      return new DloError("overloaded", "The store is busy: nothing was changed. Try again shortly.", {
        retryAfter: 1,
        cause: error,
      });
    case READONLY:
    case CANTOPEN:
      return new DloError("store_unavailable", "The store cannot be written: nothing was changed. Try again later.", {
        retryAfter: 5,
        cause: error,
      });
    case IOERR:
    case CORRUPT:
    case NOTADB:
      return new FatalStoreError(`SQLite error ${code}: ${text}`, { cause: error });
    default:
      return error;
  }
}

/** At the start everything that is wrong with the file is wrong with what was asked for. */
export function translateOpenError(path: string, thrown: unknown): unknown {
  const error = translateSqliteError(thrown);
  const reason = error instanceof Error ? error.message : String(error);
  if (error instanceof FatalStoreError)
    return new DloError("invalid_config", `${path} is no usable database: ${reason}.`);
  if (error instanceof DloError && error.code !== "store_unavailable") return error;
  return new DloError("invalid_config", `Cannot open ${path}: ${causeOf(error)}; check --store.`, { cause: error });
}

function causeOf(error: unknown): string {
  const { cause } = error as { cause?: unknown };
  return cause instanceof Error ? cause.message : error instanceof Error ? error.message : String(error);
}
