// Pages straight from the store, in this process: what a filter costs beside none.
import { openSqlite } from "../dist/engines/sqlite.js";
import { EVERYTHING, FILTERS } from "../dist/query.js";

const ROUNDS = 5;
const PAGES = 200;

export async function measureStore(path) {
  const onFatal = (reason) => {
    throw new Error(reason);
  };
  const store = openSqlite({ path, now: Date.now, budgetMs: 2000, onFatal });
  const queries = await chooseQueries(store);
  const times = new Map(queries.map(({ name }) => [name, []]));
  for (let round = -1; round < ROUNDS; round++) {
    for (const { name, variants } of queries) {
      const start = performance.now();
      for (let n = 0; n < PAGES; n++) await store.page("default", variants[n % variants.length]);
      if (round >= 0) times.get(name).push(((performance.now() - start) * 1000) / PAGES);
    }
  }
  const base = times.get("no filter");
  console.log("| page of 100 in the store | median us | to no filter |\n|---|---|---|");
  for (const { name } of queries) {
    const list = times.get(name);
    const ratios = list.map((time, round) => time / base[round]).sort((a, b) => a - b);
    console.log(
      `| ${name} | ${Math.round(list.toSorted((a, b) => a - b)[Math.floor(ROUNDS / 2)])} | ${ratios[Math.floor(ROUNDS / 2)].toFixed(2)} |`,
    );
  }
  await store.close();
}

/** For each filter a common value, met at positions all over the listing. */
async function chooseQueries(store) {
  const page = await store.page("default", { ...EVERYTHING, order: "earliestFirst", count: 100, after: null });
  const sample = JSON.parse(`[${page.records.map((part) => Buffer.from(part).toString()).join(",")}]`);
  const newest = await store.page("default", { ...EVERYTHING, order: "latestFirst", count: 1, after: null });
  const from = sample[0].createdAt;
  const span = JSON.parse(Buffer.from(newest.records[0]).toString()).createdAt - from;
  const spread = (filters) =>
    Array.from({ length: 50 }, (_, n) => ({
      ...EVERYTHING,
      ...{ filters, count: 100, after: null, order: n % 2 ? "latestFirst" : "earliestFirst" },
      ...(n % 2 ? { to: from + Math.floor((span * (n + 1)) / 51) } : { from: from + Math.floor((span * n) / 51) }),
    }));
  const single = FILTERS.filter(({ takes }) => takes !== "repeat").flatMap(({ name, field }) => {
    const values = sample.map((run) => run[field]).filter((value) => value !== undefined);
    const common = values.toSorted(
      (a, b) => values.filter((v) => v === b).length - values.filter((v) => v === a).length,
    )[0];
    return common === undefined ? [] : [{ name, variants: spread([{ name, values: [String(common)] }]) }];
  });
  return [{ name: "no filter", variants: spread([]) }, ...single];
}
