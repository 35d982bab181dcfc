// The load: keep-alive connections over raw sockets, each with one request under way. Reads its orders as JSON on
// argv: {port, connections, seconds, token, paths: file of one path a line}. Prints one JSON line.
import { readFileSync } from "node:fs";
import { connect } from "node:net";

const { port, connections, seconds, token, paths: file } = JSON.parse(process.argv[2]);
const requests = readFileSync(file, "utf8")
  .split("\n")
  .filter((path) => path !== "")
  .map((path) => Buffer.from(`GET ${path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${token}\r\n\r\n`));
const latencies = [];
let bytes = 0;
let failed = 0;
let next = 0;
const end = performance.now() + seconds * 1000;

function runConnection() {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.setNoDelay(true);
    let left = -1;
    let started = 0;
    const ask = () => {
      if (performance.now() >= end) {
        socket.destroy();
        resolve();
        return;
      }
      started = performance.now();
      left = -1;
      next = (next + 7919) % requests.length;
      socket.write(requests[next]);
    };
    socket.on("connect", ask);
    socket.on("error", resolve);
    socket.on("data", (chunk) => {
      bytes += chunk.length;
      let body = chunk.length;
      if (left === -1) {
        // Heads are short and come whole with the first bytes.
        const head = chunk.indexOf("\r\n\r\n");
        const text = chunk.latin1Slice(0, head);
        if (!text.startsWith("HTTP/1.1 200")) failed++;
        left = Number(/content-length: (\d+)/i.exec(text)[1]);
        body = chunk.length - head - 4;
      }
      left -= body;
      if (left > 0) return;
      latencies.push(performance.now() - started);
      ask();
    });
  });
}

await Promise.all(Array.from({ length: connections }, runConnection));
latencies.sort((a, b) => a - b);
const at = (share) => latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))] ?? 0;
const result = { perSecond: latencies.length / seconds, bytes, failed, p50: at(0.5), p99: at(0.99) };
process.stdout.write(`${JSON.stringify(result)}\n`);
