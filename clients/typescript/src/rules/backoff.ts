// The delay before a retry.
//
// | strategy      | ceiling of retry n, at most `maxDelay` | 100 ms, x2, 10 s         |
// |---------------|----------------------------------------|--------------------------|
// | `fixed`       | initial                                | 100, 100, 100, 100       |
// | `linear`      | initial * n                            | 100, 200, 300, 400       |
// | `exponential` | initial * multiplier ^ (n - 1)         | 100, 200, 400, 800, 1600 |
//
// | jitter         | drawn uniformly between                                       |
// |----------------|---------------------------------------------------------------|
// | `none`         | the ceiling itself                                            |
// | `full`         | 0 and the ceiling                                             |
// | `equal`        | half of it and the ceiling                                    |
// | `proportional` | ceiling * (1 - p) and ceiling * (1 + p), at most `maxDelay`   |
// | `decorrelated` | initial and three times the delay before, at most `maxDelay`  |
//
// The range is clamped before the draw, to `minDelay` below and `maxDelay` above, so that no jitter
// is lost at either.

import type { Backoff } from "./policy.js";
import { add, fromDouble, max, min, multiply, type Nanos, part, power, subtract } from "./time.js";

/** `retry` is 1 for attempt 2; 0 is taken as 1. */
export function ceilingOf(policy: Backoff, retry: number): Nanos {
  return min(unclamped(policy, Math.max(retry, 1)), policy.maxDelay);
}

function unclamped(policy: Backoff, retry: number): Nanos {
  switch (policy.strategy) {
    case "fixed":
      return policy.initialDelay;
    case "linear":
      return multiply(policy.initialDelay, BigInt(retry));
    case "exponential":
      return fromDouble(Number(policy.initialDelay) * power(policy.multiplier, retry - 1));
  }
}

/** `sample` is uniform in [0, 1). */
export function delayOf(policy: Backoff, retry: number, previousDelay: Nanos, sample: number): Nanos {
  const [from, to] = rangeOf(policy, ceilingOf(policy, retry), previousDelay);
  const low = max(from, min(policy.minDelay, policy.maxDelay));
  const high = max(to, low);
  return min(add(low, part(subtract(high, low), sample)), policy.maxDelay);
}

function rangeOf(policy: Backoff, ceiling: Nanos, previousDelay: Nanos): [Nanos, Nanos] {
  const { initialDelay, maxDelay, jitter } = policy;
  switch (jitter.kind) {
    case "none":
      return [ceiling, ceiling];
    case "full":
      return [0n, ceiling];
    case "equal":
      return [ceiling / 2n, ceiling];
    case "proportional": {
      const proportion = jitter.proportion ?? 0;
      const high = fromDouble(Number(ceiling) * (1 + proportion));
      return [part(ceiling, 1 - proportion), min(high, maxDelay)];
    }
    case "decorrelated": {
      const high = multiply(max(previousDelay, initialDelay), 3n);
      return [min(initialDelay, maxDelay), min(high, maxDelay)];
    }
  }
}
