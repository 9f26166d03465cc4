// gRPC codes.
//
// | code | outcome |
// |---|---|
// | OK | success |
// | CANCELLED | cancelled |
// | DEADLINE_EXCEEDED | timeout |
// | RESOURCE_EXHAUSTED | throttled |
// | UNAVAILABLE | failure; not sent where the connection was refused |
// | UNKNOWN, INTERNAL, DATA_LOSS | failure |
// | all others, ABORTED too: only a layer above can begin it anew | rejected |
//
// `grpc-retry-pushback-ms` in whole milliseconds is waited for, and restarts the backoff; a
// negative, an unreadable or a repeated one means "do not retry".

import type { Outcome, OutcomeKind } from "../outcome.js";
import { parseGrpcPushback } from "../rules/pushback.js";
import { millisOf } from "../rules/time.js";

const PUSHBACK = "grpc-retry-pushback-ms";

/** What is read of a `ServiceError` or `StatusObject` of grpc-js. */
export interface GrpcStatus {
  readonly code: number;
  readonly details?: string | undefined;
  readonly metadata?: { get(name: string): readonly (string | Uint8Array)[] } | undefined;
}

/** How an attempt with this status ended. */
export function classifyGrpc(status: GrpcStatus): Outcome {
  const { code } = status;
  const outcome: Outcome = { kind: kindOf(status), statusCode: code };
  if (code === 0) return outcome;
  const [value, ...others] = status.metadata?.get(PUSHBACK) ?? [];
  if (value === undefined) return outcome;
  const wait = typeof value === "string" && others.length === 0 ? parseGrpcPushback(value) : null;
  if (wait === null) return { ...outcome, doNotRetry: true };
  return { ...outcome, pushback: millisOf(wait), pushbackRestartsBackoff: true };
}

function kindOf({ code, details }: GrpcStatus): OutcomeKind {
  switch (code) {
    case 0:
      return "success";
    case 1:
      return "cancelled";
    case 4:
      return "timeout";
    case 8:
      return "throttled";
    case 14:
      return details !== undefined && NEVER_CONNECTED.test(details) ? "not_sent" : "failure";
    case 2:
    case 13:
    case 15:
      return "failure";
    default:
      return "rejected";
  }
}

/** What grpc-js says where no connection stood: the request has left this process nowhere. */
const NEVER_CONNECTED = /\b(?:ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ENOTFOUND)\b|Name resolution failed/;
