// Questions on a stream that have no answer yet, by the id of their message.

import { create } from "@bufbuild/protobuf";
import {
  type ReportRequest,
  type SessionRequest,
  SessionRequestSchema,
} from "../gen/holdoff/v1/coordinator_pb.js";
import type { Ask } from "./ask.js";

/** Questions that wait to be sent or answered. */
export const ASKS_MAX = 10_000;

export class Outstanding {
  #nextId = 1n;
  readonly #batches = new Map<bigint, readonly Ask[]>();
  /** The sequence numbers of reports. */
  readonly #reports = new Map<bigint, bigint>();
  #questions = 0;

  get isEmpty(): boolean {
    return this.#batches.size === 0 && this.#reports.size === 0;
  }

  hasRoomFor(count: number): boolean {
    if (this.#questions + count > ASKS_MAX) this.#forgetThoseGivenUp();
    return this.#questions + count <= ASKS_MAX;
  }

  /** The message that asks them all. */
  ask(asks: readonly Ask[]): SessionRequest {
    const id = this.#nextId++;
    this.#batches.set(id, asks);
    this.#questions += asks.length;
    const requests = asks.map((ask) => ask.request);
    return create(SessionRequestSchema, { id, message: { case: "acquire", value: { requests } } });
  }

  report(report: ReportRequest): SessionRequest {
    const id = this.#nextId++;
    this.#reports.set(id, report.sequence);
    return create(SessionRequestSchema, { id, message: { case: "report", value: report } });
  }

  /** Whom an answer to questions is for, in their order. */
  take(id: bigint): readonly Ask[] {
    const asks = this.#batches.get(id) ?? [];
    this.#batches.delete(id);
    this.#questions -= asks.length;
    return asks;
  }

  /** The sequence number of a report. */
  takeReport(id: bigint): bigint | undefined {
    const sequence = this.#reports.get(id);
    this.#reports.delete(id);
    return sequence;
  }

  takeAll(): Ask[] {
    const asks = [...this.#batches.values()].flat();
    this.#batches.clear();
    this.#questions = 0;
    return asks;
  }

  /**
   * A message of which somebody still waits is kept whole, since answers have its order. A permit in
   * a forgotten answer ends by itself.
   */
  #forgetThoseGivenUp(): void {
    for (const [id, asks] of this.#batches) {
      if (asks.some((ask) => ask.isWaiting)) continue;
      this.#batches.delete(id);
      this.#questions -= asks.length;
    }
  }
}
