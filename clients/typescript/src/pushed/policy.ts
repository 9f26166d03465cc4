// Reads the policy that the service pushes, for the time when it says no more. What is out of range
// leaves the client's own.
//
// | field | taken |
// |---|---|
// | `max_attempts` | 0 (unlimited) to 1,000 |
// | delays, `min_attempt_time`, pushbacks, `slow_after` | 0 to 24 h |
// | `budget_ttl`, `open_for`, `open_max` | above 0, to 24 h |
// | `multiplier`, `open_multiplier` | 1 to 100, 1 to 1,000 |
// | `jitter_proportion`, `budget_ratio` | 0 to 1, 0 to 10 |
// | `breaker_off` | true: no local breaker |
// | `retries_per_second` | 0 to 1,000,000, rounded down to a millionth |
//
// The service shares the floor out, so that clients alone add up to the fleet's: it is rounded
// down here, and never up.

import type { ClientPolicy, OfflineAllowance } from "../gen/holdoff/v1/coordinator_pb.js";
import type { Backoff, Budget, Jitter, JitterKind, Policy, Strategy } from "../rules/policy.js";
import { max, min, type Nanos, SECOND } from "../rules/time.js";
import { readDuration } from "../wire/duration.js";

const ATTEMPTS_MAX = 1_000;
const LONGEST = 24n * 3600n * SECOND;
const STRATEGIES: readonly (Strategy | undefined)[] = [undefined, "fixed", "linear", "exponential"];
const JITTERS: readonly (JitterKind | undefined)[] = [
  undefined,
  "none",
  "full",
  "equal",
  "proportional",
  "decorrelated",
];

type WireDuration = Parameters<typeof readDuration>[0];

export function readPolicy(
  said: ClientPolicy | undefined,
  allowance: OfflineAllowance | undefined,
  own: Policy,
): Policy {
  const floor = floorOf(allowance) ?? own.budget.floorMicrosPerSecond;
  if (said === undefined) return { ...own, budget: { ...own.budget, floorMicrosPerSecond: floor } };
  const openFor = someTime(said.openFor) ?? own.openFor;
  return {
    backoff: readBackoff(said, own.backoff),
    budget: readBudget(said, own.budget, floor),
    maxAttempts: readAttempts(said.maxAttempts, own.maxAttempts),
    minAttemptTime: span(said.minAttemptTime) ?? own.minAttemptTime,
    pushbackMax: span(said.pushbackMax) ?? own.pushbackMax,
    pushbackSpread: span(said.pushbackSpread) ?? own.pushbackSpread,
    openFor,
    openMultiplier: within(said.openMultiplier, 1, 1_000) ?? own.openMultiplier,
    openMax: max(someTime(said.openMax) ?? own.openMax, openFor),
    breakerOff: said.breakerOff || own.breakerOff,
    slowAfter: span(said.slowAfter) ?? own.slowAfter,
  };
}

function readAttempts(said: number, own: number | null): number | null {
  if (said === 0) return null;
  return said <= ATTEMPTS_MAX ? said : own;
}

function readBackoff(said: ClientPolicy, own: Backoff): Backoff {
  const maxDelay = span(said.maxDelay) ?? own.maxDelay;
  return {
    strategy: STRATEGIES[said.strategy] ?? own.strategy,
    initialDelay: min(span(said.initialDelay) ?? own.initialDelay, maxDelay),
    multiplier: within(said.multiplier, 1, 100) ?? own.multiplier,
    maxDelay,
    minDelay: min(span(said.minDelay) ?? own.minDelay, maxDelay),
    jitter: readJitter(said) ?? own.jitter,
  };
}

function readJitter(said: ClientPolicy): Jitter | undefined {
  const kind = JITTERS[said.jitter];
  if (kind === undefined) return undefined;
  if (kind !== "proportional") return { kind, proportion: null };
  const proportion = within(said.jitterProportion, 0, 1);
  return proportion === undefined ? undefined : { kind, proportion };
}

function readBudget(said: ClientPolicy, own: Budget, floorMicrosPerSecond: bigint): Budget {
  const ratio = within(said.budgetRatio, 0, 10);
  return {
    ratioPpm: ratio === undefined ? own.ratioPpm : Math.floor(ratio * 1e6 + 0.5),
    floorMicrosPerSecond,
    ttl: someTime(said.budgetTtl) ?? own.ttl,
  };
}

function floorOf(allowance: OfflineAllowance | undefined): bigint | undefined {
  const perSecond = allowance && within(allowance.retriesPerSecond, 0, 1e6);
  return perSecond === undefined ? undefined : BigInt(Math.floor(perSecond * 1e6));
}

/** No number is in no range. */
function within(value: number, low: number, high: number): number | undefined {
  return value >= low && value <= high ? value : undefined;
}

function span(said: WireDuration): Nanos | undefined {
  const read = readDuration(said);
  return read === null || read === "bad" || read > LONGEST ? undefined : read;
}

function someTime(said: WireDuration): Nanos | undefined {
  return span(said) || undefined;
}
