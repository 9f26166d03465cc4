// The client's breaker on the coordinator itself: a service that is slow or fails must not cost each
// call its timeout.
//
// Three questions in a row without an answer shut it for a jittered 1 to 5 s, during which nothing
// is asked. Then one question is the trial: answered, the gate opens; not, it is shut for twice as
// long, up to 30 s. A denial is an answer. A service that is heard of meanwhile, by a stream that it
// takes, gets its trial at once; but once only, since one that takes streams and answers nothing
// must not be tried more often for it.

import { shutFor } from "./rules/clamp.js";
import { millisOf } from "./rules/time.js";

const FAILURES_TO_SHUT = 3;

/** What is known since the gate was shut. */
interface Past {
  readonly failedTrials: number;
  readonly wasHeard: boolean;
}

type State =
  | { readonly kind: "open"; readonly failures: number }
  | { readonly kind: "shut"; readonly until: number; readonly past: Past }
  | { readonly kind: "trial"; readonly past: Past };

export class Gate {
  #state: State = { kind: "open", failures: 0 };

  /** `null`: decide without asking. */
  enter(now: number): Pass | null {
    const state = this.#state;
    if (state.kind === "open") return new Pass(this, null);
    if (state.kind === "trial" || now < state.until) return null;
    this.#state = { kind: "trial", past: state.past };
    return new Pass(this, state.past);
  }

  /** The service is heard of: the next question may be the trial. */
  heard(now: number): void {
    const state = this.#state;
    if (state.kind !== "shut" || state.past.wasHeard) return;
    const until = Math.min(now, state.until);
    this.#state = { kind: "shut", until, past: { ...state.past, wasHeard: true } };
  }

  get isOpen(): boolean {
    return this.#state.kind === "open";
  }

  /** Until when nothing is asked. `null`: a question may be asked now, or is the trial. */
  shutUntil(now: number): number | null {
    return this.#state.kind === "shut" && now < this.#state.until ? this.#state.until : null;
  }

  /** True: it was shut and is open again. A late answer from before proves as much as a trial. */
  answered(): boolean {
    const wasShut = this.#state.kind !== "open";
    this.#state = { kind: "open", failures: 0 };
    return wasShut;
  }

  /** `unit` is uniform in [0, 1). True: it has just been shut. */
  unanswered(trial: Past | null, now: number, unit: number): boolean {
    const state = this.#state;
    let past: Past;
    if (state.kind === "open") {
      const failures = state.failures + 1;
      if (failures < FAILURES_TO_SHUT) {
        this.#state = { kind: "open", failures };
        return false;
      }
      past = { failedTrials: 0, wasHeard: false };
    } else if (state.kind === "trial" && trial !== null) {
      past = { ...state.past, failedTrials: state.past.failedTrials + 1 };
    } else {
      return false;
    }
    this.#state = { kind: "shut", until: now + millisOf(shutFor(past.failedTrials, unit)), past };
    return true;
  }

  /** A trial that was given up, or never asked: the next one may try. */
  givenUp(trial: Past | null, now: number): void {
    if (trial !== null && this.#state.kind === "trial") {
      this.#state = { kind: "shut", until: now, past: trial };
    }
  }
}

/** Permission to ask one question; exactly one of its methods is called. */
export class Pass {
  readonly #gate: Gate;
  readonly #trial: Past | null;

  get isTrial(): boolean {
    return this.#trial !== null;
  }

  constructor(gate: Gate, trial: Past | null) {
    this.#gate = gate;
    this.#trial = trial;
  }

  answered(): boolean {
    return this.#gate.answered();
  }

  unanswered(now: number, unit: number): boolean {
    return this.#gate.unanswered(this.#trial, now, unit);
  }

  givenUp(now: number): void {
    this.#gate.givenUp(this.#trial, now);
  }
}
