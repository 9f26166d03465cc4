// One question about one attempt: what needs no service, then what the service has pushed, then the
// service, then what this process knows itself.

import { create } from "@bufbuild/protobuf";
import { type Core, isAlone, policyOf, strictnessOf } from "./core.js";
import { type Denial, denial } from "./denial.js";
import { name } from "./entropy.js";
import { type AcquireRequest, AcquireRequestSchema } from "./gen/holdoff/v1/coordinator_pb.js";
import { holdBack } from "./heldback.js";
import { mayHaveArrived, type NoAnswer, noAnswerText } from "./link/ask.js";
import type { Link } from "./link.js";
import { draws } from "./local.js";
import { type Made, Previous } from "./made.js";
import type { Outcome } from "./outcome.js";
import type { Question } from "./question.js";
import { asDenial, type LocalAnswer } from "./rules/record.js";
import { settled } from "./rules/settled.js";
import { millisOf, nanosOf } from "./rules/time.js";
import { writeDuration } from "./wire/duration.js";
import { type Denied, type Granted, readAnswer, type Unreadable } from "./wire/read.js";
import { PRIORITIES, SAFETIES } from "./wire/write.js";

/** What was granted, by whomever. Times are milliseconds. */
export interface Terms {
  readonly made: Made;
  readonly delay: number;
  /** From the end of `delay`. */
  readonly lives: number;
  readonly isProbe: boolean;
  readonly confirm: boolean;
  readonly suggestedTimeout: number | undefined;
  /** In which the service granted it. */
  readonly epoch: bigint | undefined;
  /** Taken before the question was sent, so that a lease never seems longer than it is. */
  readonly askedAt: number;
}

/** An attempt that was granted may not be made any more. */
export interface Unconfirmed {
  readonly denied: Denial;
  /** Its permit is void; otherwise it is to be given back. */
  readonly isVoid: boolean;
}

type Answer = Granted | Denied | NoDecision;

/** The service decided nothing. */
interface NoDecision {
  readonly kind: "none";
  readonly why: NoAnswer | Unreadable | null;
}

const UNASKED: NoDecision = { kind: "none", why: null };
const IDLE_ANSWER_LIFE = Number.POSITIVE_INFINITY;

export class Asking {
  readonly core: Core;
  readonly question: Question;
  /** On the client's clock; Infinity: none. */
  readonly deadline: number;
  readonly attempt: number;
  readonly #previous: Previous | null;
  /** Drawn only where a question is asked: most calls on pushed state never need it. */
  #callId: string | undefined;

  private constructor(
    core: Core,
    question: Question,
    deadline: number,
    attempt: number,
    callId: string | undefined,
    previous: Previous | null,
  ) {
    this.core = core;
    this.question = question;
    this.deadline = deadline;
    this.attempt = attempt;
    this.#callId = callId;
    this.#previous = previous;
  }

  static first(core: Core, question: Question): Asking {
    const { deadline, callId } = question;
    const end = deadline === Number.POSITIVE_INFINITY ? deadline : core.now() + deadline;
    return new Asking(core, question, end, 1, callId, null);
  }

