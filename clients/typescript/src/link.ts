// The way to the service: one connection, opened when first wanted, and a bounded queue in front of
// it.
//
// A caller waits for an answer at most as long as it says, and not at all while the service is known
// to be away. Nothing here keeps a process alive but the timers of those who wait.
//
// | part | |
// |---|---|
// | `link/course` | which endpoint is tried next, and when |
// | `link/channel` | one connection, by grpc-js |
// | `link/session` | one stream: batches out, answers in |
// | `link/following` | what the service pushes on it |
// | `link/outstanding` | questions without an answer yet |
// | `link/unary` | the same without a stream, for a service that has none |

import { status } from "@grpc/grpc-js";
import { onAbort } from "./abort.js";
import type { Counting } from "./counters.js";
import { Seldom } from "./counters.js";
import { unit } from "./entropy.js";
import { Gate, type Pass } from "./gate.js";
import type {
  AcquireRequest,
  AcquireResponse,
  Hello,
  PlanCheckRequest,
  PlanCheckResponse,
} from "./gen/holdoff/v1/coordinator_pb.js";
import { Ask, AWAY, BUSY, LOST, type NoAnswer, noAnswerText, type Reply } from "./link/ask.js";
import { Channel, type TlsOptions, type Token } from "./link/channel.js";
import type { Connection, OnEnd, Surroundings } from "./link/connection.js";
import { Course, type End } from "./link/course.js";
import type { Endpoint } from "./link/endpoint.js";
import { ASKS_MAX } from "./link/outstanding.js";
import { Patience } from "./link/patience.js";
import { Presence } from "./link/presence.js";
import { Session } from "./link/session.js";
import { Unary } from "./link/unary.js";
import type { Log } from "./log.js";
import { CANCELLED } from "./outcome.js";
import type { Pushed } from "./pushed.js";
import { Reports } from "./reports.js";
import { afterTurns, later, type Timer } from "./timers.js";

export interface LinkOptions {
  readonly endpoints: readonly Endpoint[];
  readonly tls: TlsOptions;
  readonly token: Token | undefined;
  /** Opens each stream; its caller and namespace go with each unary request. */
  readonly hello: Hello;
  readonly pushed: Pushed;
  readonly counting: Counting;
  readonly log: Log;
  readonly now: () => number;
}

type Waiting = (isOpen: boolean) => void;

export class Link implements Surroundings {
  readonly hello: Hello;
  readonly pushed: Pushed;
  readonly counting: Counting;
  readonly now: () => number;
  readonly reports: Reports;
  readonly gate = new Gate();
  readonly #patience = new Patience();
  readonly #presence: Presence;
  readonly #options: LinkOptions;
  readonly #log: Log;
  readonly #course = new Course();
  readonly #warnedConfiguration = new Seldom();
  #connection: Connection | null = null;
  #channel: Channel | null = null;
  /** The endpoint of the connection that stands, or stood last. */
  #endpoint = "";
  #isDialing = false;
  /** A connection is wanted that nobody waits for. */
  #isSought = false;
  #isClosed = false;
  #asks: Ask[] = [];
  #waiting: Waiting[] = [];
  #wake: Timer | undefined;

  constructor(options: LinkOptions) {
    this.#options = options;
    this.hello = options.hello;
    this.pushed = options.pushed;
    this.counting = options.counting;
    this.now = options.now;
    this.#log = options.log;
    this.#presence = new Presence(options.log, options.now);
    this.reports = new Reports(options.counting, options.now);
    this.reports.onChange = () => this.#reportsChanged();
  }

  /** Asks, and waits for so long at most. The question is not made where nobody is asked. */
  async ask(
    question: () => AcquireRequest,
    timeout: number,
    signal: AbortSignal | undefined,
  ): Promise<Reply> {
    const pass = this.gate.enter(this.now());
    if (pass === null) return AWAY;
    this.counting.asked += 1;
    if (!this.#patience.enter()) {
      pass.givenUp(this.now());
      this.seek();
      return AWAY;
    }
    const reply = await new Promise<Reply>((resolve) => {
      const ask = new Ask(question(), (reply) => {
        stopWaiting();
        stopListening();
        resolve(reply);
      });
      const late = () => ask.settle({ no: { kind: "late", isSent: ask.isSent } });
      const stopWaiting = afterTurns(timeout, () => ask.isSent, late);
      const abandon = () => ask.settle({ no: { kind: "abandoned", isSent: ask.isSent } });
      const stopListening = onAbort(signal, abandon);
      this.#want(ask);
    });
    this.#patience.leave("no" in reply && reply.no.kind === "late" ? "late" : "answered");
    this.#judge(pass, reply);
    return reply;
  }

