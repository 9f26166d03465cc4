// One stream. What is asked in one turn of the event loop travels in one message; answers are handed
// out by id.

import { create } from "@bufbuild/protobuf";
import { type ServiceError, status } from "@grpc/grpc-js";
import { unit } from "../entropy.js";
import type { Status } from "../gen/google/rpc/status_pb.js";
import {
  type AcquireBatchResponse,
  type AcquireRequest,
  ReportRequestSchema,
  type SessionRequest,
  type SessionResponse,
} from "../gen/holdoff/v1/coordinator_pb.js";
import { type Batch, MESSAGE_BYTES_MAX } from "../reports.js";
import { later, type Timer } from "../timers.js";
import { type Ask, BUSY, LOST, type Reply } from "./ask.js";
import type { Channel, SessionStream } from "./channel.js";
import type { Connection, OnEnd, Surroundings } from "./connection.js";
import type { End } from "./course.js";
import { Following } from "./following.js";
import { Outstanding } from "./outstanding.js";

/** Questions in one message. */
const BATCH_MAX = 1_000;
/** A service that nobody waits for any longer has so long to take a new stream. */
const SEARCH = 1_000;
const LEAVE_EVERY = 60_000;
/** How often a preferred endpoint is looked for, at least. */
const RETURN_TRIED_EVERY = 60_000;
/** A gap between questions is waited for so long. */
const GAP = 100;

export class Session implements Connection {
  readonly #around: Surroundings;
  readonly #onEnd: OnEnd;
  readonly #stream: SessionStream;
  readonly #outstanding = new Outstanding();
  readonly #following: Following;
  readonly #timers = new Set<Timer>();
  #queue: Ask[] = [];
  #waiting: ((isOpen: boolean) => void)[] = [];
  #reportTimer: Timer | undefined;
  #isFlushing = false;
  /** The connection takes no more for now. */
  #isFull = false;
  /** The service has taken the stream. */
  #isOpen = false;
  /** It has said something on it. */
  #isProven = false;
  #isOver = false;

  constructor(around: Surroundings, channel: Channel, index: number, onEnd: OnEnd) {
    this.#around = around;
    this.#onEnd = onEnd;
    this.#following = new Following(around.pushed);
    this.#stream = channel.session();
    this.#stream.on("metadata", () => this.#opened());
    this.#stream.on("data", (response: SessionResponse) => this.#take(response));
    this.#stream.on("drain", () => this.#drained());
    this.#stream.on("end", () => this.end(this.#broken()));
    this.#stream.on("error", (error: ServiceError) => this.end(this.#endOf(error)));
    this.#send(this.#following.greeting(around.hello));
    this.#after(LEAVE_EVERY, () => this.#leaveIdle());
    // What has come by then is read first, however long the event loop was blocked.
    const wasAwaited = around.isAwaited;
    const leave = () => this.#isOpen || (wasAwaited && around.isAwaited) || this.end({ kind: "silent" });
    this.#after(SEARCH, () => setImmediate(leave));
    if (index !== 0) this.#lookForHome();
    this.reportsChanged();
  }

  get isIdle(): boolean {
    return this.#queue.length === 0 && this.#outstanding.isEmpty;
  }