  /** About the attempt after this one, which ended so. */
  next(made: Made, outcome: Outcome): Asking {
    const { core, question, deadline } = this;
    const previous = new Previous(core, question.dependency, made, outcome);
    return new Asking(core, question, deadline, this.attempt + 1, this.#id, previous);
  }

  /** As a call of its own, unless the caller has named it. */
  rename(): void {
    this.#callId = this.question.callId;
  }

  /** `null`: there is no end. */
  get timeLeft(): number | null {
    return this.deadline === Number.POSITIVE_INFINITY ? null : Math.max(this.deadline - this.core.now(), 0);
  }

  /** What needs no answer of anybody. `null`: ask. Throws where the caller has given it up. */
  settle(): Terms | Denial | null {
    const { core, question, attempt } = this;
    question.signal?.throwIfAborted();
    const before = this.#previous?.outcome ?? null;
    const refused = settled(attempt, question.maxAttempts, question.safety, before, this.timeLeft);
    if (refused !== null) {
      this.giveUp();
      return denial("caller", refused);
    }
    if (attempt > 1 || core.link === null) return null;
    const word = core.link.pushed.word(question.dependency);
    if (word === null) return null;
    if ("reason" in word) {
      core.counting.pushedDenials += 1;
      return word;
    }
    if (isAlone(core)) return this.#letGoAlone(core.link);
    core.counting.pushedGrants += 1;
    return {
      made: { by: "state", on: word },
      delay: 0,
      lives: IDLE_ANSWER_LIFE,
      isProbe: false,
      confirm: false,
      suggestedTimeout: undefined,
      epoch: undefined,
      askedAt: 0,
    };
  }

  /** For what is not settled. Throws where the caller gives it up. */
  async ask(): Promise<Terms | Denial> {
    const { core, question } = this;
    const held = this.#previous === null ? 0 : await holdBack(core, question, this.#previous, this.timeLeft);
    if (typeof held === "object") return held;
    if (held > 0 && this.timeLeft === 0) {
      this.giveUp();
      return denial("caller", "DEADLINE");
    }
    const askedAt = core.now();
    const answer = await this.#askFleet(undefined);
    switch (answer.kind) {
      case "granted":
        this.#previous?.toldToFleet();
        core.local.letGo(question.dependency);
        return less(termsOf(answer, askedAt), held);
      case "denied":
        this.#previous?.toldToFleet();
        core.local.remember(question.dependency, answer.denial);
        return answer.denial;
      case "none":
        return less(this.#askNobody(answer, askedAt), held);
    }
  }

  /** Whether a granted attempt may still be made. `null`: nobody says that it may not. */
  async confirm(made: Made, epoch: bigint | undefined): Promise<Terms | Unconfirmed | null> {
    const { core, question } = this;
    const askedAt = core.now();
    if (made.by === "state") return null;
    if (made.by === "local") {
      const refused = this.#refusedAlone(null);
      if (refused !== null) return { denied: refused, isVoid: false };
      const { local } = core;
      const record = local.record(question.dependency);
      const answer = record.confirm(this.#terms(), made.permit, local.now, draws().spread);
      const counted = this.#counted(answer, askedAt);
      return "reason" in counted ? { denied: counted, isVoid: true } : counted;
    }
    const answer = await this.#askFleet(made.permit);
    switch (answer.kind) {
      case "granted":
        return termsOf(answer, askedAt);
      case "denied":
        core.local.remember(question.dependency, answer.denial);
        return { denied: answer.denial, isVoid: true };
      case "none": {
        const denied = isWithoutDelay(answer) ? unreadable() : this.#unconfirmed(epoch ?? null);
        return denied === null ? null : { denied, isVoid: false };
      }
    }
  }

  /** The outcome before has no question to go with any more. */
  giveUp(): void {
    this.#previous?.giveUp();
  }

  get #id(): string {
    this.#callId ??= name();
    return this.#callId;
  }

  async #askFleet(confirm: Uint8Array | undefined): Promise<Answer> {
    const { core, question } = this;
    if (core.link === null) return UNASKED;
    const reply = await core.link.ask(() => this.#request(confirm), core.timeout, question.signal);
    if ("no" in reply && reply.no.kind === "abandoned") {
      if (confirm === undefined) {
        if (mayHaveArrived(reply.no)) this.#previous?.mayBeTold();
        this.giveUp();
      }
      question.signal?.throwIfAborted();
    }
    const answer = "response" in reply ? readAnswer(reply.response) : reply.no;
    if (answer.kind === "granted" || answer.kind === "denied") {
      core.counting.answered += 1;
      return answer;
    }
    core.counting.noDecision += 1;
    const why = answer.kind === "unreadable" ? answer.why : noAnswerText(answer);
    core.log.debug("no decision", { dependency: question.dependency, why });
    return { kind: "none", why: answer };
  }

  #request(confirm: Uint8Array | undefined): AcquireRequest {
    const { question, attempt, timeLeft } = this;
    const previous = confirm === undefined ? this.#previous?.onTheWire() : undefined;
    return create(AcquireRequestSchema, {
      dependency: question.dependency,
      attempt: Math.min(attempt, 2 ** 32 - 1),
      safety: SAFETIES[question.safety],
      priority: PRIORITIES[question.priority],
      cost: question.cost,
      callId: this.#id,
      ...(timeLeft === null ? {} : { timeLeft: writeDuration(timeLeft) }),
      ...(previous === undefined ? {} : { previous }),
      ...(confirm === undefined ? {} : { confirm }),
    });
  }

  /**
   * The service has let first attempts go and is not at hand any more. This process decides about what
   * fails, so that all that ends is to count here, and its record says whether the attempt is made. What
   * the service denied besides does not bind it, as it would not with the service at hand. No question
   * looks for the service where all goes well.
   */
  #letGoAlone(link: Link): Terms | Denial {
    link.seek();
    const { core, question } = this;
    const { local } = core;
    const terms = { ...this.#terms(), strictness: "own-record" as const };
    const decided = local.record(question.dependency).first(terms, local.now, draws());
    return this.#counted(decided, core.now());
  }

  #askNobody(answer: NoDecision, askedAt: number): Terms | Denial {
    this.#tellAfter(answer.why);
    if (isWithoutDelay(answer) && this.attempt > 1) return unreadable();
    const refused = this.#isExhausted ? null : this.#refusedAlone(null);
    if (refused !== null) {
      this.#noteHere();
      return refused;
    }
    if (this.core.link !== null && this.core.onNoDecision === "deny") return undecided();
    const { local } = this.core;
    const record = local.record(this.question.dependency);
    const decided =
      this.#previous === null
        ? record.first(this.#terms(), local.now, draws())
        : record.retry(this.#terms(), this.#retry(this.#previous), local.now, draws());
    return this.#counted(decided, askedAt);
  }

  /** More attempts than the policy allows are refused for that, since it is final. */
  get #isExhausted(): boolean {
    const { maxAttempts } = policyOf(this.core, this.question.dependency);
    return this.attempt > 1 && maxAttempts !== null && this.attempt > maxAttempts;
  }

  /** The service gives no answer, and does not need to: what it has pushed, `since` this epoch, stands. */
  #refusedAlone(since: bigint | null): Denial | null {
    const sought = this.attempt > 1 ? "extra" : "first";
    const refused = this.core.link?.pushed.refusedAlone(this.question.dependency, sought, since) ?? null;
    if (refused !== null) this.core.counting.pushedDenials += 1;
    return refused;
  }

