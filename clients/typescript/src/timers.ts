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

/** A wait that is counted in turns of the event loop has so many parts. */
const PARTS = 5;
/** A part that took longer counts for so many. */
const PART_MAX = 1.5;

/**
 * Calls back after `millis` of a loop that turns. Nobody can be heard while it is blocked, so that a
 * part of the wait in which it was blocked counts for one and a half parts at most, where there is
 * somebody to hear at its end (`isAsked`): the wait is over after `millis`, or after four turns where
 * each takes long. What has come by then is read first. Stopped by the returned function.
 */
export function afterTurns(millis: number, isAsked: () => boolean, run: () => void): () => void {
  const part = millis / PARTS;
  let left = millis;
  let begun: number;
  let timer: Timer;
  let last: ReturnType<typeof setImmediate> | undefined;
  const tick = () => {
    const took = performance.now() - begun;
    left -= isAsked() ? Math.min(took, PART_MAX * part) : took;
    if (left >= 1) next();
    else last = setImmediate(run);
  };
  const next = () => {
    begun = performance.now();
    timer = setTimeout(tick, timerOf(Math.min(part, left)));
  };
  next();
  return () => {
    clearTimeout(timer);
    if (last !== undefined) clearImmediate(last);
  };
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
