// What a process that decides alone keeps to.

import { MILLISECOND, type Nanos, SECOND } from "./time.js";

export type Strategy = "fixed" | "linear" | "exponential";

export type JitterKind = "none" | "full" | "equal" | "proportional" | "decorrelated";

export interface Jitter {
  readonly kind: JitterKind;
  /** 0 to 1; of `proportional` alone. */
  readonly proportion: number | null;
}

export interface Backoff {
  readonly strategy: Strategy;
  readonly initialDelay: Nanos;
  /** 1 to 100; of `exponential` alone. */
  readonly multiplier: number;
  readonly maxDelay: Nanos;
  readonly minDelay: Nanos;
  readonly jitter: Jitter;
}

export interface Budget {
  /** Retries for each million first attempts. */
  readonly ratioPpm: number;
  /** Millionths of a retry a second. */
  readonly floorMicrosPerSecond: bigint;
  readonly ttl: Nanos;
}

export interface Policy {
  readonly backoff: Backoff;
  readonly budget: Budget;
  /** The first call included; null: unlimited. */
  readonly maxAttempts: number | null;
  readonly minAttemptTime: Nanos;
  readonly pushbackMax: Nanos;
  readonly pushbackSpread: Nanos;
  readonly openFor: Nanos;
  readonly openMultiplier: number;
  readonly openMax: Nanos;
  /** No breaker of this process; what the service denied for all holds. */
  readonly breakerOff: boolean;
  /** 0: no call is slow. */
  readonly slowAfter: Nanos;
}

/** Of a client before anything was pushed. */
export const OWN_POLICY: Policy = {
  backoff: {
    strategy: "exponential",
    initialDelay: 100n * MILLISECOND,
    multiplier: 2,
    maxDelay: 10n * SECOND,
    minDelay: 0n,
    jitter: { kind: "full", proportion: null },
  },
  budget: { ratioPpm: 100_000, floorMicrosPerSecond: 1_000_000n, ttl: 10n * SECOND },
  maxAttempts: 3,
  minAttemptTime: 0n,
  pushbackMax: 60n * SECOND,
  pushbackSpread: SECOND,
  openFor: 10n * SECOND,
  openMultiplier: 2,
  openMax: 60n * SECOND,
  breakerOff: false,
  slowAfter: 0n,
};
