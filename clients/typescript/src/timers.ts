// Waiting. What a caller waits for keeps the process alive; what goes on behind its back does not.

import { onAbort } from "./abort.js";

/** Longer timers overflow in `setTimeout`, and would fire at once. */
const TIMER_MAX = 2 ** 31 - 1;

export type Timer = ReturnType<typeof setTimeout>;

/** A timer that does not keep the process alive. */
export function later(millis: number, run: () => void): Timer {
  return setTimeout(run, timerOf(millis)).unref();
}

export function timerOf(millis: number): number {
  return Math.min(Math.max(Math.ceil(millis), 0), TIMER_MAX);
}

/**
 * Until `at`, by this clock: timers may fire a little early. Ends early where `signal` is aborted;
 * whoever waits looks at it.
 */
export async function sleepUntil(at: number, now: () => number, signal?: AbortSignal): Promise<void> {
  for (let left = at - now(); left > 0 && !signal?.aborted; left = at - now()) {
    await sleepOnce(left, signal);
  }
}

function sleepOnce(millis: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      stopListening();
      resolve();
    };
    const timer = setTimeout(done, timerOf(millis));
    const stopListening = onAbort(signal, done);
  });
}