  ask(ask: Ask): void {
    this.#queue.push(ask);
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    queueMicrotask(() => this.#flush());
  }

  whenOpen(then: (isOpen: boolean) => void): void {
    if (this.#isOpen) then(true);
    else this.#waiting.push(then);
  }

  reportsChanged(): void {
    clearTimeout(this.#reportTimer);
    const due = this.#around.reports.dueAt;
    if (this.#isOver || this.#isFull || due === null) return;
    const left = due - this.#around.now();
    // At once is still after what the caller does in this turn, so that it travels together.
    this.#reportTimer = later(left, () => this.#sendReports(1));
  }

  end(end: End): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const timer of this.#timers) clearTimeout(timer);
    clearTimeout(this.#reportTimer);
    if (end.kind === "closed") this.#stream.end();
    this.#stream.cancel();
    const asks = [...this.#outstanding.takeAll(), ...this.#queue];
    const isUntaken = end.kind === "unimplemented";
    if (!isUntaken) {
      for (const ask of asks) this.#around.reply(ask, LOST);
      for (const then of this.#waiting) then(false);
    }
    this.#onEnd(end, isUntaken ? asks : [], isUntaken ? this.#waiting : []);
  }

  /** False: the connection takes no more for now, or the stream is over. */
  #send(messages: readonly SessionRequest[]): boolean {
    for (const message of messages) {
      if (this.#isOver) return false;
      if (!this.#stream.write(message)) this.#isFull = true;
    }
    return !this.#isFull;
  }

  #drained(): void {
    this.#isFull = false;
    this.#flush();
    this.reportsChanged();
  }

  #flush(): void {
    this.#isFlushing = false;
    if (this.#isOver || this.#isFull) return;
    const asks = this.#queue.filter((ask) => ask.isWaiting);
    this.#queue = [];
    if (asks.some(({ request }) => request.previous !== undefined))
      this.#sendReports(Number.POSITIVE_INFINITY);
    this.#send(this.#following.resume(asks.map(({ request }) => request.dependency)));
    for (const group of inMessages(asks)) {
      if (!this.#outstanding.hasRoomFor(group.length)) {
        for (const ask of group) this.#around.reply(ask, BUSY);
        continue;
      }
      for (const ask of group) ask.isSent = true;
      this.#send([this.#outstanding.ask(group)]);
    }
  }

  #sendReports(most: number): void {
    for (let sent = 0; sent < most; sent++) {
      const batch = this.#around.reports.take();
      if (batch === null) break;
      this.#send([this.#reportOf(batch)]);
    }
    this.reportsChanged();
  }

  #reportOf({ entries, sequence }: Batch): SessionRequest {
    const { namespace, caller } = this.#around.hello;
    const report = create(ReportRequestSchema, { namespace, entries, sequence, ...(caller && { caller }) });
    return this.#outstanding.report(report);
  }

  #leaveIdle(): void {
    this.#send(this.#following.leaveIdle());
    this.#after(LEAVE_EVERY, () => this.#leaveIdle());
  }

  /** Leaves for the preferred endpoint, between questions if they leave a gap. */
  #lookForHome(): void {
    this.#after(RETURN_TRIED_EVERY * (1 + unit()), async () => {
      if (!(await this.#around.isPreferredBack())) this.#lookForHome();
      else this.#after(this.#outstanding.isEmpty ? 0 : GAP, () => this.end({ kind: "again" }));
    });
  }

  #opened(): void {
    this.#isOpen = true;
    this.#around.heard();
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const then of waiting) then(true);
  }

  #take({ id, message }: SessionResponse): void {
    if (this.#isOver) return;
    this.#isProven = true;
    switch (message.case) {
      case "acquired":
        this.#handOut(id, message.value);
        break;
      case "reported":
        this.#reported(id, true);
        break;
      case "update":
        this.#around.pushed.store(message.value);
        break;
      case "status":
        this.#refused(id, message.value);
        break;
      default:
        // Something newer than this client.
        break;
    }
  }

  #handOut(id: bigint, { items }: AcquireBatchResponse): void {
    this.#outstanding.take(id).forEach((ask, index) => {
      const result = items[index]?.result;
      if (result?.case === "response") this.#around.reply(ask, { response: result.value });
      else this.#around.reply(ask, failed(result?.value));
    });
  }

  #reported(id: bigint, wasTaken: boolean): void {
    const sequence = this.#outstanding.takeReport(id);
    if (sequence !== undefined) this.#around.reports.answered(sequence, wasTaken);
  }

  /** A whole message was refused. */
  #refused(id: bigint, refusal: Status): void {
    if (id === 0n) this.#around.warnFollowing(refusal.message);
    this.#reported(id, false);
    for (const ask of this.#outstanding.take(id)) this.#around.reply(ask, failed(refusal));
  }

  #endOf({ code }: ServiceError): End {
    return code === status.UNIMPLEMENTED && !this.#isProven ? { kind: "unimplemented" } : this.#broken();
  }

  #broken(): End {
    return { kind: "broken", answered: this.#isProven };
  }

  #after(millis: number, run: () => unknown): void {
    const timer = later(millis, () => {
      this.#timers.delete(timer);
      if (!this.#isOver) void run();
    });
    this.#timers.add(timer);
  }
}

function failed(refusal: Status | undefined): Reply {
  const { code, message } = refusal ?? { code: status.INTERNAL, message: "no answer in it" };
  return { no: { kind: "failed", code, text: message } };
}

/** Groups that the service takes as one message each. */
export function inMessages(asks: readonly Ask[]): Ask[][] {
  const messages: Ask[][] = [];
  let bytes = 0;
  for (const ask of asks) {
    const size = sizeOf(ask.request);
    const last = messages.at(-1);
    bytes += size;
    if (last !== undefined && last.length < BATCH_MAX && bytes <= MESSAGE_BYTES_MAX) last.push(ask);
    else {
      messages.push([ask]);
      bytes = size;
    }
  }
  return messages;
}

/** At most: texts are up to three bytes a character, and all that has a fixed length is below 120. */
function sizeOf({ dependency, callId, confirm, previous }: AcquireRequest): number {
  const permit = previous?.madeUnder.case === "permit" ? previous.madeUnder.value.length : 0;
  return 120 + 3 * (dependency.length + callId.length) + confirm.length + permit;
}
