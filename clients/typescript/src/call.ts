// A guarded call: asks, waits, runs, classifies, reports, retries, and throws the last real error with
// the reason why it stopped beside it.

import { onAbort } from "./abort.js";
import { Asking, type Terms } from "./asking.js";
import { type Classify, classifyResult, type Result } from "./classify/index.js";
import type { Core } from "./core.js";
import {
  type Denial,
  DeniedError,
  denial,
  newestCall,
  numberOfCall,
  remember,
  TimedOutError,
} from "./denial.js";
import { channels } from "./log.js";
import { SettingError } from "./options.js";
import { CANCELLED, type Outcome, TIMEOUT } from "./outcome.js";
import { Grant, isDenial } from "./permit.js";
import { type QuestionOptions, readQuestion, refuseOtherThan } from "./question.js";
import { askAgainAfter } from "./rules/clamp.js";
import { millisOf, nanosOf } from "./rules/time.js";
import { sleepUntil, timerOf } from "./timers.js";
import { isOutcomeKind } from "./wire/write.js";

/** What a call does when the answer is no: `fail` at once, or `wait` as long as it says and ask again. */
export type OnDenied = "fail" | "wait";

const ON_DENIED: readonly OnDenied[] = ["fail", "wait"];

/** Settings of a call. Times are milliseconds. */
export interface CallOptions<T> extends QuestionOptions {
  /** `fail` unless said. */
  readonly onDenied?: OnDenied;
  /** How a result is read: by {@link classifyResult} unless said. */
  readonly classify?: Classify<T>;
  /** What is returned in place of an error, with or without an attempt. */
  readonly fallback?: (error: unknown) => T | PromiseLike<T>;
}

/** What a function is told about its attempt. */
export interface Attempt {
  /** 1 for the first call. */
  readonly number: number;
  /** The attempt is cut off after so many milliseconds. `Infinity`: nothing limits it. */
  readonly limit: number;
  /** Aborted when it is cut off, and when the caller gives the call up. */
  readonly signal: AbortSignal;
  /** A limit that the service finds sensible, in milliseconds; it does not bind. */
  readonly suggestedTimeout: number | undefined;
  /** It tests a dependency that is thought broken. */
  readonly isProbe: boolean;
  /** It was granted without the service. */
  readonly isLocal: boolean;
}

export type Operation<T> = (attempt: Attempt) => T | PromiseLike<T>;

export async function call<T>(
  core: Core,
  dependency: string,
  operation: Operation<T>,
  options: CallOptions<T>,
): Promise<T> {
  const { classify = classifyResult, onDenied = "fail", signal } = options;
  refuseOtherThan("onDenied", onDenied, ON_DENIED);
  if (typeof operation !== "function") throw new SettingError("operation", operation, "a function");
  let asking = Asking.first(core, readQuestion(core, dependency, options));
  const progress: Progress = { call: numberOfCall(), attempts: 0 };
  let last: Result<T> | null = null;
  for (;;) {
    let grant: Grant | Denial;
    try {
      const settled = asking.settle();
      // On pushed state there is nothing to wait for.
      grant = isTerms(settled) ? Grant.of(asking, settled) : await obtain(asking, settled, onDenied);
    } catch (gaveUp) {
      asking.giveUp();
      throw cancelled(gaveUp, progress);
    }
    if (isDenial(grant)) {
      asking.giveUp();
      return end(asking, last, grant, progress, options);
    }
    progress.attempts = asking.attempt;
    const begun = core.now();
    const running = new Running(grant, signal);
    const result = await running.run(operation);
    if (result === "given up") {
      note(grant, CANCELLED);
      grant.report(CANCELLED);
      throw cancelled(signal?.reason, progress);
    }
    const outcome = outcomeOf(result, classify, core.now() - begun);
    note(grant, outcome);
    if (result !== "cut off") {
      if (outcome.kind === "success" && result.ok) {
        grant.report(outcome);
        return result.value;
      }
      last = result;
    }
    const next = grant.next(outcome);
    if (next === null) return end(asking, last, denial("caller", "PERMIT_VOID"), progress, options);
    asking = next;
  }
}

/**
 * A permit that may be used now. One that was granted and did not hold was given back; the same
 * question would be answered by the same, void grant, so that a first attempt is asked for under
 * another name, and a retry ends the call.
 */
async function obtain(
  asking: Asking,
  settled: Terms | Denial | null,
  onDenied: OnDenied,
): Promise<Grant | Denial> {
  for (let answer = settled; ; answer = asking.settle()) {
    answer ??= await asking.ask();
    const grant = isDenial(answer) ? answer : Grant.of(asking, answer);
    const denied = isDenial(grant) ? grant : await grant.wait();
    if (denied === null) return grant;
    const wasGranted = !isDenial(grant);
    const wait = onDenied === "wait" && !asking.core.isTesting ? timeToAskAgain(asking, denied) : null;
    if (wait === null || (wasGranted && asking.attempt > 1)) return denied;
    const { core, question } = asking;
    await sleepUntil(core.now() + wait, core.now, question.signal);
    question.signal?.throwIfAborted();
    if (wasGranted) asking.rename();
  }
}

function isTerms(answer: Terms | Denial | null): answer is Terms {
  return answer !== null && !isDenial(answer);
}

