// What needs nobody's answer: it follows from what the caller said about the call and from how
// the attempt before ended. So a wrong answer of a service cannot make a caller do harm. The
// order is the service's.

import type { DenialReason } from "../denial.js";
import type { Outcome, OutcomeKind } from "../outcome.js";

/** Whether an attempt may be made again after it may have been executed. */
export type Safety = "unsafe" | "idempotent" | "keyed";

const NOT_MENDED_BY_A_RETRY: ReadonlySet<OutcomeKind> = new Set([
  "success",
  "rejected",
  "ignored",
  "cancelled",
]);

/** Why there may be no such attempt after one that ended so. `null`: nobody needs to say no. */
export function refusesRetry(
  attempt: number,
  maxAttempts: number | null,
  isSafe: boolean,
  before: Outcome,
): DenialReason | null {
  if (before.doNotRetry) return "PUSHBACK";
  if (NOT_MENDED_BY_A_RETRY.has(before.kind)) return "NOT_RETRYABLE";
  if (before.retriedBelow) return "RETRIED_BELOW";
  if (maxAttempts !== null && attempt > maxAttempts) return "ATTEMPTS_EXHAUSTED";
  if (!isSafe && before.kind !== "not_sent") return "RETRY_UNSAFE";
  return null;
}

/** As above, for the first attempt too (`before` is null), and with the caller's time. */
export function settled(
  attempt: number,
  maxAttempts: number,
  safety: Safety,
  before: Outcome | null,
  timeLeft: number | null,
): DenialReason | null {
  if (timeLeft !== null && timeLeft <= 0) return "DEADLINE";
  if (before === null) return null;
  return refusesRetry(attempt, maxAttempts, safety !== "unsafe", before);
}
