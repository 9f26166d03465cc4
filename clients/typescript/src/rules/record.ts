// One dependency as one process knows it: a breaker with one probe at a time, and a retry budget.
// The rules of the service over the evidence of a single caller, without what plans the calls of
// many (calendar, ramp, rate, shares). Formulas and order: docs/vectors.md, "local".
//
// Nothing here reads a clock or draws a number, so the same steps give the same answers in all
// languages.

import type { Denial, DenialReason } from "../denial.js";
import type { Outcome } from "../outcome.js";
import { delayOf } from "./backoff.js";
import { BudgetCounts } from "./budget.js";
import { Detector } from "./detector.js";
import type { Policy } from "./policy.js";
import { refusesRetry } from "./settled.js";
import {
  add,
  fromDouble,
  MILLISECOND,
  max,
  millisOf,
  min,
  type Nanos,
  nanosOf,
  part,
  SECOND,
  subtract,
} from "./time.js";

const PROBE_LEASE = 5n * SECOND;
const PROBE_SUCCESSES = 2;
const BREAKER_SPREAD = 2n * SECOND;
const HEALTHY_RESET = 60n * SECOND;
const CONFIRM_ABOVE = SECOND;
const LEVEL_MAX = 64;
/** What the fleet said is kept no longer than this without being said again. */
const TOLD_MAX = 300n * SECOND;
const BINDS_ALL: ReadonlySet<DenialReason> = new Set(["BREAKER_OPEN", "FORCED_OPEN", "HELD", "CALLER_FAULT"]);

/** One attempt that was granted here. */
export interface LocalPermit {
  epoch: number;
  readonly grantedAt: Nanos;
  readonly delay: Nanos;
  /** 0 of a first attempt. */
  readonly retry: number;
  /** Its lease, where it is a probe. */
  leaseEnds: Nanos | null;
  /** Its outcome was taken, or it is void. */
  isSpent: boolean;
}

/** Uniform in [0, 1). */
export interface Draws {
  readonly jitter: number;
  readonly spread: number;
}

/**
 * How much of the rules binds: `own-record` nothing that the fleet denied, since it has let this attempt
 * go; `retries-only` knows no breaker either.
 */
export type Strictness = "all" | "own-record" | "retries-only";

interface Binding {
  readonly policy: Policy;
  readonly strictness: Strictness;
}

export interface Terms extends Binding {
  readonly timeLeft: Nanos | null;
}

export interface Retry {
  readonly attempt: number;
  readonly outcome: Outcome;
  readonly isSafe: boolean;
  /** What the attempt before was granted as; `fleet`: not here. */
  readonly made: LocalPermit | "fleet";
  /** The attempt before was counted here already, with an earlier question. */
  readonly isCounted?: boolean;
}

export type LocalAnswer = LocalGrant | LocalDenial;

export interface LocalGrant {
  readonly permit: LocalPermit;
  readonly delay: Nanos;
  readonly probe: boolean;
  /** Ask again at the end of the delay. */
  readonly confirm: boolean;
}

export interface LocalDenial {
  readonly reason: DenialReason;
  readonly retryAfter: Nanos | null;
}

interface Told {
  readonly reason: DenialReason;
  readonly until: Nanos;
}

export class LocalRecord {
  #phase: "closed" | "open" | "half-open" = "closed";
  #epoch = 1;
  #since: Nanos;
  #level = 0;
  #openUntil: Nanos = 0n;
  #good = 0;
  #leases: LocalPermit[] = [];
  #told: Told | null = null;
  readonly #detector = new Detector();
  readonly #budget = new BudgetCounts();
  /** The last question or report. */
  touched: Nanos;

  constructor(now: Nanos) {
    this.#since = now;
    this.touched = now;
  }

  first(terms: Terms, now: Nanos, draws: Draws): LocalAnswer {
    this.touched = now;
    return this.#heed(terms, now) ?? this.#decide(terms, null, now, draws);
  }

  /** The outcome before counts, whatever the answer is. */
  retry(terms: Terms, retry: Retry, now: Nanos, draws: Draws): LocalAnswer {
    this.touched = now;
    this.#takePrevious(terms, retry, now);
    const told = this.#heed(terms, now);
    if (told !== null) return told;
    const { attempt, isSafe, outcome } = retry;
    const refused = refusesRetry(attempt, terms.policy.maxAttempts, isSafe, outcome);
    if (refused !== null) return denied(refused);
    return this.#decide(terms, retry, now, draws);
  }

