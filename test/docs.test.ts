import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { SETTINGS } from "#dlo/config.js";
import { ERRORS } from "#dlo/errors.js";
import { ROUTES } from "#dlo/http/routes.js";
import { FILTERS } from "#dlo/query.js";
import { RUN_FIELDS } from "#dlo/run-fields.js";

const read = (path: string): string => readFileSync(path, "utf8");

describe("the documents keep up with the code", () => {
  it("docs/errors.md lists every code with its status and condition, and no other", () => {
    const rows = [...read("docs/errors.md").matchAll(/^\| `(\w+)` \| (\d+) \| (.+) \|$/gm)].map(
      ([, code, status, when]) => [code, Number(status), when],
    );
    expect(rows).toEqual(Object.entries(ERRORS).map(([code, { status, when }]) => [code, status, when]));
  });

  it("docs/api.md names every route, parameter and field", () => {
    const text = read("docs/api.md");
    for (const { method, path } of ROUTES) {
      const shown = path.replace(":dlqId", "{dlqId}");
      const paths = path.startsWith("/v2/dlq") ? [`\`${shown}\``] : [`\`${method} ${shown}`];
      for (const wanted of paths) expect(text).toContain(wanted);
    }
    for (const { name } of FILTERS) expect(text).toContain(`\`${name}\``);
    for (const name of Object.keys(RUN_FIELDS)) expect(text).toContain(`\`${name}\``);
  });

  it("docs/operations.md has every setting, its variable and its default", () => {
    const text = read("docs/operations.md");
    for (const { flag, env, fallback } of SETTINGS) {
      expect(text).toContain(`\`${flag.split(" ")[0]}\``);
      expect(text).toContain(`\`${env}\``);
      if (typeof fallback !== "boolean") expect(text).toContain(String(fallback));
    }
  });

  it("every link between documents leads somewhere", () => {
    const files = [
      "README.md",
      "CONTRIBUTING.md",
      "CHANGELOG.md",
      ...readdirSync("docs").map((name) => `docs/${name}`),
    ];
    for (const file of files) {
      const folder = file.includes("/") ? "docs/" : "";
      for (const [, target = ""] of read(file).matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)) {
        expect(() => readFileSync(`${folder}${target}`), `${file} -> ${target}`).not.toThrow();
      }
    }
  });
});
