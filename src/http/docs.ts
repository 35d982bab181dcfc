import swaggerUi from "@fastify/swagger-ui";
import type { FastifyInstance } from "fastify";
import { beginRequest } from "./answer-log.js";
import { judgeHeaders } from "./headers.js";

const DOCS_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const LOGO =
  '<svg xmlns="http://www.w3.org/2000/svg" width="200" height="30"><text x="0" y="21" font-family="sans-serif" ' +
  'font-size="18" fill="#fff">Dead Letter Office</text></svg>';

/** The pages below /docs answer through the framework, so their answers are recorded by a hook of their own. */
export async function addDocs(app: FastifyInstance): Promise<void> {
  app.addHook("onRequest", async (request, reply) => {
    beginRequest(request, "/docs");
    const refusal = judgeHeaders(request);
    if (refusal !== undefined) throw refusal;
    reply.headers({ "x-request-id": request.id, "x-content-type-options": "nosniff" });
  });
  app.addHook("onResponse", async (request, reply) => app.recordAnswer(request, reply.raw.statusCode));
  // Our own policy: the generated one upgrades to https, which breaks plain http, and allows other hosts.
  await app.register(swaggerUi, {
    routePrefix: "/docs",
    staticCSP: true,
    transformStaticCSP: () => DOCS_POLICY,
    theme: { title: "Dead Letter Office: API" },
    logo: { type: "image/svg+xml", content: Buffer.from(LOGO), href: "/docs", target: "_self" },
  });
}
