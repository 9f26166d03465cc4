// What the client counts, and warnings that do not flood a log.

/** What a client has done since it was made. */
export interface Counters {
  /** Questions put to the connection, whether it stood or not. */
  readonly asked: number;
  /** Questions that the service decided, yes or no. */
  readonly answered: number;
  /** Questions that it did not decide: late, lost, failed or unreadable. */
  readonly noDecision: number;
  /** First attempts made on pushed state, without a question. */
  readonly pushedGrants: number;
  /** First attempts refused on pushed state, without a question. */
  readonly pushedDenials: number;
  /** Attempts granted without the service. */
  readonly localGrants: number;
  /** Attempts denied without the service. */
  readonly localDenials: number;
  /** Outcomes that the service took; a tally of many counts as one. */
  readonly reported: number;
  /** Outcomes lost since the queue was full or the service was away twice. */
  readonly reportsDropped: number;
  /** Streams and channels opened. */
  readonly connections: number;
}

export type Counting = { -readonly [K in keyof Counters]: Counters[K] };

export function counting(): Counting {
  return {
    asked: 0,
    answered: 0,
    noDecision: 0,
    pushedGrants: 0,
    pushedDenials: 0,
    localGrants: 0,
    localDenials: 0,
    reported: 0,
    reportsDropped: 0,
    connections: 0,
  };
}

const WARN_EVERY = 60_000;

/** Lets one warning a minute through. */
export class Seldom {
  #last = Number.NEGATIVE_INFINITY;

  isDue(now: number): boolean {
    if (now - this.#last < WARN_EVERY) return false;
    this.#last = now;
    return true;
  }
}