/** `null`: the denial stands. */
function timeToAskAgain(asking: Asking, { reason, retryAfter }: Denial): number | null {
  const { timeLeft } = asking;
  const nanos = (millis: number | null) => (millis === null ? null : nanosOf(millis));
  const wait = askAgainAfter(reason, nanos(retryAfter), nanos(timeLeft));
  return wait === null ? null : millisOf(wait);
}

/** A call under way: its number, and how many attempts it has made. */
interface Progress {
  readonly call: number;
  attempts: number;
}

/** What an attempt came to, within its limit. */
type Ran<T> = Result<T> | "cut off" | "given up";

/** One attempt under way. Its signal is made when it is first looked at. */
class Running implements Attempt {
  readonly limit: number;
  readonly #grant: Grant;
  readonly #callers: AbortSignal | undefined;
  #controller: AbortController | undefined;
  #aborted: unknown;

  constructor(grant: Grant, callers: AbortSignal | undefined) {
    this.#grant = grant;
    this.#callers = callers;
    this.limit = grant.limit;
  }

  get number(): number {
    return this.#grant.asking.attempt;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#aborted !== undefined) this.#controller.abort(this.#aborted);
    }
    return this.#controller.signal;
  }

  get suggestedTimeout(): number | undefined {
    return this.#grant.terms.suggestedTimeout;
  }

  get isProbe(): boolean {
    return this.#grant.terms.isProbe;
  }

  get isLocal(): boolean {
    return this.#grant.isLocal;
  }

  run<T>(operation: Operation<T>): Promise<Ran<T>> {
    const running = settle(operation, this);
    const isBounded = this.limit !== Number.POSITIVE_INFINITY || this.#callers !== undefined;
    return isBounded ? this.#bounded(running) : running;
  }

  /** What the operation comes to after it was cut off is of no interest, an error neither. */
  #bounded<T>(running: Promise<Result<T>>): Promise<Ran<T>> {
    return new Promise((resolve) => {
      const end = (ran: Ran<T>) => {
        clearTimeout(timer);
        stopListening();
        resolve(ran);
      };
      const giveUp = () => {
        end("given up");
        this.#abort(this.#callers?.reason);
      };
      const cutOff = () => {
        end("cut off");
        this.#abort(new DOMException(`cut off after ${Math.round(this.limit)} ms`, "TimeoutError"));
      };
      // Timers may fire a little early, and what is cut off has had its time.
      const isLimited = this.limit !== Number.POSITIVE_INFINITY;
      const timer = isLimited ? setTimeout(cutOff, timerOf(this.limit + 1)) : undefined;
      const stopListening = onAbort(this.#callers, giveUp);
      void running.then(end);
      if (this.#callers?.aborted) giveUp();
    });
  }

  #abort(reason: unknown): void {
    this.#aborted = reason;
    this.#controller?.abort(reason);
  }
}

async function settle<T>(operation: Operation<T>, attempt: Attempt): Promise<Result<T>> {
  const newestBefore = newestCall();
  try {
    return { ok: true, value: await operation(attempt) };
  } catch (error) {
    return { ok: false, error, newestBefore };
  }
}

/** A classifier that throws, or says what is no outcome, must not lose the call. */
function outcomeOf<T>(result: Result<T> | "cut off", classify: Classify<T>, latency: number): Outcome {
  if (result === "cut off") return { ...TIMEOUT, latency };
  let outcome: Outcome;
  try {
    outcome = classify(result);
  } catch {
    outcome = { kind: "ignored" };
  }
  if (!isOutcomeKind(outcome?.kind)) return { kind: "ignored", latency };
  return outcome.latency === undefined ? { ...outcome, latency } : outcome;
}

function note(grant: Grant, outcome: Outcome): void {
  if (!channels.attempt.hasSubscribers) return;
  const { asking, terms, isLocal } = grant;
  const { dependency } = asking.question;
  channels.attempt.publish({ dependency, attempt: asking.attempt, isProbe: terms.isProbe, isLocal, outcome });
}

/** A value that was read as a failure is returned as it is where there is no further attempt. */
function end<T>(
  { core, question: { dependency } }: Asking,
  last: Result<T> | null,
  why: Denial,
  { call, attempts }: Progress,
  { fallback }: CallOptions<T>,
): T | PromiseLike<T> {
  if (channels.denied.hasSubscribers) channels.denied.publish({ dependency, denial: why });
  core.log.debug("a call was given up", { dependency, reason: why.reason, attempts });
  if (last?.ok) {
    remember(last.value, { ...why, attempts }, call);
    return last.value;
  }
  const error = last === null ? errorOf(why, attempts) : last.error;
  remember(error, { ...why, attempts }, call);
  if (fallback === undefined) throw error;
  return fallback(error);
}

/** No attempt has returned an error: none was made, or all were cut off. */
function errorOf(why: Denial, attempts: number): Error {
  return attempts === 0 ? new DeniedError(why) : new TimedOutError(why, attempts);
}

/** The caller's own reason, as `fetch` has it. */
function cancelled(reason: unknown, { call, attempts }: Progress): unknown {
  remember(reason, { ...denial("caller", "CANCELLED"), attempts }, call);
  return reason;
}
