// How an attempt ended, as the caller tells it.

/**
 * | kind | the attempt |
 * |---|---|
 * | `success` | worked |
 * | `failure` | failed, and a later one may work |
 * | `timeout` | got no answer in time; it may have been executed |
 * | `not_sent` | certainly never began (refused connection, unknown host) |
 * | `throttled` | was refused since there are too many (429, RESOURCE_EXHAUSTED) |
 * | `rejected` | was wrong in itself (400, INVALID_ARGUMENT); trying again changes nothing |
 * | `ignored` | says nothing about the dependency |
 * | `cancelled` | was given up by the caller |
 */
export type OutcomeKind =
  | "success"
  | "failure"
  | "timeout"
  | "not_sent"
  | "throttled"
  | "rejected"
  | "ignored"
  | "cancelled";

/** What is known of an attempt that ended. Times are milliseconds. */
export interface Outcome {
  readonly kind: OutcomeKind;
  /** How long it took; a call measures it where this is absent. */
  readonly latency?: number | undefined;
  /** The wait that the dependency itself asked for. */
  readonly pushback?: number | undefined;
  /** It was asked for by gRPC, after which the backoff begins at its first delay again. */
  readonly pushbackRestartsBackoff?: boolean | undefined;
  /** The dependency said that there must be no retry. */
  readonly doNotRetry?: boolean | undefined;
  /** A layer between the caller and the fault has retried already. */
  readonly retriedBelow?: boolean | undefined;
  /** The HTTP status or gRPC code, for people. */
  readonly statusCode?: number | undefined;
}

export const SUCCESS: Outcome = Object.freeze({ kind: "success" });
export const FAILURE: Outcome = Object.freeze({ kind: "failure" });
export const TIMEOUT: Outcome = Object.freeze({ kind: "timeout" });
export const NOT_SENT: Outcome = Object.freeze({ kind: "not_sent" });
export const CANCELLED: Outcome = Object.freeze({ kind: "cancelled" });

/** Whether the service should hear of it at once rather than with the next batch. */
export function isUrgent({ kind }: Outcome): boolean {
  return kind === "failure" || kind === "timeout" || kind === "not_sent" || kind === "throttled";
}
