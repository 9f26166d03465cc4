// Which endpoint is tried next, and when. A fleet that loses its service together must not come back
// together: each return is drawn from a range. It grows where the service is there but ill. Where
// nobody listens it does not: looking costs nobody anything, and the fleet is back within the first
// range of a restart.

/**
 * The return after a loss is drawn from 0 to so long: with connecting and asking, all are back within 5 s
 * of the service.
 */
const SPREAD = 4_500;
/** A service that was silent is looked for no sooner, and within {@link SPREAD}. */
const SEARCH_AFTER = 1_000;
const SPREAD_MAX = 30_000;

/** How the time with one connection ended. */
export type End =
  | { readonly kind: "broken"; readonly answered: boolean }
  /** The service has stopped to answer. */
  | { readonly kind: "silent" }
  /** There is no such stream here. */
  | { readonly kind: "unimplemented" }
  /** It is time to try a stream again. */
  | { readonly kind: "again" }
  | { readonly kind: "closed" };

export class Course {
  /** The first endpoint to try. */
  start = 0;
  notBefore = 0;
  #failures = 0;
  /** Endpoints that have no stream. */
  readonly #unary = new Set<number>();

  isUnary(index: number): boolean {
    return this.#unary.has(index);
  }

  noteUnary(index: number): void {
    this.#unary.add(index);
  }

  nothingReachable(now: number, unit: number): void {
    this.start = 0;
    this.#failures = 0;
    this.#wait(now, unit);
  }

  /** `unit` is uniform in [0, 1). */
  ended(index: number, end: End, now: number, unit: number): void {
    switch (end.kind) {
      case "broken":
        if (end.answered) this.#failures = 0;
        this.start = end.answered ? 0 : index + 1;
        this.#wait(now, unit);
        break;
      case "silent":
        // Another endpoint may answer.
        this.start = index + 1;
        this.notBefore = now + SEARCH_AFTER + (SPREAD - SEARCH_AFTER) * unit;
        break;
      case "again":
        this.#unary.delete(index);
        this.start = 0;
        break;
      case "unimplemented":
      case "closed":
        break;
    }
  }

  #wait(now: number, unit: number): void {
    const range = Math.min(SPREAD * 2 ** Math.min(this.#failures, 3), SPREAD_MAX);
    this.#failures += 1;
    this.notBefore = now + range * unit;
  }
}
