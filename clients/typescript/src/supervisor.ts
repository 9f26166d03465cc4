// Restarts a task that failed, after a coordinated and jittered delay.
//
// A restart is a retry: it is asked for like one, with the attempts counted since the task was last
// healthy, so that breaker, budget and calendar hold for a fleet of tasks that fall together as they
// do for calls. A supervisor has no limit of attempts of its own. Where the service allows no further
// one, it waits for a delay of its own and begins a new chain of attempts; where it names a time, for
// that.
//
// A start is reported as a success once it has run for long enough, not when it ends: a permit does
// not live for hours, and silence would count against the dependency. A task that falls after that is
// told as a first attempt on the state last pushed.

import { onAbort } from "./abort.js";
import { Asking } from "./asking.js";
import { type Core, policyOf } from "./core.js";
import { type Denial, DeniedError, denial, numberOfCall, remember } from "./denial.js";
import { unit } from "./entropy.js";
import { SettingError } from "./options.js";
import { FAILURE, SUCCESS } from "./outcome.js";
import { Grant, isDenial } from "./permit.js";
import { type Question, readQuestion } from "./question.js";
import { delayOf } from "./rules/backoff.js";
import type { Policy } from "./rules/policy.js";
import { MILLISECOND, max, millisOf, type Nanos } from "./rules/time.js";
import { later, sleepUntil } from "./timers.js";

/** A denial that names a time is waited for no longer at once, and asked about no sooner. */
const WAIT_MAX = 600_000;
const WAIT_MIN = 10;
/** A task that falls at once is not restarted at once, whatever the policy of calls says. */
const FIRST_CEILING: Nanos = 100n * MILLISECOND;
const HEALTHY_AFTER = 60_000;
const NO_STATE = { epoch: 0n, slowAfter: 0 };

export interface SupervisorOptions {
  /** A run of so many milliseconds ends a series of failures: 60,000 unless said. */
  readonly healthyAfter?: number;
  /** After which errors the task is not restarted: none unless said. */
  readonly stopIf?: (error: unknown) => boolean;
  /** Stops the task, wherever it is: its own signal is aborted, and the promise rejects. */
  readonly signal?: AbortSignal;
}

/** One start. */
export interface Start {
  /** 1 for the first one; counts on with each restart until a run was healthy. */
  readonly number: number;
  readonly signal: AbortSignal;
  readonly isProbe: boolean;
  readonly isLocal: boolean;
}

export type Task<T> = (start: Start) => T | PromiseLike<T>;

export async function supervise<T>(
  core: Core,
  name: string,
  task: Task<T>,
  { healthyAfter = HEALTHY_AFTER, stopIf, signal = new AbortController().signal }: SupervisorOptions,
): Promise<T> {
  if (!(healthyAfter >= 0)) throw new SettingError("healthyAfter", healthyAfter, "milliseconds, 0 or more");
  const chain = new Chain(
    core,
    readQuestion(core, name, { idempotent: true, maxAttempts: Number.POSITIVE_INFINITY, signal }),
  );
  const call = numberOfCall();
  let last: { readonly error: unknown } | null = null;
  for (;;) {
    const grant = await chain.permission();
    if (isDenial(grant)) throw gaveUp(last, grant, chain.number - 1, call);
    const { isProbe } = grant.terms;
    const start: Start = { number: chain.number, signal, isProbe, isLocal: grant.isLocal };
    const ran = await watch(core, task, start, grant, healthyAfter);
    signal.throwIfAborted();
    if ("value" in ran) return ran.value;
    chain.fell(grant, ran.wasHealthy);
    if (stopIf?.(ran.error)) {
      chain.giveUp();
      const why = denial("caller", "NOT_RETRYABLE", "stopIf says so");
      throw gaveUp({ error: ran.error }, why, start.number, call);
    }
    last = ran;
  }
}

type Ran<T> = { readonly value: T } | { readonly error: unknown; readonly wasHealthy: boolean };