  /** What is made of a confirmation that nobody answers. */
  #unconfirmed(epoch: bigint | null): Denial | null {
    return this.#refusedAlone(epoch) ?? (this.core.onNoDecision === "deny" ? undecided() : null);
  }

  /** What the attempt before showed counts for this process, whoever has answered. */
  #noteHere(): void {
    const { core, question } = this;
    if (this.#previous === null || core.onNoDecision === "deny") return;
    const record = core.local.record(question.dependency);
    record.note(this.#terms(), this.#retry(this.#previous), core.local.now);
  }

  #retry(previous: Previous) {
    const { made, isCounted } = previous.here(this.attempt);
    const isSafe = this.question.safety !== "unsafe";
    return { attempt: this.attempt, outcome: previous.outcome, isSafe, made, isCounted };
  }

  #terms() {
    const { core, question, timeLeft } = this;
    const policy = policyOf(core, question.dependency);
    const left = timeLeft === null ? null : nanosOf(timeLeft);
    return { policy, strictness: strictnessOf(core), timeLeft: left };
  }

  #counted(answer: LocalAnswer, askedAt: number): Terms | Denial {
    const { counting, isTesting } = this.core;
    if ("reason" in answer) {
      counting.localDenials += 1;
      return asDenial(answer);
    }
    counting.localGrants += 1;
    return {
      made: { by: "local", permit: answer.permit, begunIn: 0n },
      delay: isTesting ? 0 : millisOf(answer.delay),
      lives: answer.permit.leaseEnds === null ? ATTEMPT_MAX : PROBE_LEASE,
      isProbe: answer.probe,
      confirm: answer.confirm && !isTesting,
      suggestedTimeout: undefined,
      epoch: undefined,
      askedAt,
    };
  }

  /**
   * Nothing was decided. The outcome of an attempt without a permit cannot be told twice, so that it
   * is not told again where the question may have arrived. It counts here with the decision.
   */
  #tellAfter(why: NoAnswer | Unreadable | null): void {
    const hasArrived = why !== null && (why.kind === "unreadable" || mayHaveArrived(why));
    if (hasArrived) this.#previous?.mayBeTold();
    this.#previous?.tell();
  }
}

/** An attempt that was granted here is not silent, however long it takes. */
const ATTEMPT_MAX = 24 * 3600 * 1000;
const PROBE_LEASE = 5_000;

function termsOf(granted: Granted, askedAt: number): Terms {
  const { permit, delay, permitTtl, probe, confirm, attemptTimeout, epoch } = granted;
  return {
    made: { by: "fleet", permit },
    delay: millisOf(delay),
    lives: permitTtl === null ? Number.POSITIVE_INFINITY : millisOf(permitTtl),
    isProbe: probe,
    confirm,
    suggestedTimeout: attemptTimeout === null ? undefined : millisOf(attemptTimeout),
    epoch,
    askedAt,
  };
}

/** So much of the delay has passed already. */
function less(terms: Terms | Denial, passed: number): Terms | Denial {
  if (passed === 0 || "reason" in terms) return terms;
  return { ...terms, delay: Math.max(terms.delay - passed, 0) };
}

function isWithoutDelay({ why }: NoDecision): boolean {
  return why?.kind === "unreadable" && why.isWithoutDelay;
}

function unreadable(): Denial {
  return denial("fleet", "UNREADABLE", "the grant does not say when");
}

function undecided(): Denial {
  return denial("local", "NO_DECISION", "the service did not decide, and onNoDecision is deny");
}
