// What a client makes of the times that it is told.

import type { DenialReason } from "../denial.js";
import { add, MILLISECOND, max, min, type Nanos, part, SECOND } from "./time.js";

/** No delay that the service chose is waited for longer at once. */
const WAIT_MAX = 600n * SECOND;
const ASK_AGAIN_MIN = 10n * MILLISECOND;
/** A probe is given up so long before its lease ends, or a tenth of it if that is more. */
const MARGIN_MIN = 250n * MILLISECOND;

/** So many clients ask at once. */
export const AT_ONCE = 5_000;
/** For each client more. */
const HELD_EACH = 10_000n;
const HELD_MAX = SECOND;

const SHUT_MIN = SECOND;
const SHUT_MAX = 5n * SECOND;
const SHUT_MIN_LONGEST = 6n * SECOND;
const SHUT_MAX_LONGEST = 30n * SECOND;

/** `null`: the delay does not fit the deadline, and is not shortened to fit. */
export function waitFor(delay: Nanos, timeLeft: Nanos | null): Nanos | null {
  return timeLeft !== null && delay >= timeLeft ? null : min(delay, WAIT_MAX);
}

/**
 * From the moment of asking, how long a probe may take. A lease that is shorter than its margin
 * must still be usable, or nothing would recover.
 */
export function useOf(lease: Nanos): Nanos {
  return lease - min(max(MARGIN_MIN, lease / 10n), lease / 2n);
}

/** When to ask again, for a caller that wants to wait. `null`: the denial stands. */
export function askAgainAfter(
  reason: DenialReason,
  retryAfter: Nanos | null,
  timeLeft: Nanos | null,
): Nanos | null {
  // The same outcome gets the same answer, however late it is told.
  if (retryAfter === null || reason === "PUSHBACK_TOO_LONG") return null;
  if (timeLeft !== null && retryAfter >= timeLeft) return null;
  return min(max(retryAfter, ASK_AGAIN_MIN), WAIT_MAX);
}

/**
 * How long the service is not asked after three questions in a row without an answer, and after
 * each trial that failed. `unit` is uniform in [0, 1).
 */
export function shutFor(failedTrials: number, unit: number): Nanos {
  const factor = 2n ** BigInt(Math.min(failedTrials, 5));
  const low = min(SHUT_MIN * factor, SHUT_MIN_LONGEST);
  const high = min(SHUT_MAX * factor, SHUT_MAX_LONGEST);
  return add(low, part(high - low, unit));
}

/**
 * How long a fleet of so many holds the first question after a failure back: a uniform part of 10 us
 * for each client above 5,000, a second and the time left at most. 100,000 of them take 950 ms.
 */
export function heldBackFor(knownClients: number, timeLeft: Nanos | null, unit: number): Nanos {
  const more = BigInt(Math.max(knownClients - AT_ONCE, 0));
  const most = min(more * HELD_EACH, HELD_MAX);
  return part(timeLeft === null ? most : min(most, timeLeft), unit);
}
