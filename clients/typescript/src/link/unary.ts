// The same without a stream: one request a question, for a service or a proxy that has no `Session`.
// After a while a stream is tried again.

import { create } from "@bufbuild/protobuf";
import { type ServiceError, status } from "@grpc/grpc-js";
import { ReportRequestSchema } from "../gen/holdoff/v1/coordinator_pb.js";
import { later, type Timer } from "../timers.js";
import { type Ask, BUSY, LOST } from "./ask.js";
import type { Channel } from "./channel.js";
import type { Connection, OnEnd, Surroundings } from "./connection.js";
import type { End } from "./course.js";
import { ASKS_MAX } from "./outstanding.js";

/** Requests under way. */
const CALLS_MAX = 256;
const TRY_A_STREAM_AFTER = 600_000;
/** A report that is not answered by then counts as lost with its connection. */
const REPORT_TIMEOUT = 5_000;

export class Unary implements Connection {
  readonly #around: Surroundings;
  readonly #channel: Channel;
  readonly #onEnd: OnEnd;
  readonly #ended = new AbortController();
  readonly #again: Timer;
  #queue: Ask[] = [];
  #calls = 0;
  #reportTimer: Timer | undefined;
  /** One at a time: sequence numbers must arrive in their order. */
  #isReporting = false;
  #hasAnswered = false;

  constructor(around: Surroundings, channel: Channel, onEnd: OnEnd) {
    this.#around = around;
    this.#channel = channel;
    this.#onEnd = onEnd;
    this.#again = later(TRY_A_STREAM_AFTER, () => this.end({ kind: "again" }));
    around.heard();
    this.reportsChanged();
  }

  get isIdle(): boolean {
    return this.#calls === 0 && this.#queue.length === 0 && !this.#isReporting;
  }

  ask(ask: Ask): void {
    if (this.#queue.length >= ASKS_MAX) this.#around.reply(ask, BUSY);
    else {
      this.#queue.push(ask);
      this.#begin();
    }
  }

  whenOpen(then: (isOpen: boolean) => void): void {
    then(true);
  }

  reportsChanged(): void {
    clearTimeout(this.#reportTimer);
    const due = this.#around.reports.dueAt;
    if (due === null || this.#isReporting || this.#isOver) return;
    this.#reportTimer = later(due - this.#around.now(), () => void this.#report());
  }

  end(end: End): void {
    if (this.#isOver) return;
    this.#ended.abort();
    clearTimeout(this.#again);
    clearTimeout(this.#reportTimer);
    for (const ask of this.#queue) this.#around.reply(ask, LOST);
    this.#onEnd(end, [], []);
  }

  get #isOver(): boolean {
    return this.#ended.signal.aborted;
  }

  #begin(): void {
    while (this.#calls < CALLS_MAX) {
      const ask = this.#queue.shift();
      if (ask === undefined) return;
      if (ask.isWaiting) void this.#acquire(ask);
    }
  }

  async #acquire(ask: Ask): Promise<void> {
    const { namespace, caller } = this.#around.hello;
    ask.isSent = true;
    ask.request.namespace = namespace;
    if (caller !== undefined) ask.request.caller = caller;
    this.#calls += 1;
    const answer = await this.#channel.acquire(ask.request, this.#ended.signal);
    this.#calls -= 1;
    if ("ok" in answer) {
      this.#hasAnswered = true;
      this.#around.reply(ask, { response: answer.ok });
    } else if (this.#isOver || isOfTheConnection(answer.error)) {
      this.#around.reply(ask, LOST);
      this.end({ kind: "broken", answered: this.#hasAnswered });
    } else {
      this.#hasAnswered = true;
      const { code, details } = answer.error;
      this.#around.reply(ask, { no: { kind: "failed", code, text: details } });
    }
    if (!this.#isOver) this.#begin();
  }

  async #report(): Promise<void> {
    const batch = this.#around.reports.take();
    if (batch === null || this.#isReporting) return;
    this.#isReporting = true;
    const { namespace, caller } = this.#around.hello;
    const { entries, sequence } = batch;
    const request = create(ReportRequestSchema, { namespace, entries, sequence, ...(caller && { caller }) });
    const limit = new AbortController();
    const timer = later(REPORT_TIMEOUT, () => limit.abort());
    const answer = await this.#channel.report(request, limit.signal);
    clearTimeout(timer);
    this.#isReporting = false;
    if (this.#isOver) return;
    if ("error" in answer && (limit.signal.aborted || isOfTheConnection(answer.error))) {
      this.end({ kind: "broken", answered: this.#hasAnswered });
      return;
    }
    this.#around.reports.answered(sequence, "ok" in answer);
    this.reportsChanged();
  }
}

/** Whether no answer of a service stands behind it: what grpc-js itself says of a connection. */
function isOfTheConnection({ code, details }: ServiceError): boolean {
  return code === status.UNAVAILABLE && CONNECTION.test(details);
}

const CONNECTION =
  /^(?:No connection established|Connection dropped|Received RST_STREAM|Name resolution failed)|ECONN/;
