// gRPC codes.
//
// | code | outcome |
// |---|---|
// | OK | success |
// | CANCELLED | cancelled |
// | DEADLINE_EXCEEDED | timeout |
// | RESOURCE_EXHAUSTED | throttled |
// | UNAVAILABLE, UNKNOWN, INTERNAL, DATA_LOSS | failure |
// | all others, ABORTED too: only a layer above can begin it anew | rejected |
//
// `grpc-retry-pushback-ms` in whole milliseconds is waited for, and restarts the backoff; a
// negative, an unreadable or a repeated one means "do not retry".
//
// A status does not say who made it: a server that relays what grpc-js told it about a service behind it
// says the same words. Who has seen the whole call can tell, see `wasRefused`.

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
  const outcome: Outcome = { kind: kindOf(code), statusCode: code };
  if (code === 0) return outcome;
  const [value, ...others] = status.metadata?.get(PUSHBACK) ?? [];
  if (value === undefined) return outcome;
  const wait = typeof value === "string" && others.length === 0 ? parseGrpcPushback(value) : null;
  if (wait === null) return { ...outcome, doNotRetry: true };
  return { ...outcome, pushback: millisOf(wait), pushbackRestartsBackoff: true };
}

function kindOf(code: number): OutcomeKind {
  switch (code) {
    case 0:
      return "success";
    case 1:
      return "cancelled";
    case 4:
      return "timeout";
    case 8:
      return "throttled";
    case 2:
    case 13:
    case 14:
    case 15:
      return "failure";
    default:
      return "rejected";
  }
}

/** What grpc-js says where it could make no connection. */
const NEVER_CONNECTED =
  /^(?:\w+: )?No connection established\..*\b(?:ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ENOTFOUND)\b|^Name resolution failed /s;

/** What was seen of a whole call. */
export interface Seen {
  readonly status: { readonly code: number; readonly details: string };
  /** Initial metadata and that of the status: what a server says, and of grpc-js that it has tried before. */
  readonly hasMetadata: boolean;
  /** A connection has taken the call, whoever ended it then. */
  readonly hasConnection: boolean;
}

/** The connection was refused, or there is no such host: the request has left this process nowhere. */
export function wasRefused({ status, hasMetadata, hasConnection }: Seen): boolean {
  return status.code === 14 && !hasMetadata && !hasConnection && NEVER_CONNECTED.test(status.details);
}
