// `npm start`: everything from a fresh clone to a running service. Arguments go to `dlo serve`.
import { build, install, refuseOldNode, root } from "./prepare.mjs";

refuseOldNode();
install();
build();
const { main } = await import(new URL("../dist/main.js", import.meta.url).href);
process.chdir(root);
// npm runs this through a shell that may end on a signal without passing it on: whoever loses its parent stops too.
const parent = process.ppid;
setInterval(() => {
  if (process.ppid !== parent) process.kill(process.pid, "SIGTERM");
}, 500).unref();
await main(["serve", ...process.argv.slice(2)]);
