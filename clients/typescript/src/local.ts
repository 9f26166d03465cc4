// Decisions without the service, for each dependency: the records, and how many of them there may
// be. The rules are in `rules/record.ts`.

import type { Denial } from "./denial.js";
import { unit } from "./entropy.js";
import { LocalRecord } from "./rules/record.js";
import { type Nanos, nanosOf, SECOND, subtract } from "./rules/time.js";

const DEPENDENCIES_MAX = 10_000;
/** A dependency that was not called for so long may be forgotten. */
const IDLE: Nanos = 600n * SECOND;

export class Local {
  readonly #now: () => number;
  readonly #records = new Map<string, LocalRecord>();

  constructor(now: () => number) {
    this.#now = now;
  }

  get now(): Nanos {
    return nanosOf(this.#now());
  }

  /** Past the limit those not called for long go, and then those unknown share one record. */
  record(dependency: string): LocalRecord {
    const now = this.now;
    const known = this.#records.get(dependency);
    if (known !== undefined) return known;
    if (this.#records.size >= DEPENDENCIES_MAX) this.#forgetIdle(now);
    const name = this.#records.size >= DEPENDENCIES_MAX ? "" : dependency;
    const record = this.#records.get(name) ?? new LocalRecord(now);
    this.#records.set(name, record);
    return record;
  }

  /** What the service denied, for the time when it no longer says anything. */
  remember(dependency: string, denial: Denial): void {
    this.record(dependency).tell(denial, this.now);
  }

  /** The service lets attempts go again. */
  letGo(dependency: string): void {
    this.#records.get(dependency)?.letGo(this.now);
  }

  #forgetIdle(now: Nanos): void {
    for (const [name, record] of this.#records) {
      if (subtract(now, record.touched) >= IDLE) this.#records.delete(name);
    }
  }
}

export function draws(): { jitter: number; spread: number } {
  return { jitter: unit(), spread: unit() };
}
