import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import swagger from "@fastify/swagger";
import Fastify, { type FastifyInstance, type FastifyRequest, type preParsingHookHandler } from "fastify";
import { DloError } from "../errors.js";
import type { Store } from "../store.js";
import { beginRequest, makeRecorder } from "./answer-log.js";
import { Authenticator } from "./auth.js";
import { answerBadBytes } from "./bad-bytes.js";
import { BodyBudget } from "./body-budget.js";
import { addDocs } from "./docs.js";
import type { Service } from "./handlers.js";
import { judgeHeaders, MAX_HEADER_BYTES, MAX_TARGET_BYTES } from "./headers.js";
import { Metrics } from "./metrics.js";
import { buildDocument } from "./openapi.js";
import { type ErrorLog, sendError, toDloError, unknownRoute } from "./reply.js";
import { methodsOf, ROUTES, type Route } from "./routes.js";
import { routedPath } from "./target.js";

declare module "fastify" {
  interface FastifyInstance {
    /** Set when the service shuts down: from then on answers ask for the connection to be closed. */
    stopping: { now: boolean };
    /** One line in the log and one measurement. */
    recordAnswer: (request: FastifyRequest, status: number) => void;
  }
  interface FastifyRequest {
    /** Of the token; empty where none is needed. */
    tenant: string;
    /** The path of its row in the table of routes. */
    route: string;
    /** By performance.now; 0 once the answer has been recorded. */
    startedAt: number;
  }
}

export interface ServerOptions {
  readonly store: Store;
  readonly logger: ErrorLog;
  /** Takes the log line of a request, ready-made. */
  readonly writeLine: (line: string) => void;
  readonly now: () => number;
  readonly randomBytes: (size: number) => Uint8Array;
  readonly bootstrapSecret: string | null;
  readonly publicMetrics: boolean;
  readonly maxRecordBytes: number;
  readonly version: string;
  /** Bytes of bodies that may be under way at once, either way; unset for the usual. */
  readonly budget?: { readonly maxIn?: number; readonly maxOut?: number };
}

const MAX_BODY_BYTES = 64 * 1024 * 1024;
/** A hundred ids of the longest kind, however they are escaped. */
const MAX_DELETE_BYTES = 1024 * 1024;
/** The whole HTTP side, not yet listening. */
export async function buildServer(options: ServerOptions): Promise<FastifyInstance> {
  const metrics = new Metrics();
  const record = makeRecorder(metrics, options.writeLine);
  const badId = makeRequestId(options.randomBytes);
  const app = Fastify({
    // The framework's own logging makes a logger and two listeners for every request; we write one line.
    logger: false,
    genReqId: makeRequestId(options.randomBytes),
    rewriteUrl: (request) => routedPath(request.url ?? ""),
    routerOptions: { querystringParser: () => ({}) },
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: 30_000,
    return503OnClosing: false,
    clientErrorHandler: (error, socket) => answerBadBytes(error, socket, badId(), record),
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
  // Each request that is under way on a connection may listen for its end.
  app.server.on("connection", (socket: Socket) => socket.setMaxListeners(0));
  // An unknown Expect may be ignored (RFC 9110); Node's own answer would not be in our shape.
  app.server.on("checkExpectation", (request, response) => app.server.emit("request", request, response));
  app.decorate("stopping", { now: false });
  app.decorateRequest("tenant", "");
  app.decorateRequest("route", "unrouted");
  app.decorateRequest("startedAt", 0);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    ["application/json", "application/x-ndjson"],
    { parseAs: "buffer" },
    async (_: unknown, body: unknown) => body,
  );
  app.setErrorHandler((error, request, reply) => {
    // The framework judges QUERY before it finds that there is no such route.
    if (request.method === "QUERY") sendError(reply, refuseUnrouted(request));
    else sendError(reply, toDloError(error, request.id, options.logger));
  });
  app.setNotFoundHandler((request, reply) => sendError(reply, refuseUnrouted(request)));
  app.decorate("recordAnswer", (request: FastifyRequest, status: number) => {
    const { id, method, route, startedAt } = request;
    if (startedAt !== 0) record(id, method, route, status, performance.now() - startedAt);
    request.startedAt = 0;
  });
  await addRoutes(app, options, metrics);
  return app;
}

async function addRoutes(app: FastifyInstance, options: ServerOptions, metrics: Metrics): Promise<void> {
  const { bootstrapSecret, now, randomBytes, maxRecordBytes } = options;
  const authenticator = new Authenticator(options.store, bootstrapSecret, now, () => metrics.authFailure());
  const isStopping = (): boolean => app.stopping.now;
  const service: Service = {
    store: options.store,
    metrics,
    now,
    randomBytes,
    maxRecordBytes,
    isStopping,
    budget: new BodyBudget(options.budget),
  };
  const document = buildDocument(ROUTES, options.version);
  await app.register(swagger, { mode: "static", specification: { document: document as never } });
  await app.register(addDocs);
  for (const route of ROUTES) {
    const open = route.scope === null || (route.path === "/metrics" && options.publicMetrics);
    addRoute(app, service, route, open ? null : authenticator);
  }
  await app.ready();
}

/** Route and method are settled here; then the token is judged, and only then what is asked. */
function addRoute(app: FastifyInstance, service: Service, route: Route, authenticator: Authenticator | null): void {
  const { method, path, scope, handle } = route;
  app.route({
    method,
    // The router gets a stand-in for an id (target.ts), so to it every path is fixed.
    url: path.replace(":dlqId", "-"),
    // One hook, and a callback rather than a promise: it runs on every request.
    onRequest: (request, _reply, done) => {
      beginRequest(request, path);
      // What type nothing is of does not matter.
      if (method === "DELETE" && isBodyless(request)) delete request.headers["content-type"];
      const refusal = judgeHeaders(request);
      if (refusal !== undefined || authenticator === null || scope === null) return done(refusal);
      authenticator.authenticate(request, scope, (error, tenant) => {
        request.tenant = tenant;
        done(error as DloError | undefined);
      });
    },
    ...(method === "GET" ? {} : { preParsing: watchBody(service.budget) }),
    bodyLimit: method === "DELETE" ? MAX_DELETE_BYTES : MAX_BODY_BYTES,
    handler: (request, reply) => handle({ service, request, reply, tenant: request.tenant }),
  });
}

function isBodyless({ headers }: FastifyRequest): boolean {
  return headers["transfer-encoding"] === undefined && (headers["content-length"] ?? "0") === "0";
}

function watchBody(budget: BodyBudget): preParsingHookHandler {
  return (request, reply, payload, done) => {
    budget.watchIn(payload as Readable, request.raw, reply.raw);
    done(null, payload);
  };
}

function refuseUnrouted(request: FastifyRequest): DloError {
  beginRequest(request, "unrouted");
  const refusal = judgeHeaders(request);
  if (refusal !== undefined) return refusal;
  const methods = methodsOf(request.raw.url ?? "");
  if (methods.length === 0) return unknownRoute();
  const allow = methods.join(", ");
  return new DloError("method_not_allowed", `This path takes ${allow}.`, { allow });
}

/** Short, unique to the process's life, and cheap: a random stem and a count. */
function makeRequestId(randomBytes: (size: number) => Uint8Array): () => string {
  const stem = Buffer.from(randomBytes(6)).toString("base64url");
  let count = 0;
  return () => `${stem}-${(++count).toString(36)}`;
}
