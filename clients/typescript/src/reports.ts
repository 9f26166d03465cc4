// Outcomes on their way to the service: a bounded queue, sent in batches.
//
// Reporting never makes a caller wait. A full queue loses the newest outcome and counts it; the
// service then takes the permit for silent, which is what it is. A batch goes out 10 ms after its first
// outcome under a permit, since a recovering dependency's ramp is steered by these; at once when an
// entry is a failure; and always before a question that carries an outcome, so that failures never
// arrive ahead of the successes around them. Attempts made on pushed state are counted, and their
// tallies go first in a batch; alone they wait 100 ms to 1 s, jittered.
//
// A batch whose answer was lost with its stream is sent once more under the same sequence number, by
// which the service tells a repetition. Numbers begin at the wall clock, so those of a restarted
// process with the same name are higher than those before.

import type { Counting } from "./counters.js";
import { unit } from "./entropy.js";
import type { ReportEntry } from "./gen/holdoff/v1/coordinator_pb.js";
import { isUrgent, type Outcome } from "./outcome.js";
import { type OnState, Tallies } from "./tally.js";
import { reportEntry } from "./wire/write.js";

const QUEUE_MAX = 10_000;
const BATCH_MAX = 1_000;
const TALLIES_MAX = 500;
/** The service takes 256 KiB a message. */
export const MESSAGE_BYTES_MAX = 192 * 1024;
/** Of an entry, but for its permit or name. */
const ENTRY_BYTES = 100;
/** What an outcome under a permit waits for others. */
const LINGER = 10;
/** The shortest and the longest that tallies wait alone. */
const TALLY_LINGER = 100;
const TALLY_LINGER_MAX = 1_000;
/** Batches without an answer yet; past it the queue fills. */
const UNANSWERED_MAX = 64;

/** What goes in one message. */
export interface Batch {
  readonly sequence: bigint;
  readonly entries: ReportEntry[];
  readonly isRepetition: boolean;
}

export class Reports {
  readonly #counting: Counting;
  readonly #now: () => number;
  readonly #tallies = new Tallies();
  readonly #unanswered = new Map<bigint, Batch>();
  #queue: ReportEntry[] = [];
  #resend: Batch[] = [];
  /** When the batch that is being gathered must go. */
  #due: number | null = null;
  #nextSequence = BigInt(Date.now()) * 1_000n;
  /** Outcomes that are being told in another way. */
  #telling = 0;
  /** An entry is due sooner than before, or a batch was answered. */
  onChange: () => void = () => {};

  constructor(counting: Counting, now: () => number) {
    this.#counting = counting;
    this.#now = now;
  }

  push(permit: Uint8Array, outcome: Outcome): void {
    if (this.#queue.length >= QUEUE_MAX) {
      this.#counting.reportsDropped += 1;
      return;
    }
    this.#queue.push(reportEntry(permit, outcome));
    const isDue = isUrgent(outcome) || this.#queue.length >= BATCH_MAX;
    this.#dueIn(isDue ? 0 : LINGER);
  }

  /** An attempt on pushed state ended so. */
  tally(dependency: string, on: OnState, outcome: Outcome): void {
    this.#count(dependency, on, outcome, isUrgent(outcome));
  }

  /**
   * The same of a state that another has taken the place of: whole fleets learn that at one instant,
   * and none of them is in a hurry.
   */
  tallyLate(dependency: string, on: OnState, outcome: Outcome): void {
    this.#count(dependency, on, outcome, false);
  }

  /** An outcome is told by a question, until {@link endTelling}. */
  beginTelling(): void {
    this.#telling += 1;
  }

  endTelling(): void {
    this.#telling -= 1;
  }

  /** When the next batch should go; `null`: nothing waits, or too much is unanswered. */
  get dueAt(): number | null {
    if (this.#unanswered.size >= UNANSWERED_MAX) return null;
    return this.#resend.length > 0 ? 0 : this.#due;
  }

  get isEmpty(): boolean {
    const isSent = this.#unanswered.size === 0 && this.#resend.length === 0;
    return isSent && this.#hasNothingNew && this.#telling === 0;
  }

  /** What is queued goes now. */
  hurry(): void {
    if (this.#due !== null) this.#dueIn(0);
  }

  /** The next batch, due or not. It counts as unanswered until {@link answered}. */
  take(): Batch | null {
    if (this.#unanswered.size >= UNANSWERED_MAX) return null;
    const batch = this.#resend.shift() ?? this.#gather();
    if (batch !== null) this.#unanswered.set(batch.sequence, batch);
    return batch;
  }

  /** The service answered the batch: taken, or refused for good. */
  answered(sequence: bigint, wasTaken: boolean): void {
    const batch = this.#unanswered.get(sequence);
    if (batch === undefined) return;
    this.#unanswered.delete(sequence);
    this.#counting[wasTaken ? "reported" : "reportsDropped"] += batch.entries.length;
    this.onChange();
  }

  /** A stream begins: what was counted before it deposits nothing, in a batch that is repeated either. */
  streamBegins(): void {
    this.#tallies.forgetStarts();
    for (const { entry } of this.#resend.flatMap(({ entries }) => entries)) {
      if (entry.case === "tally") entry.value.firstAttempts = 0;
    }
  }

  /** The stream broke: what was not answered goes once more, on the next one. */
  broken(): void {
    for (const batch of this.#unanswered.values()) {
      if (batch.isRepetition) this.#counting.reportsDropped += batch.entries.length;
      else this.#resend.push({ ...batch, isRepetition: true });
    }
    this.#unanswered.clear();
    this.onChange();
  }

  get #hasNothingNew(): boolean {
    return this.#queue.length === 0 && this.#tallies.size === 0;
  }

  #count(dependency: string, on: OnState, outcome: Outcome, urgent: boolean): void {
    if (!this.#tallies.note(dependency, on, outcome)) this.#counting.reportsDropped += 1;
    else if (urgent) this.#dueIn(0);
    else if (this.#due === null) this.#dueIn(TALLY_LINGER + (TALLY_LINGER_MAX - TALLY_LINGER) * unit());
  }

  #dueIn(linger: number): void {
    const due = this.#now() + linger;
    if (this.#due !== null && this.#due <= due) return;
    this.#due = due;
    this.onChange();
  }

  #gather(): Batch | null {
    const entries = this.#tallies.take(TALLIES_MAX);
    // A tally takes 300 bytes at most, so that these leave room.
    let bytes = entries.length * 300;
    let taken = 0;
    for (const entry of this.#queue) {
      const permit = entry.entry.case === "result" ? entry.entry.value.permit.length : 0;
      bytes += ENTRY_BYTES + permit;
      const isFull = entries.length >= BATCH_MAX || bytes > MESSAGE_BYTES_MAX;
      if (isFull && entries.length > 0) break;
      entries.push(entry);
      taken += 1;
    }
    this.#queue = this.#queue.slice(taken);
    this.#due = this.#hasNothingNew ? null : this.#now();
    if (entries.length === 0) return null;
    return { sequence: this.#nextSequence++, entries, isRepetition: false };
  }
}
