import type { Socket } from "node:net";
import swagger from "@fastify/swagger";
import swaggerUi from "@fastify/swagger-ui";
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from "fastify";
import { DloError } from "../errors.js";
import type { Store } from "../store.js";
import { Authenticator } from "./auth.js";
import { rawHeaderValues } from "./body.js";
import type { Service } from "./handlers.js";
import { Metrics } from "./metrics.js";
import { describe, openapiOptions } from "./openapi.js";
import { rawErrorResponse, sendError, toDloError } from "./reply.js";
import { methodsOf, ROUTES, type Route } from "./routes.js";
import { routedPath } from "./target.js";

declare module "fastify" {
  interface FastifyInstance {
    /** Set when the service shuts down: from then on answers ask for the connection to be closed. */
    stopping: { now: boolean };
  }
  interface FastifyRequest {
    /** Of the token; empty where none is needed. */
    tenant: string;
  }
}

export interface ServerOptions {
  readonly store: Store;
  readonly logger: FastifyBaseLogger;
  readonly now: () => number;
  readonly randomBytes: (size: number) => Uint8Array;
  readonly bootstrapSecret: string | null;
  readonly publicMetrics: boolean;
  readonly maxRecordBytes: number;
  readonly version: string;
}

const DOCS_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const MAX_BODY_BYTES = 64 * 1024 * 1024;
const MAX_TARGET_BYTES = 16 * 1024;
const MAX_HEADER_BYTES = 16 * 1024;
const MAX_HEADERS = 100;

/** The whole HTTP side, not yet listening. */
export async function buildServer(options: ServerOptions): Promise<FastifyInstance> {
  const app = Fastify({
    loggerInstance: options.logger,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: makeRequestId(options.randomBytes),
    rewriteUrl: (request) => routedPath(request.url ?? ""),
    routerOptions: { querystringParser: () => ({}) },
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: 30_000,
    return503OnClosing: false,
    clientErrorHandler: answerBadBytes(options.randomBytes),
    // Node counts the request line with the headers and would cut off before either limit of ours can speak.
    http: {
      maxHeaderSize: 2 * (MAX_TARGET_BYTES + MAX_HEADER_BYTES),
      headersTimeout: 10_000,
      connectionsCheckingInterval: 1_000,
      requireHostHeader: false,
    },
  });
  // Node silently drops headers beyond a count, Authorization among them: take all, then judge.
  app.server.maxHeadersCount = 0;
  // An unknown Expect may be ignored (RFC 9110); Node's own answer would not be in our shape.
  app.server.on("checkExpectation", (request, response) => app.server.emit("request", request, response));
  app.decorate("stopping", { now: false });
  app.decorateRequest("tenant", "");
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => JSON.stringify);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    ["application/json", "application/x-ndjson"],
    { parseAs: "buffer" },
    async (_: unknown, body: unknown) => body,
  );
  app.setErrorHandler((error, request, reply) => sendError(reply, toDloError(error, request)));
  app.setNotFoundHandler(answerUnrouted);
  await addRoutes(app, options);
  return app;
}

async function addRoutes(app: FastifyInstance, options: ServerOptions): Promise<void> {
  const metrics = new Metrics();
  const { bootstrapSecret, now, randomBytes, maxRecordBytes } = options;
  const authenticator = new Authenticator(options.store, bootstrapSecret, now, () => metrics.authFailure());
  const isStopping = (): boolean => app.stopping.now;
  const service: Service = {
    store: metrics.timed(options.store),
    metrics,
    now,
    randomBytes,
    maxRecordBytes,
    isStopping,
  };
  app.addHook("onRequest", async (request) => judgeHeaders(request));
  app.addHook("onResponse", async (request, reply) => record(metrics, request, reply));
  await app.register(swagger, openapiOptions(options.version));
  // Our own policy: the generated one upgrades to https, which breaks plain http, and allows other hosts.
  await app.register(swaggerUi, { routePrefix: "/docs", staticCSP: true, transformStaticCSP: () => DOCS_POLICY });
  for (const route of ROUTES) {
    const open = route.scope === null || (route.path === "/metrics" && options.publicMetrics);
    addRoute(app, service, route, open ? null : authenticator);
  }
  await app.ready();
}

