// Reads a plan, strictly: one that says something unknown, or leaves out what it must say, is no plan.
// A delay that is absent is not "now".

import { CheckVerdict, type PlanCheckResponse } from "../gen/holdoff/v1/coordinator_pb.js";
import { millisOf, type Nanos, SECOND } from "../rules/time.js";
import { readDuration } from "../wire/duration.js";
import { PERMIT_BYTES_MAX } from "../wire/read.js";

/** A period and its offset are at most so long together. */
const DELAY_MAX = 2n * 24n * 3600n * SECOND;
const PERIOD_MAX = 24n * 3600n * SECOND;
const TIMEOUT_MAX = 3600n * SECOND;

/** What all checkers together have found. */
export type Verdict = "healthy" | "unhealthy" | "unknown";

/** What the service plans. Times are milliseconds. */
export interface Plan {
  readonly next: PlannedRun | PlannedShare;
  readonly verdict: Verdict;
  /** Of the policy. `null`: not said. */
  readonly period: number | null;
}

export interface PlannedRun {
  readonly kind: "run";
  readonly delay: number;
  readonly timeout: number;
  readonly permit: Uint8Array;
}

export interface PlannedShare {
  readonly kind: "shared";
  readonly verdict: Verdict;
  readonly age: number | null;
  readonly askAgain: number;
}

/** Why an answer plans nothing. */
export class OddPlan extends Error {
  override readonly name = "OddPlan";
}

/** @throws {OddPlan} */
export function readPlan({ plan, verdict, period }: PlanCheckResponse): Plan {
  return { next: readNext(plan), verdict: readVerdict(verdict), period: someTime(period, PERIOD_MAX) };
}

function readNext(plan: PlanCheckResponse["plan"]): PlannedRun | PlannedShare {
  switch (plan.case) {
    case "run": {
      const { delay, timeout, permit } = plan.value;
      if (permit.length > PERMIT_BYTES_MAX) throw new OddPlan("the permit is longer than any permit");
      return {
        kind: "run",
        delay: said(span(delay, DELAY_MAX)),
        timeout: said(someTime(timeout, TIMEOUT_MAX)),
        // A copy: the original would keep the whole message alive.
        permit: permit.slice(),
      };
    }
    case "shared": {
      const { verdict, age, askAgain } = plan.value;
      return {
        kind: "shared",
        verdict: readVerdict(verdict),
        age: span(age, null),
        askAgain: said(span(askAgain, DELAY_MAX)),
      };
    }
    default:
      throw new OddPlan("the answer has no plan");
  }
}

function readVerdict(verdict: CheckVerdict): Verdict {
  switch (verdict) {
    case CheckVerdict.HEALTHY:
      return "healthy";
    case CheckVerdict.UNHEALTHY:
      return "unhealthy";
    case CheckVerdict.UNKNOWN:
      return "unknown";
    default:
      throw new OddPlan("the verdict is unknown to this client");
  }
}

function said(time: number | null): number {
  if (time === null) throw new OddPlan("the plan does not say when");
  return time;
}

function span(duration: Parameters<typeof readDuration>[0], longest: Nanos | null): number | null {
  const read = readDuration(duration);
  if (read === null) return null;
  if (read === "bad" || (longest !== null && read > longest)) {
    throw new OddPlan("a duration of the plan is out of range");
  }
  return millisOf(read);
}

function someTime(duration: Parameters<typeof readDuration>[0], longest: Nanos): number | null {
  const time = span(duration, longest);
  if (time === 0) throw new OddPlan("a duration of the plan is out of range");
  return time;
}
