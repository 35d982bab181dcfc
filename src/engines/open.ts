import { DloError } from "../errors.js";
import type { Store } from "../store.js";
import { openSqlite } from "./sqlite.js";

export interface StoreOptions {
  readonly now: () => number;
  readonly budgetMs: number;
  readonly onFatal: (reason: string) => void;
}

/** `sqlite:PATH` -> the path. */
export function sqlitePath(url: string): string {
  const path = url.startsWith("sqlite:") ? url.slice("sqlite:".length) : "";
  if (path === "" || path.startsWith(":"))
    throw new DloError("invalid_config", `The store "${url}" is not of the form sqlite:PATH.`);
  return path;
}

/** Opens the store that the URL names, at the newest schema. */
export function openStore(url: string, options: StoreOptions): Store {
  return openSqlite({ path: sqlitePath(url), ...options });
}
