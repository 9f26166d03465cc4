// Runs a health check again and again, when the service says.
//
// The next run is planned as soon as the one before has ended, and the question carries how it ended.
// Where the plan is that others check, their verdict is told and the service is asked again when it
// says. Checks are what an outage is found by, so they go on without the service, on the grid that it
// gave last. One run at a time.

import { create } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { onAbort } from "./abort.js";
import { OddPlan, type Plan, readPlan, type Verdict } from "./check/plan.js";
import { checkerName, Schedule } from "./check/schedule.js";
import type { Core } from "./core.js";
import {
  CheckVerdict,
  type PlanCheckRequest,
  PlanCheckRequestSchema,
} from "./gen/holdoff/v1/coordinator_pb.js";
import { type NoAnswer, noAnswerText } from "./link/ask.js";
import { within } from "./options.js";
import { checkName } from "./question.js";
import { sleepUntil, timerOf } from "./timers.js";

export type { Verdict } from "./check/plan.js";

const PERIOD = 30_000;
const TIMEOUT = 2_000;
const LONGEST = 24 * 3600 * 1000;
/** Whatever is planned, runs and questions are so far apart. */
const APART_MIN = 10;
/** An answer is waited for no longer than this, or a tenth of the period. */
const PLAN_TIMEOUT_MAX = 1_000;
/** Without an answer, the service is looked for again after so long at most. */
const LOOK_AGAIN = 60_000;
const TESTING_RUNS = 3;

/** Times are milliseconds. */
export interface CheckOptions {
  /** The time between two runs while the service has planned none: 30,000 unless said. */
  readonly period?: number;
  /** How long a run may take while the service has planned none: 2,000 unless said. */
  readonly timeout?: number;
  /** Ends after so many own runs: never unless said. */
  readonly runs?: number;
  /** Is told each finding. */
  readonly onFinding?: (finding: Finding) => void;
  /** Ends it; a run that is under way is cut off. */
  readonly signal?: AbortSignal;
}

/** One run. */
export interface CheckRun {
  /** It is given up after so many milliseconds, which counts as unhealthy. */
  readonly timeout: number;
  /** Aborted when it is given up. */
  readonly signal: AbortSignal;
  /** Not planned by the service. */
  readonly isLocal: boolean;
}

/** What a check returns: `false`, or an error thrown, is unhealthy; all else is healthy. */
export type Health = unknown;

/** What a checker learns. Times are milliseconds. */
export type Finding =
  /** A run of its own has ended. `fleet`: what all checkers together have found, where it is known. */
  | {
      readonly kind: "ran";
      readonly isHealthy: boolean;
      readonly timedOut: boolean;
      readonly took: number;
      readonly isLocal: boolean;
      readonly fleet: Verdict | undefined;
    }
  /** Others check. `age` is null where nobody has checked yet. */
  | {
      readonly kind: "shared";
      readonly verdict: Verdict;
      readonly age: number | null;
      readonly askAgain: number;
    }
  /** The service plans no checks of this dependency; they go on without. Told once. */
  | { readonly kind: "not-planned"; readonly why: string }
  /** The service does not answer; checks go on without. Told once, until it answers. */
  | { readonly kind: "away"; readonly why: string };

/** What was done until the end. */
export interface Checked {
  /** Own runs that have ended. */
  readonly runs: number;
  /** Whether the last one found the dependency healthy. */
  readonly last: boolean | undefined;
  /** The signal ended it. */
  readonly wasStopped: boolean;
}

type Operation = (check: CheckRun) => Health;

export function check(
  core: Core,
  dependency: string,
  run: Operation,
  options: CheckOptions,
): Promise<Checked> {
  checkName(core, dependency);
  return new Checker(core, dependency, run, options).keepChecking();
}

/** A run that has ended. */
interface Ended {
  readonly isHealthy: boolean;
  readonly timedOut: boolean;
  readonly took: number;
  readonly isLocal: boolean;
}

/** A run that is due; without a permit the service has not planned it. */
interface Due {
  readonly timeout: number;
  readonly permit: Uint8Array | undefined;
}

type Planned = { readonly plan: Plan } | { readonly no: NoAnswer | null };

class Checker {
  readonly #core: Core;
  readonly #dependency: string;
  readonly #run: Operation;
  readonly #tell: (finding: Finding) => void;
  readonly #signal: AbortSignal;
  readonly #schedule: Schedule;
  readonly #mostRuns: number;
  /** To be handed over with the next question. */
  #result: PlanCheckRequest["lastResult"];
  /** It was told that there are no plans. */
  #without: "not-planned" | "away" | undefined;
  #notBefore = 0;

  constructor(core: Core, dependency: string, run: Operation, options: CheckOptions) {
    const { period = PERIOD, timeout = TIMEOUT, runs = Number.POSITIVE_INFINITY } = options;
    within("period", period, APART_MIN, LONGEST);
    within("timeout", timeout, 1, LONGEST);
    this.#core = core;
    this.#dependency = dependency;
    this.#run = run;
    this.#tell = options.onFinding ?? (() => {});
    this.#signal = options.signal ?? new AbortController().signal;
    this.#mostRuns = core.isTesting ? Math.min(runs, TESTING_RUNS) : runs;
    const name = checkerName(dependency, core.link?.hello.caller);
    this.#schedule = new Schedule(name, period, timeout, core.now());
  }

