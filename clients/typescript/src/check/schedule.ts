// When to check without the service: run k starts at anchor + k * period.
//
// The anchor is the time that the service planned last, so a fleet that loses it stays as spread as it
// was. Before any plan it is a hash of dependency and checker into the period, as the service's own
// `phase: hash` has it. A run that is late or long takes the next time.

import { number } from "../entropy.js";
import type { Caller } from "../gen/holdoff/v1/coordinator_pb.js";
import type { Plan } from "./plan.js";

const TWO_64 = 2 ** 64;
const MASK = 2n ** 64n - 1n;

export class Schedule {
  readonly #own: { readonly period: number; readonly timeout: number };
  #anchor: number;
  #period: number;
  #timeout: number;

  /** `name` is a part of 2^64 of a period. */
  constructor(name: bigint, period: number, timeout: number, now: number) {
    this.#own = { period, timeout };
    this.#period = period;
    this.#timeout = timeout;
    this.#anchor = now + (Number(name) / TWO_64) * period;
  }

  get period(): number {
    return this.#period;
  }

  get timeout(): number {
    return this.#timeout;
  }

  /** Takes over what the service has planned. */
  follow({ next, period }: Plan, now: number): void {
    this.#period = period ?? this.#period;
    this.#anchor = now + (next.kind === "run" ? next.delay : next.askAgain);
    if (next.kind === "run") this.#timeout = next.timeout;
  }

  /** The service plans nothing here any more: the checker's own period, on the same grid. */
  forget(): void {
    this.#period = this.#own.period;
    this.#timeout = this.#own.timeout;
  }

  /** The first time after `now`. */
  after(now: number): number {
    if (now < this.#anchor) return this.#anchor;
    const passed = Math.floor((now - this.#anchor) / this.#period);
    return this.#anchor + (passed + 1) * this.#period;
  }
}

/** FNV-1a over each part behind its length, then the last steps of a 64-bit mixer. */
export function checkerName(
  dependency: string,
  caller: Pick<Caller, "service" | "instance"> | undefined,
): bigint {
  // It has no name that another one has not.
  if (caller === undefined) return number();
  let hash = 0xcbf29ce484222325n;
  for (const part of [dependency, caller.service, caller.instance]) {
    const bytes = Buffer.from(part);
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(bytes.length));
    for (const byte of Buffer.concat([length, bytes])) hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & MASK;
  }
  hash = ((hash ^ (hash >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
  hash = ((hash ^ (hash >> 27n)) * 0x94d049bb133111ebn) & MASK;
  return hash ^ (hash >> 31n);
}
