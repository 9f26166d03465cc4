// Permission for one attempt, in two steps: ask, then say how it ended.

import { onAbort } from "./abort.js";
import type { Asking, Terms } from "./asking.js";
import { type Denial, DeniedError, denial } from "./denial.js";
import { ended, type Made } from "./made.js";
import { SettingError } from "./options.js";
import { CANCELLED, type Outcome, type OutcomeKind } from "./outcome.js";
import { useOf, waitFor } from "./rules/clamp.js";
import { millisOf, nanosOf } from "./rules/time.js";
import { sleepUntil } from "./timers.js";
import { isOutcomeKind } from "./wire/write.js";

/** Confirmations and renewals before one attempt; a service that wants more is ill. */
const ROUNDS_MAX = 100;

export function isDenial(answer: Terms | Denial | Grant | null): answer is Denial {
  return answer !== null && "reason" in answer;
}

/** A granted attempt. What callers hold is a {@link Permit} around it. */
export class Grant {
  asking: Asking;
  /** `null`: reported, or void. */
  made: Made | null;
  terms: Terms;
  usableAt: number;
  #confirm: boolean;
  #epoch: bigint | undefined;

  private constructor(asking: Asking, terms: Terms, wait: number) {
    this.asking = asking;
    this.terms = terms;
    this.made = terms.made;
    this.#confirm = terms.confirm;
    this.#epoch = terms.epoch;
    this.usableAt = wait === 0 ? 0 : asking.core.now() + wait;
  }

  /** A delay that does not fit the deadline is not shortened: the permit goes back. */
  static of(asking: Asking, terms: Terms): Grant | Denial {
    const wait = terms.delay === 0 ? 0 : fits(asking, terms.delay);
    const grant = new Grant(asking, terms, typeof wait === "number" ? wait : 0);
    if (typeof wait === "number") {
      grant.#begins();
      return grant;
    }
    grant.report(CANCELLED);
    return wait;
  }

  static async ask(asking: Asking): Promise<Grant | Denial> {
    const answer = asking.settle() ?? (await asking.ask());
    return isDenial(answer) ? answer : Grant.of(asking, answer);
  }

  get delay(): number {
    return this.usableAt === 0 ? 0 : Math.max(this.usableAt - this.asking.core.now(), 0);
  }

  get isLocal(): boolean {
    return this.terms.made.by === "local";
  }

  /** How long the attempt may take from now; Infinity: nothing limits it. */
  get limit(): number {
    const { question, deadline, core } = this.asking;
    const lease = this.#leaseEnds;
    const end = Math.min(deadline, lease);
    const left = end === Number.POSITIVE_INFINITY ? end : Math.max(end - core.now(), 0);
    return Math.min(question.attemptTimeout, left);
  }

  /** It may be used at once. */
  get isReady(): boolean {
    return this.usableAt === 0 && !this.#confirm && !this.#isOver && this.asking.timeLeft !== 0;
  }

  /**
   * Waits for the delay, and makes sure that the permit still holds then. Where it does not, it has
   * been given back. `renewed` is the permit to use where its life was over before its delay.
   */
  async wait(): Promise<Denial | null> {
    if (this.isReady) {
      this.#begins();
      return null;
    }
    try {
      const no = await this.#waited();
      if (no === null) this.#begins();
      else this.report(CANCELLED);
      return no;
    } catch (gaveUp) {
      this.report(CANCELLED);
      throw gaveUp;
    }
  }

  report(outcome: Outcome): void {
    const { made, asking } = this;
    this.made = null;
    if (made !== null) ended(asking.core, asking.question.dependency, made, outcome);
  }

  /** `null`: it was reported already. */
  next(outcome: Outcome): Asking | null {
    const { made } = this;
    this.made = null;
    return made === null ? null : this.asking.next(made, outcome);
  }

  async #waited(): Promise<Denial | null> {
    for (let round = 0; round < ROUNDS_MAX; round++) {
      const dropped = await this.#sleep();
      if (dropped !== null) return dropped;
      const late = fits(this.asking, 0);
      if (typeof late === "object") return late;
      if (this.#isOver) {
        const denied = await this.#renew();
        if (denied !== null) return denied;
        continue;
      }
      if (!this.#confirm || this.#isKnownToHold) return null;
      const denied = await this.#confirmed();
      if (denied !== null) return denied;
      if (!this.#confirm && this.delay === 0) return null;
    }
    return denial("caller", "UNREADABLE", "the service went on to ask for confirmations");
  }

  /** Until the end of the delay, or until the breaker trips. */
  async #sleep(): Promise<Denial | null> {
    const { core, question, attempt } = this.asking;
    const { signal, dependency } = question;
    const pushed = core.link?.pushed;
    const epoch = this.#epoch;
    if (pushed === undefined || epoch === undefined) {
      await sleepUntil(this.usableAt, core.now, signal);
      signal?.throwIfAborted();
      return null;
    }
    const tripped = new AbortController();
    let dropped: Denial | null = null;
    const look = () => {
      dropped ??= pushed.dropped(dependency, epoch, attempt);
      if (dropped !== null) tripped.abort();
    };
    const stopListening = pushed.listen(look);
    const stop = () => tripped.abort();
    const stopHearing = onAbort(signal, stop);
    look();
    if (signal?.aborted) stop();
    await sleepUntil(this.usableAt, core.now, tripped.signal);
    stopListening();
    stopHearing();
    signal?.throwIfAborted();
    return dropped;
  }

