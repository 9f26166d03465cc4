// The state that the service pushes: what to do with first attempts, and what to keep to when it is
// away.
//
// The client obeys `first_attempts` and derives nothing from the state of the breaker. Nothing is
// forgotten when a session breaks: what was said holds to its own end, and the policy for as long as
// the client lives. Only where there are too many do those that are not called make room.

import type { Denial } from "./denial.js";
import { FirstAttempts, type Update } from "./gen/holdoff/v1/coordinator_pb.js";
import { Heard, type Sought, type Word } from "./pushed/update.js";
import type { Policy } from "./rules/policy.js";
import type { OnState } from "./tally.js";

/** A client subscribes to what it calls; more than this was not asked for. */
const DEPENDENCIES_MAX = 10_000;
const NAME_LENGTH_MAX = 200;
/** A dependency that was not called for so long is followed no longer. */
const IDLE = 600_000;

interface Entry {
  heard: Heard;
  /** The last question about it. */
  used: number;
  /** It is followed no longer. */
  isLeft: boolean;
}

export class Pushed {
  readonly #now: () => number;
  /** Where the service says nothing, or nothing that can be. */
  readonly #own: Policy;
  /** Wanted from the beginning. */
  readonly #wished: readonly string[];
  readonly #entries = new Map<string, Entry>();
  readonly #listeners = new Set<() => void>();
  /** First attempts are let go. */
  onLetGo: (dependency: string) => void = () => {};

  constructor(now: () => number, own: Policy, wished: readonly string[]) {
    this.#now = now;
    this.#own = own;
    this.#wished = wished;
  }

  store(update: Update): void {
    const { dependency } = update;
    if (dependency.length > NAME_LENGTH_MAX) return;
    const now = this.#now();
    const entry = this.#entries.get(dependency);
    if (entry === undefined && !this.#makeRoom(now)) return;
    const heard = new Heard(update, this.#own, now);
    if (entry === undefined) this.#entries.set(dependency, { heard, used: now, isLeft: false });
    else {
      entry.heard = heard;
      entry.isLeft = false;
    }
    if (heard.firstAttempts === FirstAttempts.GO) this.onLetGo(dependency);
    for (const listener of [...this.#listeners]) listener();
  }

  /** Calls back after each update, until the returned function is called. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get hasHeardAllWished(): boolean {
    return this.#wished.every((name) => this.#entries.has(name));
  }

  /** What the service says about a first attempt now. */
  word(dependency: string): Word {
    const entry = this.#entries.get(dependency);
    if (entry === undefined) return null;
    const now = this.#now();
    entry.used = now;
    return entry.heard.word(now);
  }

  /** See {@link Heard.dropped}. */
  dropped(dependency: string, epoch: bigint, attempt: number): Denial | null {
    return this.#entries.get(dependency)?.heard.dropped(epoch, attempt, this.#now()) ?? null;
  }

  /** See {@link Heard.refusedSince}. */
  refusedSince(dependency: string, epoch: bigint): Denial | null {
    return this.#entries.get(dependency)?.heard.refusedSince(epoch, this.#now()) ?? null;
  }

  /** See {@link Heard.refusedAlone}. */
  refusedAlone(dependency: string, sought: Sought, since: bigint | null): Denial | null {
    return this.#entries.get(dependency)?.heard.refusedAlone(sought, since, this.#now()) ?? null;
  }

  /** How many clients the fleet had when the service last said so; 0: it has not. */
  knownClients(dependency: string): number {
    return this.#entries.get(dependency)?.heard.knownClients ?? 0;
  }

  /** See {@link Heard.standsBy}. */
  standsBy(dependency: string, epoch: bigint): boolean {
    return this.#entries.get(dependency)?.heard.standsBy(epoch, this.#now()) ?? false;
  }

  /** The state last heard of, valid or not. */
  last(dependency: string): OnState | null {
    return this.#entries.get(dependency)?.heard ?? null;
  }

  /** What is kept to without the service. */
  policy(dependency: string): Policy {
    return this.#entries.get(dependency)?.heard.policy ?? this.#own;
  }

  /** What a new session subscribes to. */
  followed(): string[] {
    const now = this.#now();
    const names = new Set(this.#wished);
    for (const [name, entry] of this.#entries) {
      if (now - entry.used >= IDLE) continue;
      entry.isLeft = false;
      names.add(name);
    }
    return [...names].sort();
  }

  /** What is called no longer, unless it was wanted from the beginning; each once. What was heard of it is kept. */
  leaveIdle(): string[] {
    const now = this.#now();
    const idle: string[] = [];
    for (const [name, entry] of this.#entries) {
      if (now - entry.used < IDLE || entry.isLeft || this.#wished.includes(name)) continue;
      entry.isLeft = true;
      idle.push(name);
    }
    return idle;
  }

  #makeRoom(now: number): boolean {
    if (this.#entries.size < DEPENDENCIES_MAX) return true;
    for (const [name, { used }] of this.#entries) if (now - used >= IDLE) this.#entries.delete(name);
    return this.#entries.size < DEPENDENCIES_MAX;
  }
}
