/** The known name most like a mistyped one, if any is near: for error messages that help. */
function nearest(text: string, known: readonly string[]): string | null {
  // Two letters exchanged count as two edits.
  const limit = Math.max(2, Math.floor(text.length / 3));
  let best: string | null = null;
  let bestDistance = limit + 1;
  for (const name of known) {
    if (Math.abs(name.length - text.length) >= bestDistance) continue;
    const distance = editDistance(text.toLowerCase(), name.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [name, distance];
  }
  return best;
}

export function didYouMean(text: string, known: readonly string[]): string {
  const name = nearest(text, known);
  return name === null ? "" : ` Did you mean ${name}?`;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
