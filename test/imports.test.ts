import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";
import { describe, expect, it } from "vitest";

const SRC = "src";

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? filesBelow(path) : path.endsWith(".ts") ? [path] : [];
  });
}

/** [importer's room, imported room or package] for every import below src; the model is the room "". */
const IMPORTS = filesBelow(SRC).flatMap((file) => {
  const text = readFileSync(file, "utf8");
  const specifiers = [...text.matchAll(/^(?:import|export)[^;]*?from "([^"]+)";/gms)].map(
    (match) => match[1] as string,
  );
  return specifiers.map((specifier) => {
    const from = relative(SRC, file);
    const to = specifier.startsWith(".") ? relative(SRC, normalize(join(dirname(file), specifier))) : specifier;
    return { from, to, room: roomOf(from), target: specifier.startsWith(".") ? roomOf(to) : `package:${specifier}` };
  });
});

function roomOf(path: string): string {
  if (path === "main.ts" || path === "main.js") return "main";
  return path.includes("/") ? (path.split("/")[0] as string) : "model";
}

function importsOf(room: string): typeof IMPORTS {
  return IMPORTS.filter((entry) => entry.room === room);
}

describe("who may import whom", () => {
  it("the model imports itself, and of Node only what knows no process, network or disk", () => {
    const allowed = new Set([
      "model",
      "package:node:crypto",
      "package:node:zlib",
      "package:node:buffer",
      "package:node:timers/promises",
    ]);
    expect(importsOf("model").filter(({ target }) => !allowed.has(target))).toEqual([]);
    expect(importsOf("model").length).toBeGreaterThan(10);
  });

  it("engines and http import the model, never each other", () => {
    for (const room of ["engines", "http"]) {
      const rooms = importsOf(room).filter(({ target }) => !target.startsWith("package:"));
      expect(rooms.filter(({ target }) => target !== "model" && target !== room)).toEqual([]);
      expect(rooms.length).toBeGreaterThan(10);
    }
  });

  it("database drivers appear in engines alone, fastify in http alone but for its type of server", () => {
    const drivers = IMPORTS.filter(({ target }) => /^package:(@photostructure\/sqlite|node:sqlite|pg)$/.test(target));
    expect(new Set(drivers.map(({ room }) => room))).toEqual(new Set(["engines"]));
    const fastify = IMPORTS.filter(
      ({ target }) => /^package:(fastify|@fastify\/.*)$/.test(target) && target !== "package:fastify",
    );
    expect(new Set(fastify.map(({ room }) => room))).toEqual(new Set(["http"]));
    const others = IMPORTS.filter(({ target, room }) => target === "package:fastify" && room !== "http");
    for (const { from } of others)
      expect(readFileSync(join(SRC, from), "utf8")).toMatch(/^import type [^;]*from "fastify";/m);
  });

  it("nothing imports main, and there are no default exports, barrels or process ends elsewhere", () => {
    expect(IMPORTS.filter(({ target }) => target === "main")).toEqual([]);
    for (const file of filesBelow(SRC)) {
      const text = readFileSync(file, "utf8");
      expect([file, /^export default/m.test(text), /^export \* from/m.test(text)]).toEqual([file, false, false]);
      if (file !== join(SRC, "main.ts")) expect([file, text.includes("process.exit(")]).toEqual([file, false]);
    }
  });
});
