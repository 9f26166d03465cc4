// Whether a dependency fails: a cumulative sum of the log-likelihood of "failing" against
// "healthy" (Page 1954), which needs no minimum of calls and no window.
//
//   sum = max(0, sum * 2^(-dt / 30 s) + failures * up - successes * down), trips at 13.3
//   up = ln(p1 / p0)    down = ln((1 - p0) / (1 - p1))
//   p0 = clamp(2 * baseline, 0.02, 0.2)    p1 = clamp(5 * p0, 0.5, 0.9)
//
// At the first baseline five straight failures trip it (5 * 3.2189 = 16.1), and half of all calls
// failing does after about eleven. The healthy share of failures is learned while the sum is 0.

import { max, type Nanos } from "./time.js";

const TRIPS_AT = 13.3;
const HALF_LIFE_NS = 30e9;
const STRETCH_MIN = 256;
const STRETCH_MAX = 65_535;

export class Detector {
  sum = 0;
  #latest: Nanos = 0n;
  #baseline = 0.01;
  #calls = 0;
  #failures = 0;

  /** So many ended at `now`. True: it trips. */
  record(successes: number, failures: number, now: Nanos): boolean {
    this.#decay(now);
    const { up, down } = weights(this.#baseline);
    this.sum = Math.max(0, this.sum + failures * up - successes * down);
    this.#learn(successes, failures);
    return this.sum >= TRIPS_AT;
  }

  /** The evidence is forgotten, what was learned of a healthy time is not. */
  clear(): void {
    this.sum = 0;
    this.#calls = 0;
    this.#failures = 0;
  }

  #decay(now: Nanos): void {
    const passed = Number(max(now, this.#latest) - this.#latest);
    this.#latest = max(now, this.#latest);
    if (this.sum > 0 && passed > 0) this.sum *= 2 ** (-passed / HALF_LIFE_NS);
  }

  #learn(successes: number, failures: number): void {
    this.#calls += successes + failures;
    this.#failures += failures;
    if (this.#calls > STRETCH_MAX) {
      this.#failures = Math.floor((this.#failures * STRETCH_MAX) / this.#calls);
      this.#calls = STRETCH_MAX;
    }
    if (this.sum > 0 || this.#calls < STRETCH_MIN) return;
    const share = this.#failures / this.#calls;
    const weight = Math.min(64, Math.floor(this.#calls / STRETCH_MIN));
    this.#baseline += ((share - this.#baseline) / 64) * weight;
    this.#calls = 0;
    this.#failures = 0;
  }
}

function weights(baseline: number): { up: number; down: number } {
  const healthy = clamp(2 * baseline, 0.02, 0.2);
  const failing = clamp(5 * healthy, 0.5, 0.9);
  return { up: Math.log(failing / healthy), down: Math.log((1 - healthy) / (1 - failing)) };
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}
