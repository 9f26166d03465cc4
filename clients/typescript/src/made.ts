// Under what an attempt is made, and telling how it ended to whoever let it go.

import { create } from "@bufbuild/protobuf";
import type { Core } from "./core.js";
import { isAlone, policyOf, strictnessOf } from "./core.js";
import { name } from "./entropy.js";
import { AcquireRequestSchema, Safety } from "./gen/holdoff/v1/coordinator_pb.js";
import { mayHaveArrived } from "./link/ask.js";
import type { Link } from "./link.js";
import type { Outcome } from "./outcome.js";
import type { LocalPermit } from "./rules/record.js";
import type { OnState } from "./tally.js";
import { writeOutcome } from "./wire/write.js";

export type Made =
  /** A permit of the service. */
  | { readonly by: "fleet"; readonly permit: Uint8Array }
  /** No permit: the service has let first attempts go. */
  | { readonly by: "state"; readonly on: OnState }
  /** A decision of this process. */
  | {
      readonly by: "local";
      readonly permit: LocalPermit;
      /** The epoch that the service had pushed when the attempt began; 0: none. */
      begunIn: bigint;
    };

/**
 * An attempt ended, and no question tells of it. Where it began on pushed state and the service was lost
 * meanwhile it counts here too: of what was under way just then this process decides about the failures,
 * and would see them alone.
 */
export function ended(core: Core, dependency: string, made: Made, outcome: Outcome): void {
  if (made.by === "state" && isAlone(core)) countHere(core, dependency, outcome);
  tell(core, dependency, made, outcome);
}

function countHere(core: Core, dependency: string, outcome: Outcome): void {
  const { local } = core;
  const terms = { policy: policyOf(core, dependency), strictness: strictnessOf(core), timeLeft: null };
  const first = { attempt: 2, outcome, isSafe: true, made: "fleet" as const };
  local.record(dependency).note(terms, first, local.now);
}

function tell(core: Core, dependency: string, made: Made, outcome: Outcome): void {
  const { link, local } = core;
  switch (made.by) {
    case "fleet":
      link?.reports.push(made.permit, outcome);
      break;
    case "local": {
      const terms = { policy: policyOf(core, dependency), strictness: strictnessOf(core) };
      local.record(dependency).report(terms, made.permit, outcome, local.now);
      break;
    }
    case "state":
      if (link !== null) tellOnState(core, link, dependency, made.on, outcome);
      break;
  }
}

/**
 * A tally has no place for a wait that the dependency asked for, and that may hold the whole fleet.
 * Such an outcome goes with a question about a retry that is sure to be denied.
 */
function tellOnState(core: Core, link: Link, dependency: string, on: OnState, outcome: Outcome): void {
  const mayHold = outcome.pushback !== undefined && outcome.kind !== "success";
  if (mayHold) void askInVain(core, link, dependency, on, outcome);
  else link.reports.tally(dependency, on, outcome);
}

async function askInVain(
  core: Core,
  link: Link,
  dependency: string,
  on: OnState,
  outcome: Outcome,
): Promise<void> {
  const request = create(AcquireRequestSchema, {
    dependency,
    attempt: 2,
    // Only what certainly was not sent could be granted, and that is given back.
    safety: Safety.UNSAFE,
    previous: { madeUnder: { case: "epoch", value: on.epoch }, outcome: writeOutcome(outcome) },
    callId: name(),
  });
  link.reports.beginTelling();
  const reply = await link.ask(() => request, core.timeout, undefined);
  if ("response" in reply) link.giveBack(reply.response);
  else if (!mayHaveArrived(reply.no)) link.reports.tally(dependency, on, outcome);
  link.reports.endTelling();
}

/** How the attempt before ended. It is told once, at the latest when nobody asks any more. */
export class Previous {
  readonly outcome: Outcome;
  readonly #core: Core;
  readonly #dependency: string;
  readonly #made: Made;
  #isTold = false;
  #wasHeldBack = false;
  /** The service has pushed a later state: its tally is in no hurry. */
  #isLate = false;
  /** This process has counted a first attempt that the service had let go. */
  #isCountedHere = false;

  constructor(core: Core, dependency: string, made: Made, outcome: Outcome) {
    this.#core = core;
    this.#dependency = dependency;
    this.#made = made;
    this.outcome = outcome;
  }

  tell(): void {
    if (this.#isTold) return;
    this.#isTold = true;
    const { link } = this.#core;
    const isPlain = this.outcome.pushback === undefined;
    if (this.#made.by === "state" && link !== null && this.#isLate && isPlain) {
      link.reports.tallyLate(this.#dependency, this.#made.on, this.outcome);
    } else tell(this.#core, this.#dependency, this.#made, this.outcome);
  }

  /** No question tells it any more, and none is decided here that would count it. */
  giveUp(): void {
    if (!this.#isTold && this.#made.by === "state" && isAlone(this.#core)) {
      countHere(this.#core, this.#dependency, this.outcome);
    }
    this.tell();
  }

  /** The epoch of the pushed state it was made on, once. */
  epochToHoldBack(): bigint | null {
    if (this.#made.by !== "state" || this.#wasHeldBack) return null;
    this.#wasHeldBack = true;
    return this.#made.on.epoch;
  }

  /**
   * It says nothing about what comes now. A call that ends so has it tallied with the rest; one that
   * asks again tells it with the question.
   */
  late(): void {
    this.#isLate = true;
  }

  /** The service has taken it with a question. What was decided here is told here. */
  toldToFleet(): void {
    if (this.#made.by === "local") this.tell();
    this.#isTold = true;
  }

  /**
   * A question with it may have arrived. Nothing tells an outcome without a permit from another one,
   * while a permit counts once whatever is said of it.
   */
  mayBeTold(): void {
    if (this.#made.by === "state") this.#isTold = true;
  }

  /**
   * For the service. An attempt without a permit of its own is told by an epoch: the one whose state it
   * was made on, or the one last heard of when an attempt that was decided here began. So a call that
   * has gone on alone is with the fleet again at its next question, and what failed before a transition
   * does not count after it.
   */
  onTheWire() {
    const outcome = writeOutcome(this.outcome);
    switch (this.#made.by) {
      case "fleet":
        return { madeUnder: { case: "permit" as const, value: this.#made.permit }, outcome };
      case "state":
        return { madeUnder: { case: "epoch" as const, value: this.#made.on.epoch }, outcome };
      case "local":
        return { madeUnder: { case: "epoch" as const, value: this.#made.begunIn }, outcome };
    }
  }

  /** For this process's own record, which counts a first attempt of the service once. */
  here(attempt: number): { readonly made: LocalPermit | "fleet"; readonly isCounted: boolean } {
    if (this.#made.by === "local") return { made: this.#made.permit, isCounted: true };
    const isCounted = this.#isCountedHere;
    if (attempt === 2) this.#isCountedHere = true;
    return { made: "fleet", isCounted };
  }
}
