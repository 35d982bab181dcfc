/** A table on a terminal, tab-separated in a pipe: what people read and what programs cut. */
export function printTable(rows: readonly (readonly string[])[], terminal: boolean): void {
  if (!terminal) {
    for (const row of rows) process.stdout.write(`${row.join("\t")}\n`);
    return;
  }
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  for (const row of rows) {
    process.stdout.write(
      `${row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd()}\n`,
    );
  }
}

/** A line on stderr that is written over as work goes on; silent off a terminal. */
export function makeProgress(what: string, total: number): (done: number) => void {
  if (process.stderr.isTTY !== true) return () => undefined;
  const start = performance.now();
  return (done) => {
    const rate = Math.round(done / Math.max(0.001, (performance.now() - start) / 1000));
    const percent = total === 0 ? 100 : Math.floor((100 * done) / total);
    process.stderr.write(`\r${what} ${done} of ${total} (${percent} %, ${rate}/s) `);
    if (done >= total) process.stderr.write("\n");
  };
}