  async keepChecking(): Promise<Checked> {
    let ended: Ended | undefined;
    let runs = 0;
    while (!this.#signal.aborted) {
      const planned = await this.#plan();
      if (this.#signal.aborted) break;
      if (ended !== undefined) {
        this.#tell({ kind: "ran", ...ended, fleet: "plan" in planned ? planned.plan.verdict : undefined });
      }
      if (runs >= this.#mostRuns) return { runs, last: ended?.isHealthy, wasStopped: false };
      ended = undefined;
      this.#note(planned);
      const due = await this.#untilTheNextRun(planned);
      if (due === null || this.#signal.aborted) continue;
      ended = await this.#once(due);
      if (ended !== undefined) runs += 1;
    }
    return { runs, last: ended?.isHealthy, wasStopped: true };
  }

  /** A result is handed over once: asked again without it, the service repeats its plan. */
  async #plan(): Promise<Planned> {
    const { link, timeout } = this.#core;
    if (link === null) return { no: null };
    const patience = Math.max(Math.min(this.#schedule.period / 10, PLAN_TIMEOUT_MAX), timeout);
    const lastResult = this.#result;
    this.#result = undefined;
    const { namespace, caller: checker } = link.hello;
    const request = create(PlanCheckRequestSchema, {
      namespace,
      dependency: this.#dependency,
      ...(checker && { checker }),
      ...(lastResult && { lastResult }),
    });
    const answer = await this.#within(patience, (signal) => link.planCheck(request, signal));
    if (answer === undefined) return { no: { kind: "late", isSent: true } };
    if ("no" in answer) {
      if (answer.no.kind === "away") this.#result = lastResult;
      return answer;
    }
    try {
      return { plan: readPlan(answer.ok) };
    } catch (error) {
      if (!(error instanceof OddPlan)) throw error;
      return { no: { kind: "failed", code: status.INTERNAL, text: error.message } };
    }
  }

  #note(planned: Planned): void {
    if ("plan" in planned) {
      this.#without = undefined;
      const { next } = planned.plan;
      this.#schedule.follow(planned.plan, this.#core.now());
      if (next.kind === "shared") this.#tell(next);
      return;
    }
    const { no } = planned;
    // There is no service to miss.
    if (no === null) return;
    const isRefusal = no.kind === "failed" && REFUSALS.has(no.code);
    if (isRefusal) this.#schedule.forget();
    const kind = isRefusal ? "not-planned" : "away";
    if (this.#without === kind) return;
    this.#without = kind;
    const why = noAnswerText(no);
    this.#core.log.warn(`health checks of ${this.#dependency} go on by themselves: ${why}`);
    this.#tell({ kind, why });
  }

  /** `null`: ask again. */
  async #untilTheNextRun(planned: Planned): Promise<Due | null> {
    const { now, isTesting } = this.#core;
    const { at, due } = this.#next(planned, now());
    if (isTesting) return due;
    await sleepUntil(Math.max(at, this.#notBefore), now, this.#signal);
    this.#notBefore = now() + APART_MIN;
    return due;
  }

  #next(planned: Planned, now: number): { at: number; due: Due | null } {
    if ("plan" in planned) {
      const { next } = planned.plan;
      return next.kind === "run"
        ? { at: now + next.delay, due: { timeout: next.timeout, permit: next.permit } }
        : { at: now + next.askAgain, due: null };
    }
    const at = this.#schedule.after(now);
    if (at - now > LOOK_AGAIN && planned.no !== null) return { at: now + LOOK_AGAIN, due: null };
    return { at, due: { timeout: this.#schedule.timeout, permit: undefined } };
  }

  /** `undefined`: it was ended. */
  async #once({ timeout, permit }: Due): Promise<Ended | undefined> {
    const { now } = this.#core;
    const begun = now();
    const isLocal = permit === undefined;
    const health = await this.#within(timeout, async (signal) => {
      try {
        return (await this.#run({ timeout, signal, isLocal })) === false ? "unhealthy" : "healthy";
      } catch {
        return "unhealthy";
      }
    });
    if (this.#signal.aborted) return undefined;
    const isHealthy = health === "healthy";
    if (permit !== undefined) {
      const verdict = isHealthy ? CheckVerdict.HEALTHY : CheckVerdict.UNHEALTHY;
      const lastResult = { permit, verdict };
      this.#result = create(PlanCheckRequestSchema, { lastResult }).lastResult;
    }
    return { isHealthy, timedOut: health === undefined, took: now() - begun, isLocal };
  }

  /** `undefined`: the time was over, or all of it was ended. */
  #within<T>(millis: number, run: (signal: AbortSignal) => Promise<T>): Promise<T | undefined> {
    return new Promise((resolve) => {
      const limit = new AbortController();
      const end = (value: T | undefined) => {
        clearTimeout(timer);
        stopListening();
        resolve(value);
      };
      const cutOff = () => {
        end(undefined);
        limit.abort(new DOMException("the check was given up", "TimeoutError"));
      };
      const timer = setTimeout(cutOff, timerOf(millis));
      const stopListening = onAbort(this.#signal, cutOff);
      void run(limit.signal).then(end);
    });
  }
}

/** Codes by which a service that is well says that it plans nothing here. */
const REFUSALS: ReadonlySet<number> = new Set([
  status.FAILED_PRECONDITION,
  status.UNIMPLEMENTED,
  status.INVALID_ARGUMENT,
  status.NOT_FOUND,
  status.PERMISSION_DENIED,
  status.UNAUTHENTICATED,
]);