  /** Connects when the time for it comes, at nobody's wait. */
  seek(): void {
    if (this.#isSought || this.#connection !== null || this.#isDialing) return;
    this.#isSought = true;
    this.#schedule();
  }

  get isAwaited(): boolean {
    return this.gate.shutUntil(this.now()) === null && !this.#patience.isOver;
  }

  /**
   * It is at hand: a connection stands, and the service has not been silent on it. Looked at twice by
   * each call, so that the clock is read only where it has been.
   */
  get isAsked(): boolean {
    if (this.#connection === null) return false;
    return this.gate.isOpen || this.gate.shutUntil(this.now()) === null;
  }

  /** Connects now. False: it could not. */
  connect(): Promise<boolean> {
    return new Promise((resolve) => {
      if (this.#connection !== null) this.#connection.whenOpen(resolve);
      else if (!this.#mayDial) resolve(false);
      else {
        this.#waiting.push(resolve);
        void this.#dial();
      }
    });
  }

  /** When to check next: one request beside the stream, that neither opens nor shuts the gate. */
  async planCheck(
    request: PlanCheckRequest,
    signal: AbortSignal,
  ): Promise<{ readonly ok: PlanCheckResponse } | { readonly no: NoAnswer }> {
    const isShut = this.gate.shutUntil(this.now()) !== null;
    if (isShut || !(await this.connect()) || this.#channel === null) return { no: { kind: "away" } };
    const answer = await this.#channel.planCheck(request, signal);
    if ("ok" in answer) return answer;
    if (signal.aborted) return { no: { kind: "late", isSent: true } };
    const { code, details } = answer.error;
    return { no: { kind: "failed", code, text: details } };
  }

  /** Reports what waits, for so long at most, and ends the connection. */
  async close(timeout: number, flush: (timeout: number) => Promise<unknown>): Promise<void> {
    if (this.#isClosed) return;
    await flush(timeout);
    this.#isClosed = true;
    clearTimeout(this.#wake);
    this.#connection?.end({ kind: "closed" });
    this.#refuse();
  }

  reply(ask: Ask, reply: Reply): void {
    if (!ask.settle(reply) && "response" in reply) this.giveBack(reply.response);
  }

  /** Nobody waits for this answer any longer. */
  giveBack({ verdict }: AcquireResponse): void {
    if (verdict.case === "grant") this.reports.push(verdict.value.permit.slice(), CANCELLED);
  }

  async isPreferredBack(): Promise<boolean> {
    const channel = await this.#open(0);
    if (typeof channel === "string") return false;
    channel.close();
    return true;
  }

  heard(): void {
    this.gate.heard(this.now());
    this.#patience.heard();
    // A service that has been silent has to answer first.
    if (this.gate.isOpen) this.#presence.back(this.#endpoint);
  }

  warnFollowing(text: string): void {
    this.#warn("the service refuses to push the state of a dependency", text);
  }

  #judge(pass: Pass, reply: Reply): void {
    if ("response" in reply) {
      this.#cameBack(pass.answered());
      return;
    }
    const { no } = reply;
    if (no.kind === "failed" && CONFIGURATION.has(no.code)) {
      this.#cameBack(pass.answered());
      this.#warn("the service refuses the question; deciding locally", noAnswerText(no));
    } else if (no.kind === "failed" || (no.kind === "late" && (no.isSent || pass.isTrial))) {
      if (pass.unanswered(this.now(), unit())) this.#wentAway(no);
    } else {
      // No time was lost, and the link waits by itself before it connects again.
      pass.givenUp(this.now());
    }
  }

  #cameBack(wasAway: boolean): void {
    if (wasAway) this.#presence.back(this.#endpoint);
  }

  #wentAway(no: NoAnswer): void {
    this.#presence.gone(this.#endpoint, noAnswerText(no));
    if (no.kind === "late") this.#connection?.end({ kind: "silent" });
    this.#schedule();
  }

  #warn(message: string, text: string): void {
    if (this.#warnedConfiguration.isDue(this.now())) this.#log.warn(`${message}: ${text.slice(0, 200)}`);
  }

  #want(ask: Ask): void {
    if (this.#connection !== null) this.#connection.ask(ask);
    else if (!this.#mayDial) ask.settle(AWAY);
    else if (this.#asks.length >= ASKS_MAX) ask.settle(BUSY);
    else {
      this.#asks.push(ask);
      void this.#dial();
    }
  }

  /** A connection is being made, or it is time to make one. */
  get #mayDial(): boolean {
    return !this.#isClosed && (this.#isDialing || this.now() >= this.#course.notBefore);
  }

  async #dial(): Promise<void> {
    if (this.#isDialing || this.#connection !== null || this.#isClosed) return;
    this.#isDialing = true;
    this.#isSought = false;
    clearTimeout(this.#wake);
    const dialed = await this.#openAny();
    this.#isDialing = false;
    if (this.#isClosed || "why" in dialed) {
      if ("channel" in dialed) dialed.channel.close();
      else if (!this.#isClosed) this.#presence.gone(dialed.endpoints, dialed.why);
      this.#course.nothingReachable(this.now(), unit());
      this.#refuse();
      this.#schedule();
      return;
    }
    const { index, channel } = dialed;
    this.counting.connections += 1;
    this.reports.streamBegins();
    this.#begin(index, channel);
    const [asks, waiting] = [this.#asks, this.#waiting];
    [this.#asks, this.#waiting] = [[], []];
    this.#hand(asks, waiting);
  }

  #begin(index: number, channel: Channel): void {
    this.#channel = channel;
    this.#endpoint = this.#options.endpoints[index]?.authority ?? "";
    const onEnd: OnEnd = (end, untaken, waiting) => this.#ended(index, channel, end, untaken, waiting);
    this.#connection = this.#course.isUnary(index)
      ? new Unary(this, channel, onEnd)
      : new Session(this, channel, index, onEnd);
  }

  /** A connection that ends while it is handed questions has nobody left to answer them. */
  #hand(asks: readonly Ask[], waiting: readonly Waiting[]): void {
    for (const ask of asks) {
      if (this.#connection === null) this.reply(ask, LOST);
      else if (ask.isWaiting) this.#connection.ask(ask);
    }
    for (const then of waiting) {
      if (this.#connection === null) then(false);
      else this.#connection.whenOpen(then);
    }
  }

  #ended(
    index: number,
    channel: Channel,
    end: End,
    untaken: readonly Ask[],
    waiting: readonly Waiting[],
  ): void {
    this.#connection = null;
    this.#patience.lost();
    this.reports.broken();
    if (end.kind === "unimplemented" && !this.#isClosed) {
      this.#course.noteUnary(index);
      this.#begin(index, channel);
      this.#hand(untaken, waiting);
      return;
    }
    this.#channel = null;
    channel.close();
    if (end.kind === "broken") this.#presence.gone(this.#endpoint, "the connection broke");
    this.#course.ended(index, end, this.now(), unit());
    this.#schedule();
  }

  /** Each endpoint once, in order. */
  async #openAny(): Promise<{ index: number; channel: Channel } | { endpoints: string; why: string }> {
    const { endpoints } = this.#options;
    let why = "";
    for (let step = 0; step < endpoints.length; step++) {
      const index = (this.#course.start + step) % endpoints.length;
      const channel = await this.#open(index);
      if (typeof channel !== "string") return { index, channel };
      why = channel;
    }
    return { endpoints: endpoints.map(({ authority }) => authority).join(", "), why };
  }

  /** A text: why it cannot be reached. */
  async #open(index: number): Promise<Channel | string> {
    const { endpoints, tls, token } = this.#options;
    const endpoint = endpoints[index];
    if (endpoint === undefined) return "there is no such endpoint";
    try {
      return await Channel.open(endpoint, tls, token);
    } catch (error) {
      // A certificate that cannot be read, a token that cannot be had.
      this.#warn("cannot connect", String(error));
      return String(error).slice(0, 200);
    }
  }

  #refuse(): void {
    const [asks, waiting] = [this.#asks, this.#waiting];
    [this.#asks, this.#waiting] = [[], []];
    for (const ask of asks) ask.settle(AWAY);
    for (const then of waiting) then(false);
  }

  #reportsChanged(): void {
    if (this.#connection !== null) this.#connection.reportsChanged();
    else this.#schedule();
  }

  /**
   * Connects again when outcomes wait to be told, when somebody has sought the service, and while the
   * gate is shut: then it is looked for without a question, so that no caller pays for it.
   */
  #schedule(): void {
    clearTimeout(this.#wake);
    if (this.#isClosed || this.#isDialing || this.#connection !== null) return;
    const { notBefore } = this.#course;
    const due = this.reports.dueAt;
    const shutUntil = this.gate.shutUntil(this.now());
    const times = [
      ...(due === null ? [] : [Math.max(due, notBefore)]),
      ...(this.#isSought ? [notBefore] : []),
      ...(shutUntil !== null && notBefore < shutUntil ? [notBefore] : []),
    ];
    if (times.length > 0) this.#wake = later(Math.min(...times) - this.now(), () => void this.#dial());
  }
}

/** Errors that say that the question is wrong, not that the service is ill. */
const CONFIGURATION: ReadonlySet<number> = new Set([
  status.INVALID_ARGUMENT,
  status.NOT_FOUND,
  status.PERMISSION_DENIED,
  status.UNAUTHENTICATED,
]);
