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
import { Channel, type Endpoint, type TlsOptions, type Token } from "./link/channel.js";
import type { Connection, OnEnd, Surroundings } from "./link/connection.js";
import { Course, type End } from "./link/course.js";
import { ASKS_MAX } from "./link/outstanding.js";
import { Session } from "./link/session.js";
import { Unary } from "./link/unary.js";
import { channels, type Log } from "./log.js";
import { CANCELLED } from "./outcome.js";
import type { Pushed } from "./pushed.js";
import { Reports } from "./reports.js";
import { later, type Timer, timerOf } from "./timers.js";

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
  readonly #options: LinkOptions;
  readonly #log: Log;
  readonly #course = new Course();
  readonly #warnedAway = new Seldom();
  readonly #warnedConfiguration = new Seldom();
  #connection: Connection | null = null;
  #channel: Channel | null = null;
  #isDialing = false;
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
    this.reports = new Reports(options.counting, options.now);
    this.reports.onChange = () => this.#reportsChanged();
  }

  /** Asks, and waits for so long at most. */
  async ask(request: AcquireRequest, timeout: number, signal: AbortSignal | undefined): Promise<Reply> {
    const pass = this.gate.enter(this.now());
    if (pass === null) return AWAY;
    this.counting.asked += 1;
    const reply = await new Promise<Reply>((resolve) => {
      const ask = new Ask(request, (reply) => {
        clearTimeout(timer);
        stopListening();
        resolve(reply);
      });
      // After a turn of the event loop that took long, the answer may lie there unread.
      const late = () => ask.settle({ no: { kind: "late", isSent: ask.isSent } });
      const timer = setTimeout(() => setImmediate(late), timerOf(timeout));
      const abandon = () => ask.settle({ no: { kind: "abandoned", isSent: ask.isSent } });
      const stopListening = onAbort(signal, abandon);
      this.#want(ask);
    });
    this.#judge(pass, reply);
    return reply;
  }

  /** A connection stands, and the service has not been silent on it. */
  get isAsked(): boolean {
    return this.#connection !== null && this.gate.shutUntil(this.now()) === null;
  }

  /** Connects now. False: it could not. */
  connect(): Promise<boolean> {
    return new Promise((resolve) => {
      if (this.#connection !== null) this.#connection.whenOpen(resolve);
      else if (this.#isClosed || (!this.#isDialing && this.now() < this.#course.notBefore)) resolve(false);
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
    channel?.close();
    return channel !== null;
  }

  warnFollowing(text: string): void {
    this.#warn("the service refuses to push the state of a dependency", text);
  }

  warnName(dependency: string): void {
    this.#warn("a dependency's name is not 1 to 200 of the letters allowed; deciding locally", dependency);
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
    } else if (no.kind === "late" || no.kind === "failed") {
      if (pass.unanswered(this.now(), unit())) this.#wentAway(no);
    } else {
      // No time was lost, and the link waits by itself before it connects again.
      pass.givenUp(this.now());
    }
  }

  #cameBack(wasAway: boolean): void {
    if (!wasAway) return;
    this.#log.info("the service answers again");
    channels.service.publish({ isAway: false, why: "it answers again" });
  }

  #wentAway(no: NoAnswer): void {
    const why = noAnswerText(no);
    channels.service.publish({ isAway: true, why });
    if (this.#warnedAway.isDue(this.now())) {
      this.#log.warn("the service does not answer; deciding locally for a while", { why });
    }
    if (no.kind === "late") this.#connection?.end({ kind: "silent" });
    this.#schedule();
  }

  #warn(message: string, text: string): void {
    if (this.#warnedConfiguration.isDue(this.now())) this.#log.warn(message, { text: text.slice(0, 200) });
  }

  #want(ask: Ask): void {
    if (this.#connection !== null) this.#connection.ask(ask);
    else if (this.#isClosed || (!this.#isDialing && this.now() < this.#course.notBefore)) ask.settle(AWAY);
    else if (this.#asks.length >= ASKS_MAX) ask.settle(BUSY);
    else {
      this.#asks.push(ask);
      void this.#dial();
    }
  }

  async #dial(): Promise<void> {
    if (this.#isDialing || this.#connection !== null || this.#isClosed) return;
    this.#isDialing = true;
    clearTimeout(this.#wake);
    const dialed = await this.#openAny();
    this.#isDialing = false;
    if (this.#isClosed || dialed === null) {
      dialed?.channel.close();
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
    this.reports.broken();
    if (end.kind === "unimplemented" && !this.#isClosed) {
      this.#course.noteUnary(index);
      this.#begin(index, channel);
      this.#hand(untaken, waiting);
      return;
    }
    this.#channel = null;
    channel.close();
    this.#course.ended(index, end, this.now(), unit());
    this.#schedule();
  }

  /** Each endpoint once, in order. `null`: none could be reached. */
  async #openAny(): Promise<{ index: number; channel: Channel } | null> {
    const count = this.#options.endpoints.length;
    for (let step = 0; step < count; step++) {
      const index = (this.#course.start + step) % count;
      const channel = await this.#open(index);
      if (channel !== null) return { index, channel };
    }
    return null;
  }

  async #open(index: number): Promise<Channel | null> {
    const { endpoints, tls, token } = this.#options;
    const endpoint = endpoints[index];
    try {
      const channel = endpoint === undefined ? null : await Channel.open(endpoint, tls, token);
      if (channel === null) this.#log.debug("not reachable", { endpoint: endpoint?.authority });
      return channel;
    } catch (error) {
      // A certificate that cannot be read, a token that cannot be had.
      this.#warn("cannot connect", String(error));
      return null;
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
   * Connects again when outcomes wait to be told, and while the gate is shut: then the service is
   * looked for without a question, so that no caller pays for it.
   */
  #schedule(): void {
    clearTimeout(this.#wake);
    if (this.#isClosed || this.#isDialing || this.#connection !== null) return;
    const { notBefore } = this.#course;
    const due = this.reports.dueAt;
    const shutUntil = this.gate.shutUntil(this.now());
    const times = [
      ...(due === null ? [] : [Math.max(due, notBefore)]),
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
