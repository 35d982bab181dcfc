import { RECORD_PREFIXES, UNROUTED } from "./routes.js";

/**
 * Raw request target -> the path that the router sees. The router would decode escapes (`/v2/%64lq` is not our
 * path) and refuse ids by length or escape before the token is judged; so an id is replaced by a stand-in here, and
 * its handler reads the raw target.
 */
export function routedPath(target: string): string {
  // A fragment never belongs in a request; the router would cut it off, and a filter behind it with it.
  if (target.includes("#")) return UNROUTED;
  const path = targetPath(target);
  for (const prefix of RECORD_PREFIXES) {
    if (path.length > prefix.length && path.startsWith(prefix) && !path.includes("/", prefix.length))
      return `${prefix}-`;
  }
  return /[%;]|\/\/|\/\.{1,2}(\/|$)|.\/$/.test(path) ? UNROUTED : path;
}

function targetPath(target: string): string {
  const mark = target.indexOf("?");
  const whole = mark === -1 ? target : target.slice(0, mark);
  if (whole.startsWith("/")) return whole;
  // Absolute form: RFC 9112 has every server take it. Our paths do not depend on the authority.
  const match = /^https?:\/\/[^/]*(\/.*)$/i.exec(whole);
  return match?.[1] ?? UNROUTED;
}
