// `npm test`: everything from a fresh clone to the last test. Arguments go to vitest (a file name runs that alone).
import { join } from "node:path";
import { build, install, refuseOldNode, root, run } from "./prepare.mjs";

refuseOldNode();
install();
build();
const bin = (name) => join(root, "node_modules", ".bin", name);
const only = process.argv.slice(2);
if (only.length === 0) {
  run(bin("tsc"), ["-p", "test"]);
  run(bin("biome"), ["check", "--error-on-warnings", "."]);
  run(bin("knip"), []);
}
run(bin("vitest"), ["run", ...only], { stdio: "inherit" });