  /** Its life was over before its delay, as after a suspend: it goes back, and is asked for anew. */
  async #renew(): Promise<Denial | null> {
    this.report(CANCELLED);
    const again = await Grant.ask(this.asking);
    if (isDenial(again)) return again;
    this.#become(again.terms, again.usableAt);
    return null;
  }

  async #confirmed(): Promise<Denial | null> {
    this.#confirm = false;
    const { made } = this;
    if (made === null) return null;
    const answer = await this.asking.confirm(made, this.#epoch);
    if (answer === null) return null;
    if ("denied" in answer) {
      if (answer.isVoid) this.made = null;
      return answer.denied;
    }
    const { terms } = this;
    const isSamePermit = answer.made.by === "fleet" && answer.made.permit.length === 0;
    const lives = answer.lives === Number.POSITIVE_INFINITY ? terms.lives : answer.lives;
    const wait = fits(this.asking, answer.delay);
    const kept = { ...answer, made: isSamePermit ? made : answer.made, lives };
    const usableAt = this.asking.core.now() + (typeof wait === "number" ? wait : 0);
    this.#become({ ...kept, confirm: answer.confirm && answer.delay > 0 }, usableAt);
    return typeof wait === "number" ? null : wait;
  }

  #become(terms: Terms, usableAt: number): void {
    this.terms = terms;
    this.made = terms.made;
    this.usableAt = usableAt;
    this.#confirm = terms.confirm;
    this.#epoch = terms.epoch ?? this.#epoch;
  }

  /**
   * The attempt is made now, as far as is known here: what was decided locally belongs to the epoch that
   * the service has pushed by now.
   */
  #begins(): void {
    if (this.made?.by !== "local") return;
    const { core, question } = this.asking;
    this.made.begunIn = core.link?.pushed.last(question.dependency)?.epoch ?? 0n;
  }

  get #isOver(): boolean {
    const since = this.usableAt === 0 ? this.terms.askedAt : this.usableAt;
    return (
      this.terms.lives !== Number.POSITIVE_INFINITY && this.asking.core.now() - since >= this.terms.lives
    );
  }

  /** What the service pushes stands for a confirmation. */
  get #isKnownToHold(): boolean {
    const { core, question } = this.asking;
    return (
      this.#epoch !== undefined && (core.link?.pushed.standsBy(question.dependency, this.#epoch) ?? false)
    );
  }

  get #leaseEnds(): number {
    const { isProbe, lives, askedAt } = this.terms;
    if (!isProbe || lives === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY;
    return askedAt + millisOf(useOf(nanosOf(lives)));
  }
}

/** The wait, or that there is no time for it. */
function fits(asking: Asking, delay: number): number | Denial {
  const { timeLeft } = asking;
  const wait = waitFor(nanosOf(delay), timeLeft === null ? null : nanosOf(timeLeft));
  if (wait !== null) return millisOf(wait);
  const detail = `it would begin in ${Math.round(delay)} ms, and ${Math.round(timeLeft ?? 0)} ms are left`;
  return denial("caller", "DEADLINE", detail);
}

/**
 * Permission for one attempt. Give it back with `report`, `retry` or `drop`: the service takes one
 * of which it hears no more for an attempt that timed out.
 */
export class Permit {
  readonly #grant: Grant;

  /** @internal */
  constructor(grant: Grant) {
    this.#grant = grant;
  }

  /** Which attempt it is for: 1 for the first call. */
  get attempt(): number {
    return this.#grant.asking.attempt;
  }

  /** How long to wait before the attempt, from now, in milliseconds. {@link wait} does it. */
  get delay(): number {
    return this.#grant.delay;
  }

  /** It tests a dependency that is thought broken. */
  get isProbe(): boolean {
    return this.#grant.terms.isProbe;
  }

  /** It was granted without the service. */
  get isLocal(): boolean {
    return this.#grant.isLocal;
  }

  /**
   * How long the attempt may take from now, in milliseconds: to the caller's deadline and limit, and
   * for a probe to a margin before its lease ends. `Infinity`: nothing limits it.
   */
  get limit(): number {
    return this.#grant.limit;
  }

  /** A limit that the service finds sensible, in milliseconds; it does not bind. */
  get suggestedTimeout(): number | undefined {
    return this.#grant.terms.suggestedTimeout;
  }

  /**
   * Waits for the delay, and makes sure that the permit still holds then: drops it as soon as the
   * service pushes that the breaker has tripped, and asks once more where the grant said so.
   *
   * @throws {DeniedError} It holds no more, or the deadline has passed.
   */
  async wait(): Promise<this> {
    const denied = await this.#grant.wait();
    if (denied !== null) throw new DeniedError(denied);
    return this;
  }

  /** Says how the attempt ended. Once: a second word is not heard. */
  report(outcome: Outcome | OutcomeKind): void {
    this.#grant.report(asOutcome(outcome));
  }

  /**
   * Says how the attempt ended, and asks for the next one.
   *
   * @throws {DeniedError} There is no next attempt.
   */
  async retry(outcome: Outcome | OutcomeKind): Promise<Permit> {
    const asking = this.#grant.next(asOutcome(outcome));
    if (asking === null) throw new DeniedError(denial("caller", "PERMIT_VOID", "it was reported already"));
    return permitFor(asking);
  }

  /** Gives it up: the attempt counts as cancelled. */
  drop(): void {
    this.#grant.report(CANCELLED);
  }
}

/** @throws {DeniedError} */
export async function permitFor(asking: Asking): Promise<Permit> {
  try {
    const grant = await Grant.ask(asking);
    if (isDenial(grant)) throw new DeniedError(grant);
    return new Permit(grant);
  } catch (error) {
    asking.giveUp();
    throw error;
  }
}

function asOutcome(outcome: Outcome | OutcomeKind): Outcome {
  const read = typeof outcome === "string" ? { kind: outcome } : outcome;
  if (!isOutcomeKind(read?.kind)) throw new SettingError("outcome.kind", read?.kind, "a kind of outcome");
  return read;
}
