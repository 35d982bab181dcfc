// The ceiling: node:http sending bytes it already has. argv: a file of JSON strings, one body a line.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";

const bodies = readFileSync(process.argv[2], "utf8")
  .split("\n")
  .filter((line) => line !== "")
  .map((line) => Buffer.from(JSON.parse(line)));
let turn = 0;
const server = createServer((_request, response) => {
  const body = bodies[turn++ % bodies.length];
  response.writeHead(200, { "content-type": "application/json", "content-length": body.length });
  response.end(body);
});
server.listen(0, "127.0.0.1", () => process.stdout.write(`listening on http://127.0.0.1:${server.address().port}\n`));
