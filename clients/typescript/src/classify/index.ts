// How a result of the caller's own call is read as an outcome. A call that says nothing else uses
// `classifyResult`.

import { DeniedError, type Mark, markAfter } from "../denial.js";
import { CANCELLED, FAILURE, NOT_SENT, type Outcome, SUCCESS, TIMEOUT } from "../outcome.js";
import { classifyGrpc } from "./grpc.js";
import { classifyHttp } from "./http.js";

export { classifyGrpc, type GrpcStatus } from "./grpc.js";
export { classifyHttp, type HttpHeaders, type HttpStatus } from "./http.js";

/** What an attempt has ended with. */
export type Result<T> =
  | { readonly ok: true; readonly value: T }
  | {
      readonly ok: false;
      readonly error: unknown;
      /** @internal The newest call when the attempt began: what older ones left beside the error says nothing of it. */
      readonly newestBefore?: number;
    };

/** Reads a result as an outcome. */
export type Classify<T> = (result: Result<T>) => Outcome;

/**
 * A returned value is a success, unless it is a `Response`, which is read by its status. An error
 * is read by {@link classifyError}.
 */
export function classifyResult(result: Result<unknown>): Outcome {
  return readResult(result, "unknown");
}

/** To how many places a request may have gone below the guard: `unknown` where redirects are followed. */
export type Hops = "one" | "unknown";

export function readResult(result: Result<unknown>, hops: Hops): Outcome {
  if (!result.ok) return readError(result.error, { hops, newestBefore: result.newestBefore ?? NONE });
  const { value } = result;
  if (!isResponse(value)) return SUCCESS;
  const outcome = classifyHttp(value);
  return markAfter(NONE, value)?.hasRetried ? { ...outcome, retriedBelow: true } : outcome;
}

/** Node loads all of fetch when `Response` is first named, which a call that uses none need not wait for. */
function isResponse(value: unknown): value is Response {
  return (
    isRecord(value) && Reflect.get(value, Symbol.toStringTag) === "Response" && value instanceof Response
  );
}

/** A value is a success, an error a failure, whatever they hold. */
export function classifyPlain(result: Result<unknown>): Outcome {
  return result.ok ? SUCCESS : FAILURE;
}

/** No call has so low a number. */
const NONE = -1;
const REFUSED = new Set(["ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "ENOTFOUND", "EAI_AGAIN"]);
/** A connection that stood can be told that its host is unreachable too, when it reads or writes. */
const CONNECTING = new Set<unknown>(["connect", "getaddrinfo"]);
const TIMED_OUT = new Set([
  "ETIMEDOUT",
  "ESOCKETTIMEDOUT",
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_BODY_TIMEOUT",
  "UND_ERR_CONNECT_TIMEOUT",
  "ECONNABORTED",
]);
const CAUSES_MAX = 8;

/**
 * An error, by the first of its causes that tells:
 *
 * | cause | outcome |
 * |---|---|
 * | gRPC status (`code` a number, `details` and `metadata` there) | by its code |
 * | HTTP status (`status` or `statusCode`, or that of `response`), 200 or more unless headers are there | by its status |
 * | a guarded call that was denied its first attempt | ignored |
 * | `AbortError`, and what a guarded call was given up with | cancelled |
 * | connecting: refused, unreachable network or host, unknown name | not sent |
 * | `TimeoutError`, a timeout of the socket or of undici | timeout |
 * | anything else | failure |
 *
 * Where a guarded call has made more than one attempt before it threw the error, it says so
 * (`retriedBelow`), so that calls within calls do not multiply.
 *
 * A connection that broke is a failure and not "not sent": the request may have arrived. So is a
 * refused one of `fetch` and of axios, which may have followed a redirect there.
 */
export function classifyError(error: unknown): Outcome {
  return readError(error, { hops: "unknown", newestBefore: NONE });
}

interface Context {
  readonly hops: Hops;
  readonly newestBefore: number;
}

function readError(error: unknown, context: Context, causesMax = CAUSES_MAX): Outcome {
  let cause = error;
  let outcome: Outcome | null = null;
  let hasRetried = false;
  let hops: Hops = "one";
  for (let depth = 0; depth < causesMax && outcome === null && isRecord(cause); depth++) {
    const below = markAfter(context.newestBefore, cause);
    hasRetried ||= below?.hasRetried ?? false;
    if (followsRedirects(cause)) hops = context.hops;
    outcome = ofCause(cause, below);
    if (outcome === null && cause instanceof AggregateError) {
      outcome = ofAll(cause.errors, context, causesMax - depth - 1);
    }
    cause = cause["cause"];
  }
  const mayHaveRun = outcome?.kind === "not_sent" && hops === "unknown";
  const read = outcome === null || mayHaveRun ? FAILURE : outcome;
  return hasRetried ? { ...read, retriedBelow: true } : read;
}

/** An error of `fetch`, or of axios. */
function followsRedirects(cause: Record<string, unknown>): boolean {
  const { isAxiosError, config } = cause;
  if (isAxiosError === true) return !isRecord(config) || config["maxRedirects"] !== 0;
  return cause instanceof TypeError && cause.message === "fetch failed";
}

/** Of several addresses that were tried, all must have refused. */
function ofAll(errors: readonly unknown[], context: Context, causesMax: number): Outcome | null {
  const outcomes = errors.map((error) => readError(error, context, causesMax));
  return outcomes.find(({ kind }) => kind !== "not_sent") ?? outcomes[0] ?? null;
}

function ofCause(cause: Record<string, unknown>, below: Mark | undefined): Outcome | null {
  const isGivenUp = below?.why.reason === "CANCELLED";
  // A status too, where a guarded call of gRPC was denied.
  const isDenied = cause instanceof DeniedError || (below?.why.attempts === 0 && !isGivenUp);
  if (isDenied) return { kind: "ignored" };
  return ofStatus(cause) ?? ofTransport(cause) ?? (isGivenUp ? CANCELLED : null);
}

function ofStatus(cause: Record<string, unknown>): Outcome | null {
  if (typeof cause["code"] === "number" && "details" in cause && isRecord(cause["metadata"])) {
    return classifyGrpc(cause as unknown as Parameters<typeof classifyGrpc>[0]);
  }
  const response = isRecord(cause["response"]) ? cause["response"] : cause;
  const status = response["status"] ?? response["statusCode"];
  const headers = isRecord(response["headers"]) ? response["headers"] : undefined;
  // The exit of a child process is a `status` too, below 200 in most cases.
  if (typeof status !== "number" || status < (headers === undefined ? 200 : 100) || status > 999) return null;
  const outcome = classifyHttp({ status, headers: headers as never });
  // It was thrown, so that it is no success whatever its status.
  return outcome.kind === "success" ? { ...outcome, kind: "failure" } : outcome;
}

function ofTransport({ code, name, syscall, cause }: Record<string, unknown>): Outcome | null {
  if (name === "TimeoutError") return TIMEOUT;
  if (name === "AbortError") return isRecord(cause) && cause["name"] === "TimeoutError" ? TIMEOUT : CANCELLED;
  if (typeof code !== "string") return null;
  if (REFUSED.has(code) && CONNECTING.has(syscall)) return NOT_SENT;
  return TIMED_OUT.has(code) ? TIMEOUT : null;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