/** Reports the start as a success as soon as it has run for long enough. */
async function watch<T>(
  core: Core,
  task: Task<T>,
  start: Start,
  grant: Grant,
  healthyAfter: number,
): Promise<Ran<T>> {
  const begun = core.now();
  // Well before the permit's life ends.
  const proven = later(Math.min(healthyAfter, grant.terms.lives * 0.9), () => grant.report(SUCCESS));
  let stopListening = () => {};
  const told = new Promise<never>((_, reject) => {
    stopListening = onAbort(start.signal, () => reject(start.signal.reason));
  });
  try {
    const value = await Promise.race([told, Promise.resolve(start).then(task)]);
    grant.report(SUCCESS);
    return { value };
  } catch (error) {
    if (start.signal.aborted) grant.report({ kind: "cancelled" });
    return { error, wasHealthy: core.now() - begun >= healthyAfter };
  } finally {
    clearTimeout(proven);
    stopListening();
  }
}

function gaveUp(
  last: { readonly error: unknown } | null,
  why: Denial,
  attempts: number,
  call: number,
): unknown {
  if (last === null) return new DeniedError(why, attempts);
  remember(last.error, { ...why, attempts }, call);
  return last.error;
}

/**
 * When the next start may be made. A chain of attempts is what the service counts; it ends where the
 * service allows no further one, and where a start was reported as a success before it fell. The
 * supervisor counts on: while its own count is higher than that of the chain, its own delay is a floor
 * under the granted one.
 */
class Chain {
  readonly #core: Core;
  readonly #question: Question;
  #asking: Asking;
  /** Starts that failed since the last healthy run. */
  #failures = 0;

  constructor(core: Core, question: Question) {
    this.#core = core;
    this.#question = question;
    this.#asking = Asking.first(core, question);
  }

  /** Of the next start. A healthy run is the first one of those that follow it. */
  get number(): number {
    return this.#failures + 1;
  }

  fell(grant: Grant, wasHealthy: boolean): void {
    this.#failures = wasHealthy ? 1 : this.#failures + 1;
    const { dependency } = this.#question;
    const on = this.#core.link?.pushed.last(dependency) ?? NO_STATE;
    this.#asking = grant.next(FAILURE) ?? this.#first().next({ by: "state", on }, FAILURE);
  }

  giveUp(): void {
    this.#asking.giveUp();
  }

  /** A permit whose delay is over. Only a client for tests is denied one. */
  async permission(): Promise<Grant | Denial> {
    const { now, isTesting, log } = this.#core;
    const { signal, dependency } = this.#question;
    let isOwed = !isTesting && this.#asking.attempt <= this.#failures;
    try {
      for (;;) {
        const grant = await Grant.ask(this.#asking);
        const wasGranted = !isDenial(grant);
        if (wasGranted && isOwed) await this.#sleep(this.#ownDelay());
        const denied = wasGranted ? await grant.wait() : grant;
        if (denied === null) return grant;
        if (isTesting) return denied;
        log.debug("not restarted yet", { dependency, reason: denied.reason });
        if (denied.retryAfter === null) isOwed = false;
        const wait = denied.retryAfter ?? this.#ownDelay();
        await sleepUntil(now() + Math.min(Math.max(wait, WAIT_MIN), WAIT_MAX), now, signal);
        signal?.throwIfAborted();
        // A grant that was given back would be granted again, void.
        if (wasGranted || !mayBeGrantedLater(denied)) this.#asking = this.#first();
      }
    } catch (gaveUp) {
      this.giveUp();
      throw gaveUp;
    }
  }

  #first(): Asking {
    return Asking.first(this.#core, this.#question);
  }

  async #sleep(millis: number): Promise<void> {
    await sleepUntil(this.#core.now() + millis, this.#core.now, this.#question.signal);
  }

  /** Uniform below the policy's ceiling for this restart. */
  #ownDelay(): number {
    return fullJitter(policyOf(this.#core, this.#question.dependency), this.#failures, unit());
  }
}

export function fullJitter({ backoff }: Policy, failures: number, sample: number): number {
  const policy = {
    ...backoff,
    initialDelay: max(backoff.initialDelay, FIRST_CEILING),
    maxDelay: max(backoff.maxDelay, FIRST_CEILING),
    jitter: { kind: "full" as const, proportion: null },
  };
  return Math.min(millisOf(delayOf(policy, failures, 0n, sample)), WAIT_MAX);
}

/** Whether the very same question may have another answer after a while. */
function mayBeGrantedLater({ reason, retryAfter }: Denial): boolean {
  return reason === "BUDGET_EXHAUSTED" || reason === "NO_DECISION" || retryAfter !== null;
}
