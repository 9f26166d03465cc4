// Whether the service is there, as those who run the client are told: once when it goes, with its
// address, and once when it is back, however many calls go on without it meanwhile.

import { Seldom } from "../counters.js";
import { channels, type Log } from "../log.js";

export class Presence {
  readonly #log: Log;
  readonly #now: () => number;
  readonly #seldom = new Seldom();
  #isAway = false;
  /** Of a service that comes and goes, one warning a minute; and no return without one. */
  #isWarned = false;

  constructor(log: Log, now: () => number) {
    this.#log = log;
    this.#now = now;
  }

  gone(endpoint: string, why: string): void {
    if (this.#isAway) return;
    this.#isAway = true;
    channels.service.publish({ isAway: true, endpoint, why });
    this.#isWarned = this.#seldom.isDue(this.#now());
    if (this.#isWarned) {
      this.#log.warn(`the service at ${endpoint} is away (${why}); deciding locally until it is back`);
    }
  }

  back(endpoint: string): void {
    if (!this.#isAway) return;
    this.#isAway = false;
    channels.service.publish({ isAway: false, endpoint, why: "it is back" });
    if (this.#isWarned) this.#log.info(`the service at ${endpoint} is back`);
  }
}
