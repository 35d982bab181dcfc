import type { Reporter, TestModule } from "vitest/node";

/** Ends the output with one plain line; a file that failed to load counts as a failure too. */
export default class Summary implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    let passed = 0;
    let failed = 0;
    for (const module of modules) {
      if (!module.ok() && [...module.children.allTests("failed")].length === 0) failed++;
      for (const test of module.children.allTests()) {
        if (test.result().state === "passed") passed++;
        else failed++;
      }
    }
    process.stdout.write(`\n${passed} passed, ${failed} failed\n`);
  }
}
