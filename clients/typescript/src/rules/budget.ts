// How many retries may be made: a share of the first attempts plus a floor, over any trailing
// window of `ttl`, in whole numbers.
//
//   allowed = floor((ratioPpm * firstAttempts + floor(floorMicros * ttl / 1e9)) / 1e6)
//
// A bucket is ceil(ttl / 10) long. In bucket k the retries of buckets k - 10 to k count, and the
// first attempts of k - 9 to k, so that the rounding is against the grant. Twelve counters and no
// list of calls: a step costs the same whatever happened before.

import type { Budget } from "./policy.js";
import { max, type Nanos, SECOND } from "./time.js";

const BUCKETS = 10;
const RING = BUCKETS + 1;
const COUNT_MAX = 2 ** 53 - 1;

export class BudgetCounts {
  /** The bucket of the latest time seen. */
  #newest = 0n;
  #latest: Nanos = 0n;
  #bucket: Nanos = 0n;
  readonly #firsts = new Array<number>(RING).fill(0);
  readonly #retries = new Array<number>(RING).fill(0);

  deposit(policy: Budget, now: Nanos, count = 1): void {
    this.#advance(policy, now);
    this.#bump(this.#firsts, this.#newest, count);
  }

  /** Takes one token. `false`: there is none. */
  take(policy: Budget, now: Nanos): boolean {
    if (!this.hasToken(policy, now)) return false;
    this.#bump(this.#retries, this.#newest, 1);
    return true;
  }

  hasToken(policy: Budget, now: Nanos): boolean {
    const { retries, allowed } = this.look(policy, now);
    return BigInt(retries) < allowed;
  }

  /** A token taken at `taken` goes back to the bucket it came from, if that still counts. */
  giveBack(policy: Budget, taken: Nanos, now: Nanos): void {
    this.#advance(policy, now);
    const bucket = taken / this.#bucket;
    const counts = bucket <= this.#newest && bucket + BigInt(BUCKETS) >= this.#newest;
    if (counts && (this.#retries[slotOf(bucket)] ?? 0) > 0) this.#bump(this.#retries, bucket, -1);
  }

  look(policy: Budget, now: Nanos): { firstAttempts: number; retries: number; allowed: bigint } {
    this.#advance(policy, now);
    const oldest = slotOf(this.#newest + 1n);
    const retries = this.#retries.reduce((sum, count) => sum + count, 0);
    const firstAttempts = this.#firsts.reduce((sum, count, slot) => (slot === oldest ? sum : sum + count), 0);
    const share = BigInt(policy.ratioPpm) * BigInt(firstAttempts);
    const floor = (policy.floorMicrosPerSecond * policy.ttl) / SECOND;
    return { firstAttempts, retries, allowed: (share + floor) / 1_000_000n };
  }

  /** Time that goes back is the latest one seen. A changed window begins anew. */
  #advance(policy: Budget, now: Nanos): void {
    const bucket = max((policy.ttl + BigInt(BUCKETS) - 1n) / BigInt(BUCKETS), 1n);
    this.#latest = max(this.#latest, now);
    const newest = this.#latest / bucket;
    if (bucket !== this.#bucket) {
      this.#rescale(bucket, newest);
      return;
    }
    const passed = newest - this.#newest;
    const stale = passed > BigInt(RING) ? RING : Number(passed);
    for (let step = 1; step <= stale; step++) {
      const slot = slotOf(this.#newest + BigInt(step));
      this.#firsts[slot] = 0;
      this.#retries[slot] = 0;
    }
    this.#newest = newest;
  }

  /** All retries count as of now and no first attempt does: a change never adds to a budget. */
  #rescale(bucket: Nanos, newest: bigint): void {
    const retries = this.#retries.reduce((sum, count) => sum + count, 0);
    this.#firsts.fill(0);
    this.#retries.fill(0);
    this.#bucket = bucket;
    this.#newest = newest;
    this.#bump(this.#retries, newest, retries);
  }

  #bump(counts: number[], bucket: bigint, by: number): void {
    const slot = slotOf(bucket);
    counts[slot] = Math.min((counts[slot] ?? 0) + by, COUNT_MAX);
  }
}

function slotOf(bucket: bigint): number {
  return Number(bucket % BigInt(RING));
}
