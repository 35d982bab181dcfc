// Brings a checkout to a runnable state: installs from the lock file and builds, each only where something changed.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("..", import.meta.url));

/** Exits with the command's status when it fails. Output goes to stderr: stdout belongs to the service. */
export function run(command, args, options = {}) {
  const result = spawnSync(command, args, { cwd: root, stdio: ["ignore", 2, 2], ...options });
  if (result.status !== 0) {
    process.stderr.write(`${command} ${args.join(" ")} failed${result.error ? `: ${result.error.message}` : ""}\n`);
    process.exit(result.status ?? 1);
  }
}

function digest(paths) {
  const hash = createHash("sha256");
  for (const path of paths)
    hash
      .update(path)
      .update("\0")
      .update(readFileSync(join(root, path)));
  return hash.digest("hex");
}

function filesBelow(folder) {
  return readdirSync(join(root, folder), { withFileTypes: true })
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? filesBelow(path) : [path];
    })
    .sort();
}

function upToDate(stamp, value) {
  return existsSync(stamp) && readFileSync(stamp, "utf8") === value;
}

export function install() {
  const stamp = join(root, "node_modules", ".dlo-lock");
  const value = `${process.version} ${digest(["package-lock.json"])}`;
  if (upToDate(stamp, value)) return;
  process.stderr.write("Installing dependencies...\n");
  run("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], {
    shell: process.platform === "win32",
  });
  writeFileSync(stamp, value);
}

export function build() {
  const dist = join(root, "dist");
  const stamp = join(dist, ".dlo-build");
  const value = digest([...filesBelow("src"), "tsconfig.json", "package-lock.json"]);
  if (upToDate(stamp, value)) return;
  process.stderr.write("Building...\n");
  rmSync(dist, { recursive: true, force: true });
  run(process.execPath, [join(root, "node_modules", "typescript", "bin", "tsc"), "-p", "tsconfig.json"]);
  mkdirSync(join(dist, "engines"), { recursive: true });
  cpSync(join(root, "src/engines/migrations"), join(dist, "engines/migrations"), { recursive: true });
  writeFileSync(stamp, value);
}

export function refuseOldNode() {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return;
  process.stderr.write(`Node 20.19 or newer is needed; this is ${process.version}.\n`);
  process.exit(1);
}

if (statSync(process.argv[1]).ino === statSync(fileURLToPath(import.meta.url)).ino) {
  refuseOldNode();
  install();
  build();
}
