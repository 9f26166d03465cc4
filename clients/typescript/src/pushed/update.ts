// One update of the service, read. It is never mended by a default that lets a call go: what cannot
// be read is "ask". Times are milliseconds of the client's clock.

import { type Denial, type DenialReason, denial } from "../denial.js";
import { BreakerState, FirstAttempts, type Update } from "../gen/holdoff/v1/coordinator_pb.js";
import type { Policy } from "../rules/policy.js";
import { millisOf } from "../rules/time.js";
import type { OnState } from "../tally.js";
import { readDuration } from "../wire/duration.js";
import { isKnown } from "../wire/read.js";
import { readPolicy } from "./policy.js";

/** Nothing is relied on for longer without being said again. */
const VALID_MAX = 300_000;

/** What to do with a first attempt: make it without a permit, fail it, or ask. */
export type Word = OnState | Denial | null;

/** What is asked about: a first attempt, or a retry. */
export type Sought = "first" | "extra";

type Said = Pick<Update, "policy" | "offlineAllowance">;

export class Heard implements OnState {
  readonly state: BreakerState;
  readonly epoch: bigint;
  readonly firstAttempts: FirstAttempts;
  /** Not later than when it was heard: there is nothing to rely on. */
  readonly validUntil: number;
  readonly slowAfter: number;
  readonly policy: Policy;
  /** Clients that share the allowance; 0: it was not said. */
  readonly knownClients: number;

  constructor(update: Said & Partial<Update>, own: Policy, now: number) {
    this.state = update.state ?? BreakerState.UNSPECIFIED;
    this.epoch = update.epoch ?? 0n;
    this.firstAttempts = firstAttemptsOf(this.state, update.firstAttempts ?? FirstAttempts.UNSPECIFIED);
    this.validUntil = now + validFor(update.validFor);
    this.policy = readPolicy(update.policy, update.offlineAllowance, own);
    this.knownClients = update.offlineAllowance?.knownClients ?? 0;
    this.slowAfter = millisOf(this.policy.slowAfter);
  }

  get isOpen(): boolean {
    return this.state === BreakerState.OPEN || this.state === BreakerState.FORCED_OPEN;
  }

  get isClosed(): boolean {
    return this.state === BreakerState.CLOSED || this.state === BreakerState.FORCED_CLOSED;
  }

  word(now: number): Word {
    if (now >= this.validUntil) return null;
    switch (this.firstAttempts) {
      case FirstAttempts.GO:
        return this;
      case FirstAttempts.REFUSE:
        return this.denial(now);
      default:
        return null;
    }
  }

  /**
   * Why an attempt that was granted in `epoch`, and waits for the end of its delay, is given up.
   * `null`: the service has not said so, or not said it validly.
   */
  dropped(epoch: bigint, attempt: number, now: number): Denial | null {
    const hasTripped = this.isOpen && this.epoch > epoch && now < this.validUntil;
    const binds = attempt > 1 || this.firstAttempts === FirstAttempts.REFUSE;
    return hasTripped && binds ? this.denial(now) : null;
  }

  /**
   * Why there is no retry of an attempt made on the state of `epoch`. `null`: the service has not said
   * so since, or not said it validly.
   */
  refusedSince(epoch: bigint, now: number): Denial | null {
    const refuses = this.isOpen || this.firstAttempts === FirstAttempts.REFUSE;
    return refuses && this.epoch > epoch && now < this.validUntil ? this.denial(now) : null;
  }

  /**
   * Why a question that the service does not answer is denied all the same: what it said before still
   * stands, said in the epoch `since` or later. `null`: the client decides.
   */
  refusedAlone(sought: Sought, since: bigint | null, now: number): Denial | null {
    const refuses = this.isOpen || this.firstAttempts === FirstAttempts.REFUSE;
    const isLetGo = sought === "first" && this.firstAttempts === FirstAttempts.GO;
    const stands = now < this.validUntil && (since === null || this.epoch >= since);
    return refuses && !isLetGo && stands ? this.denial(now) : null;
  }

  /** Whether the service is known to stand by what it granted in `epoch`. */
  standsBy(epoch: bigint, now: number): boolean {
    const refuses = this.firstAttempts === FirstAttempts.REFUSE;
    return this.isClosed && this.epoch === epoch && !refuses && now < this.validUntil;
  }

  /** A refusal that nobody explains otherwise is a hold. */
  denial(now: number): Denial {
    const left = this.validUntil - now;
    const detail = `as pushed to this client; ask again in ${Math.round(left)} ms`;
    return denial("fleet", REASONS[this.state] ?? "HELD", detail, left);
  }
}

const REASONS: Partial<Record<BreakerState, DenialReason>> = {
  [BreakerState.OPEN]: "BREAKER_OPEN",
  [BreakerState.FORCED_OPEN]: "FORCED_OPEN",
};

/** A state that this client does not know may mean anything, so it asks. */
function firstAttemptsOf(state: BreakerState, said: FirstAttempts): FirstAttempts {
  return isKnown(state, 1, 6) && isKnown(said, 0, 3) ? said : FirstAttempts.ASK;
}

function validFor(said: Update["validFor"]): number {
  const read = readDuration(said);
  return read === null || read === "bad" ? 0 : Math.min(millisOf(read), VALID_MAX);
}