/** Route and method are settled here; then the token is judged, and only then what is asked. */
function addRoute(app: FastifyInstance, service: Service, route: Route, authenticator: Authenticator | null): void {
  const { method, path, scope, handle, about } = route;
  app.route({
    method,
    url: path,
    schema: describe(about, scope),
    onRequest: async (request) => {
      if (authenticator === null || scope === null) return;
      request.tenant = (await authenticator.authenticate(request, scope)).tenant;
    },
    handler: (request, reply) => handle({ service, request, reply, tenant: request.tenant }),
  });
}

function judgeHeaders(request: FastifyRequest): void {
  const { rawHeaders, url, httpVersion, headers } = request.raw;
  if ((request.originalUrl ?? url ?? "").length > MAX_TARGET_BYTES) {
    throw new DloError("uri_too_long", `Keep the request line within ${MAX_TARGET_BYTES} bytes.`);
  }
  let bytes = 0;
  for (const text of rawHeaders) bytes += text.length + 2;
  if (rawHeaders.length > 2 * MAX_HEADERS || bytes > MAX_HEADER_BYTES) {
    const advice = `Send at most ${MAX_HEADERS} headers, of ${MAX_HEADER_BYTES} bytes in all.`;
    throw new DloError("headers_too_large", advice);
  }
  if (httpVersion === "1.1" && headers.host === undefined) {
    throw new DloError("invalid_header", "Send a Host header.", { parameter: "Host" });
  }
  // Node keeps the first of two and hides the second.
  if (headers.authorization !== undefined && rawHeaderValues(request, "authorization").length > 1) {
    throw new DloError("invalid_header", "Send one Authorization header, not several.", { parameter: "Authorization" });
  }
}

async function answerUnrouted(request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const methods = methodsOf(request.raw.url ?? "");
  if (methods.length === 0) {
    throw new DloError("unknown_route", "Nothing is served at this path; /docs lists what is.");
  }
  const allow = methods.join(", ");
  sendError(reply, new DloError("method_not_allowed", `This path takes ${allow}.`, { allow }));
}

/** One line and one measurement a request. Ids, codes and times only: queries, bodies and tokens stay out of logs. */
function record(metrics: Metrics, request: FastifyRequest, reply: FastifyReply): void {
  const route = request.routeOptions.url ?? "unrouted";
  const status = reply.raw.statusCode;
  metrics.request(route, request.method, status, reply.elapsedTime / 1000);
  const ms = Math.round(reply.elapsedTime * 100) / 100;
  request.log.info({ method: request.method, route, status, ms }, "request");
}

/** Short, unique to the process's life, and cheap: a random stem and a count. */
function makeRequestId(randomBytes: (size: number) => Uint8Array): () => string {
  const stem = Buffer.from(randomBytes(6)).toString("base64url");
  let count = 0;
  return () => `${stem}-${(++count).toString(36)}`;
}

/** What is not HTTP, or came too slowly, never becomes a request; it still gets an answer in our shape. */
function answerBadBytes(randomBytes: (size: number) => Uint8Array): (error: Error, socket: Socket) => void {
  const nextId = makeRequestId(randomBytes);
  return (error, socket) => {
    const { code } = error as { code?: string };
    // Node keeps the answer under way here; into a half-sent one nothing may be written.
    const underWay = (socket as { _httpMessage?: { headersSent: boolean } | null })._httpMessage?.headersSent === true;
    if (code === "ECONNRESET" || !socket.writable || underWay) {
      socket.destroy();
      return;
    }
    socket.end(rawErrorResponse(badBytes(code), nextId()));
  };
}

function badBytes(code: string | undefined): DloError {
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") {
    return new DloError("request_timeout", "The request came too slowly: headers within 10 s, all of it within 30 s.");
  }
  if (code === "HPE_HEADER_OVERFLOW") {
    return new DloError("headers_too_large", `Keep request line and headers within ${MAX_HEADER_BYTES} bytes each.`);
  }
  return new DloError("malformed_http", "This is not a well-formed HTTP/1.1 request.");
}
