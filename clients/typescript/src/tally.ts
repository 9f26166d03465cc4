// Attempts that were made on pushed state, counted by dependency and epoch, until the next report
// takes them along.
//
// An attempt is counted when it ends: its start and its end together. Counted when it starts, one
// whose failure is told with a question, which counts the start again, would deposit twice in the
// retry budget, just when everything fails.
//
// Starts counted before the stream began that takes them along are told as none: a fleet that was
// alone for a while had its own budgets of them, and told all at once they would be a lump of retries
// just when the service is back.

import { create } from "@bufbuild/protobuf";
import { type ReportEntry, ReportEntrySchema } from "./gen/holdoff/v1/coordinator_pb.js";
import type { Outcome, OutcomeKind } from "./outcome.js";
import { writeDuration } from "./wire/duration.js";
import { LONGEST_LATENCY } from "./wire/write.js";

/** Past it new counters are refused. Those that exist go on. */
const COUNTERS_MAX = 10_000;
const COUNT_MAX = 2 ** 32 - 1;

/** The state that an attempt was made on, without asking. */
export interface OnState {
  readonly epoch: bigint;
  /** Milliseconds; 0: no call is slow. */
  readonly slowAfter: number;
}

class Counter {
  /** Since the present stream began. */
  firstAttempts = 0;
  successes = 0;
  failures = 0;
  timeouts = 0;
  throttled = 0;
  rejected = 0;
  ignored = 0;
  slow = 0;
  /** In whole nanoseconds, which a double holds exactly for a hundred days. */
  latencySumNs = 0;

  note({ kind, latency }: Outcome, slowAfter: number): void {
    const counted = COUNTED_AS[kind];
    this[counted] = Math.min(this[counted] + 1, COUNT_MAX);
    this.firstAttempts = Math.min(this.firstAttempts + 1, COUNT_MAX);
    if (latency === undefined || !(latency >= 0)) return;
    if (slowAfter > 0 && latency >= slowAfter) this.slow += 1;
    this.latencySumNs += Math.round(Math.min(latency, LONGEST_LATENCY) * 1e6);
  }
}

type Counted = "successes" | "failures" | "timeouts" | "throttled" | "rejected" | "ignored";

const COUNTED_AS: Record<OutcomeKind, Counted> = {
  success: "successes",
  failure: "failures",
  // The dependency could not be reached: for the breaker a failure like any.
  not_sent: "failures",
  timeout: "timeouts",
  throttled: "throttled",
  rejected: "rejected",
  ignored: "ignored",
  cancelled: "ignored",
};

export class Tallies {
  readonly #byDependency = new Map<string, Map<bigint, Counter>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Counts an attempt that ended. False: there is no room. */
  note(dependency: string, { epoch, slowAfter }: OnState, outcome: Outcome): boolean {
    let byEpoch = this.#byDependency.get(dependency);
    let counter = byEpoch?.get(epoch);
    if (counter === undefined) {
      if (this.#size >= COUNTERS_MAX) return false;
      if (byEpoch === undefined) {
        byEpoch = new Map();
        this.#byDependency.set(dependency, byEpoch);
      }
      counter = new Counter();
      byEpoch.set(epoch, counter);
      this.#size += 1;
    }
    counter.note(outcome, slowAfter);
    return true;
  }

  /** A stream begins: what was counted before it deposits nothing. */
  forgetStarts(): void {
    for (const byEpoch of this.#byDependency.values()) {
      for (const counter of byEpoch.values()) counter.firstAttempts = 0;
    }
  }

  /** Takes so many at most. */
  take(count: number): ReportEntry[] {
    const entries: ReportEntry[] = [];
    for (const [dependency, byEpoch] of this.#byDependency) {
      for (const [epoch, counter] of byEpoch) {
        if (entries.length >= count) return entries;
        entries.push(entryOf(dependency, epoch, counter));
        byEpoch.delete(epoch);
        this.#size -= 1;
      }
      this.#byDependency.delete(dependency);
    }
    return entries;
  }
}

function entryOf(dependency: string, epoch: bigint, counter: Counter): ReportEntry {
  const { latencySumNs, ...counts } = counter;
  const latencySum = writeDuration(latencySumNs / 1e6);
  return create(ReportEntrySchema, {
    entry: { case: "tally", value: { dependency, epoch, ...counts, latencySum } },
  });
}
