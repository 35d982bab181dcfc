// `npm start`: everything from a fresh clone to a running service. Arguments go to `dlo serve`.
import { build, install, refuseOldNode, root } from "./prepare.mjs";

refuseOldNode();
install();
build();
const { main } = await import(new URL("../dist/main.js", import.meta.url).href);
process.chdir(root);
await main(["serve", ...process.argv.slice(2)]);
