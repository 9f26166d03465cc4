// The clock of a client: monotonic milliseconds that run on while the machine is suspended.
//
// On Linux `performance.now()` stands still during a suspend, so that after a resume a permit or a
// pushed state would look younger than it is. The time since boot runs on; the difference of the
// two is how long the machine slept, and a stepped wall clock does not touch it. Asking for it
// costs microseconds, so it is asked only when the wall clock has moved against the monotonic one,
// which a suspend makes it do too; and that is looked at every 10 ms at most.

import { uptime } from "node:os";

/** Below this the clocks merely were not read at the same time. */
const SUSPENDED_MIN = 100;
const LOOK_EVERY = 10;

export interface Clocks {
  /** Monotonic milliseconds. */
  readonly monotonic: () => number;
  /** Milliseconds since 1970. */
  readonly wall: () => number;
  /** How long the machine has been suspended since some origin. */
  readonly suspended: () => number;
}

export class Clock {
  readonly #clocks: Clocks;
  #drift: number;
  #mark: number;
  #slept = 0;
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(clocks: Clocks = SYSTEM) {
    this.#clocks = clocks;
    this.#drift = clocks.wall() - clocks.monotonic();
    this.#mark = clocks.suspended();
  }

  now(): number {
    const monotonic = this.#clocks.monotonic();
    if (monotonic - this.#lookedAt >= LOOK_EVERY) this.#look(monotonic);
    return monotonic + this.#slept;
  }

  #look(monotonic: number): void {
    this.#lookedAt = monotonic;
    const drift = this.#clocks.wall() - monotonic;
    if (Math.abs(drift - this.#drift) < SUSPENDED_MIN) return;
    this.#drift = drift;
    const suspended = this.#clocks.suspended();
    const slept = suspended - this.#mark;
    if (slept < SUSPENDED_MIN) return;
    this.#slept += slept;
    this.#mark = suspended;
  }
}

const SYSTEM: Clocks = {
  monotonic: () => performance.now(),
  wall: () => Date.now(),
  suspended: process.platform === "linux" ? sinceBootUnseen : () => 0,
};

function sinceBootUnseen(): number {
  try {
    return uptime() * 1000 - Number(process.hrtime.bigint() / 1000n) / 1000;
  } catch {
    // A sandbox may hide it; then nothing is known of a suspend.
    return 0;
  }
}
