// How a result of the caller's own call is read as an outcome. A call that says nothing else uses
// `classifyResult`.

import { FAILURE, type Outcome, SUCCESS } from "../outcome.js";
import { classifyGrpc } from "./grpc.js";
import { classifyHttp } from "./http.js";

export { classifyGrpc, type GrpcStatus } from "./grpc.js";
export { classifyHttp, type HttpHeaders, type HttpStatus } from "./http.js";

/** What an attempt has ended with. */
export type Result<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: unknown };

/** Reads a result as an outcome. */
export type Classify<T> = (result: Result<T>) => Outcome;

/**
 * A returned value is a success, unless it is a `Response`, which is read by its status. An error
 * is read by {@link classifyError}.
 */
export function classifyResult(result: Result<unknown>): Outcome {
  if (!result.ok) return classifyError(result.error);
  return isResponse(result.value) ? classifyHttp(result.value) : SUCCESS;
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

const NOT_SENT = new Set(["ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "ENOTFOUND", "EAI_AGAIN"]);
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
 * | HTTP status (`status` or `statusCode`, or that of `response`) | by its status |
 * | refused connection, unreachable network or host, unknown name | not sent |
 * | `TimeoutError`, a timeout of the socket or of undici | timeout |
 * | anything else | failure |
 *
 * A connection that broke is a failure and not "not sent": the request may have arrived.
 */
export function classifyError(error: unknown): Outcome {
  let cause = error;
  for (let depth = 0; depth < CAUSES_MAX && isRecord(cause); depth++) {
    const outcome = ofCause(cause);
    if (outcome !== null) return outcome;
    // Of several addresses that were tried, all must have refused.
    cause = cause["cause"] ?? (cause instanceof AggregateError ? cause.errors.at(-1) : undefined);
  }
  return FAILURE;
}

function ofCause(cause: Record<string, unknown>): Outcome | null {
  const { code, name } = cause;
  if (typeof code === "number" && "details" in cause && isRecord(cause["metadata"])) {
    return classifyGrpc(cause as unknown as Parameters<typeof classifyGrpc>[0]);
  }
  const response = isRecord(cause["response"]) ? cause["response"] : cause;
  const status = response["status"] ?? response["statusCode"];
  if (typeof status === "number" && status >= 100 && status <= 999) {
    const headers = isRecord(response["headers"]) ? response["headers"] : undefined;
    const outcome = classifyHttp({ status, headers: headers as never });
    // It was thrown, so that it is no success whatever its status.
    return outcome.kind === "success" ? { ...outcome, kind: "failure" } : outcome;
  }
  if (name === "TimeoutError") return { kind: "timeout" };
  if (typeof code !== "string") return null;
  if (NOT_SENT.has(code)) return { kind: "not_sent" };
  return TIMED_OUT.has(code) ? { kind: "timeout" } : null;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