  /** How the attempt before ended, of a question that was answered already. */
  note(terms: Terms, retry: Retry, now: Nanos): void {
    this.touched = now;
    this.#takePrevious(terms, retry, now);
  }

  /** At the end of a delay: the breaker and the deadline alone are looked at again. */
  confirm(terms: Terms, permit: LocalPermit, now: Nanos, spread: number): LocalAnswer {
    this.touched = now;
    if (permit.isSpent) return denied("PERMIT_VOID");
    const holdsLease = permit.leaseEnds !== null && now < permit.leaseEnds;
    const breaker = holdsLease ? "probe" : this.#look(terms, now, spread);
    const no = this.#heed(terms, now) ?? (typeof breaker === "object" ? breaker : lateBy(terms, 0n));
    if (no !== null) {
      permit.isSpent = true;
      this.#endLease(permit);
      if (permit.retry > 0) this.#budget.giveBack(terms.policy.budget, permit.grantedAt, now);
      return no;
    }
    if (breaker === "probe" && !holdsLease) this.#lease(permit, now);
    permit.epoch = this.#epoch;
    return { permit, delay: 0n, probe: breaker === "probe", confirm: false };
  }

  /** How an attempt ended; once, however often it is said. */
  report(terms: Binding, permit: LocalPermit, outcome: Outcome, now: Nanos): void {
    this.touched = now;
    const lease = permit.leaseEnds;
    this.#endLease(permit);
    if (permit.isSpent) return;
    permit.isSpent = true;
    if (permit.epoch !== this.#epoch || (lease !== null && now >= lease)) return;
    this.#take(terms, outcome, lease !== null, now);
  }

  /** What the service said, for the time when it no longer says anything. */
  tell({ reason, retryAfter }: Pick<Denial, "reason" | "retryAfter">, now: Nanos): void {
    if (!BINDS_ALL.has(reason)) return;
    const lasts = retryAfter === null ? TOLD_MAX : min(nanosOf(retryAfter), TOLD_MAX);
    this.#told = { reason, until: add(now, lasts) };
  }

  /**
   * The service has let an attempt go: what it said before is over, and so is what this process's own
   * breaker, which knew less, made of the failures before.
   */
  letGo(now: Nanos): void {
    this.#told = null;
    if (this.#phase === "closed") return;
    this.#level = 0;
    this.#become("closed", now);
  }

  #heed({ strictness }: Terms, now: Nanos): LocalDenial | null {
    if (strictness !== "all" || this.#told === null) return null;
    if (now < this.#told.until) return denied(this.#told.reason, this.#told.until - now);
    this.#told = null;
    return null;
  }

  #takePrevious(terms: Terms, { made, attempt, outcome, isCounted }: Retry, now: Nanos): void {
    if (made !== "fleet") {
      this.report(terms, made, outcome, now);
      return;
    }
    if (attempt !== 2 || isCounted) return;
    this.#budget.deposit(terms.policy.budget, now);
    this.#take(terms, outcome, false, now);
  }

  #decide(terms: Terms, retry: Retry | null, now: Nanos, draws: Draws): LocalAnswer {
    const { policy } = terms;
    const breaker = this.#look(terms, now, draws.spread);
    if (typeof breaker === "object") return breaker;
    const isProbe = breaker === "probe";
    const pushback = nanosOf(retry?.outcome.pushback ?? 0);
    const spreadPushback = add(pushback, part(policy.pushbackSpread, draws.spread));
    if (pushback > policy.pushbackMax) return denied("PUSHBACK_TOO_LONG", spreadPushback);
    if (isProbe && pushback > 0n) return denied("HELD", spreadPushback);
    const number = retry === null ? 0 : retryNumber(retry);
    let delay = 0n;
    if (retry !== null && !isProbe) {
      const before = retry.made === "fleet" ? 0n : retry.made.delay;
      delay = delayOf(policy.backoff, number, before, draws.jitter);
      if (pushback > 0n && pushback >= delay) delay = spreadPushback;
    }
    const late = lateBy(terms, delay);
    if (late !== null) return late;
    if (retry === null) this.#budget.deposit(policy.budget, now);
    else if (!this.#budget.take(policy.budget, now)) return denied("BUDGET_EXHAUSTED");
    const permit: LocalPermit = {
      epoch: this.#epoch,
      grantedAt: now,
      delay,
      retry: number,
      leaseEnds: null,
      isSpent: false,
    };
    if (isProbe) this.#lease(permit, now);
    return { permit, delay, probe: isProbe, confirm: delay > CONFIRM_ABOVE };
  }

  /** What the breaker says to an attempt now. Looking changes nothing. */
  #look(terms: Terms, now: Nanos, spread: number): LocalDenial | "probe" | "pass" {
    if (!hasBreaker(terms) || this.#phase === "closed") return "pass";
    if (this.#phase === "open" && now < this.#openUntil) {
      return denied("BREAKER_OPEN", add(this.#openUntil - now, part(BREAKER_SPREAD, spread)));
    }
    const end = this.#leases.reduce((latest, { leaseEnds }) => max(latest, leaseEnds ?? 0n), 0n);
    if (now >= end) return "probe";
    const wait = part(add(end - now, BREAKER_SPREAD), spread);
    return denied("PROBE_IN_PROGRESS", max(wait, MILLISECOND));
  }

  #lease(permit: LocalPermit, now: Nanos): void {
    if (this.#phase === "open") {
      this.#become("half-open", now);
      this.#good = 0;
    }
    permit.epoch = this.#epoch;
    permit.leaseEnds = add(now, PROBE_LEASE);
    this.#leases = this.#leases.filter(({ leaseEnds }) => (leaseEnds ?? 0n) > now);
    this.#leases.push(permit);
  }

  #endLease(permit: LocalPermit): void {
    if (permit.leaseEnds === null) return;
    permit.leaseEnds = null;
    this.#leases = this.#leases.filter((other) => other !== permit);
  }

  #take(terms: Binding, { kind }: Outcome, isProbe: boolean, now: Nanos): void {
    if (!hasBreaker(terms)) return;
    const { policy } = terms;
    const isBad = kind === "failure" || kind === "timeout" || kind === "not_sent";
    if (!isBad && kind !== "success") return;
    if (this.#phase === "half-open" && isProbe) {
      if (isBad) this.#open(policy, now);
      else if (++this.#good >= PROBE_SUCCESSES) this.#become("closed", now);
    } else if (this.#phase === "closed") {
      const trips = this.#detector.record(isBad ? 0 : 1, isBad ? 1 : 0, now);
      if (!trips) return;
      if (subtract(now, this.#since) >= HEALTHY_RESET) this.#level = 0;
      this.#open(policy, now);
    }
  }

  #open({ openFor, openMultiplier, openMax }: Policy, now: Nanos): void {
    let period = Number(openFor);
    for (let step = 0; step < Math.min(this.#level, LEVEL_MAX); step++) period *= openMultiplier;
    this.#openUntil = add(now, min(fromDouble(period), openMax));
    this.#level += 1;
    this.#become("open", now);
  }

  #become(phase: "closed" | "open" | "half-open", now: Nanos): void {
    this.#phase = phase;
    this.#epoch += 1;
    this.#since = now;
    this.#detector.clear();
  }
}

function hasBreaker({ policy, strictness }: Binding): boolean {
  return strictness !== "retries-only" && !policy.breakerOff;
}

function retryNumber({ attempt, outcome, made }: Retry): number {
  if (outcome.pushback !== undefined && outcome.pushbackRestartsBackoff) return 1;
  return made === "fleet" ? attempt - 1 : made.retry + 1;
}

function lateBy({ policy, timeLeft }: Terms, delay: Nanos): LocalDenial | null {
  const isLate = timeLeft !== null && add(delay, policy.minAttemptTime) >= timeLeft;
  return isLate ? denied("DEADLINE") : null;
}

function denied(reason: DenialReason, retryAfter: Nanos | null = null): LocalDenial {
  return { reason, retryAfter };
}

/** As a caller sees it. */
export function asDenial({ reason, retryAfter }: LocalDenial): Denial {
  return { reason, by: "local", retryAfter: retryAfter === null ? null : millisOf(retryAfter), detail: "" };
}
