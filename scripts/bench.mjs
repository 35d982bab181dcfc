// `npm run bench`: prepares the checkout, then measures. Options go to bench/run.mjs.
import { build, install, refuseOldNode } from "./prepare.mjs";

refuseOldNode();
install();
build();
await import("../bench/run.mjs");
