import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSqlite } from "#dlo/engines/sqlite.js";
import { NOW } from "../support/runs.js";
import { exercise } from "./exercise.js";

exercise("sqlite", async ({ budgetMs }) => {
  const folder = mkdtempSync(join(tmpdir(), "dlo-test-"));
  const onFatal = (reason: string): void => {
    throw new Error(reason);
  };
  const open = () => openSqlite({ path: join(folder, "dlo.db"), now: () => NOW, budgetMs, onFatal });
  let store = open();
  return {
    store,
    reopen: async () => {
      await store.close();
      store = open();
      return store;
    },
    destroy: async () => {
      await store.close();
      rmSync(folder, { recursive: true });
    },
  };
});
