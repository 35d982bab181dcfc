#!/usr/bin/env node
import { existsSync } from "node:fs";

const program = new URL("../dist/main.js", import.meta.url);
if (!existsSync(program)) {
  process.stderr.write("dlo: the program is not built yet; run `npm run build` first.\n");
  process.exit(1);
}
const { main } = await import(program.href);
await main(process.argv.slice(2));
