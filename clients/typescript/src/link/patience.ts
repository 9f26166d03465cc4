// How many callers wait for a service of which nothing has been heard yet: three in all, at once or
// one after the other. The others decide alone at once, while the connection is made at nobody's cost.
// So a process that begins with a burst of calls pays for three of them, and being slow to start is not
// taken for the service's silence: the gate is for questions that were sent.

const WAITING_MAX = 3;

export class Patience {
  /** The service has said something on the connection that stands. */
  #isHeard = false;
  #waiting = 0;
  /** Since it was last heard of. */
  #inVain = 0;

  /** Whether one more caller may wait. Then `leave` is called once. */
  enter(): boolean {
    if (!this.#isHeard && this.#waiting + this.#inVain >= WAITING_MAX) return false;
    this.#waiting += 1;
    return true;
  }

  /** Three have waited in vain. */
  get isOver(): boolean {
    return !this.#isHeard && this.#inVain >= WAITING_MAX;
  }

  leave(ending: "answered" | "late"): void {
    this.#waiting -= 1;
    if (ending === "late" && !this.#isHeard) this.#inVain += 1;
  }

  heard(): void {
    this.#isHeard = true;
    this.#inVain = 0;
  }

  /** The connection is over. */
  lost(): void {
    this.#isHeard = false;
  }
}
