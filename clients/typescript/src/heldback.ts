// A huge fleet that fails at one instant does not ask at one instant.
//
// The question after a failure of an attempt made on pushed state is held back by a time of its own,
// where the service knows of so many clients that it could not answer all of them before they give up.
// Those whom a trip reaches meanwhile need not ask any more. A retry is later for it only where its
// delay is shorter: the one that is granted began with the failure.
//
// Only the first question is held back; one that is asked again was told when. None is while the
// service is known to be away: nobody waits for whom nobody asks.

import { onAbort } from "./abort.js";
import type { Core } from "./core.js";
import type { Denial } from "./denial.js";
import { unit } from "./entropy.js";
import type { Previous } from "./made.js";
import type { Question } from "./question.js";
import { AT_ONCE, heldBackFor } from "./rules/clamp.js";
import { millisOf, nanosOf } from "./rules/time.js";
import { sleepUntil } from "./timers.js";

/**
 * Holds the question back where it has to be. For how many milliseconds it did, or that the service has
 * pushed meanwhile that nobody is let through. Throws where the caller gives the call up.
 */
export async function holdBack(
  { link, now, counting }: Core,
  { dependency, signal }: Question,
  previous: Previous,
  timeLeft: number | null,
): Promise<number | Denial> {
  const knownClients = link?.pushed.knownClients(dependency) ?? 0;
  if (link === null || knownClients <= AT_ONCE || !link.isAsked) return 0;
  const epoch = previous.epochToHoldBack();
  if (epoch === null) return 0;
  const begun = now();
  const left = timeLeft === null ? null : nanosOf(timeLeft);
  const until = begun + millisOf(heldBackFor(knownClients, left, unit()));
  const over = new AbortController();
  const end = () => over.abort();
  let refused: Denial | null = null;
  const look = () => {
    refused ??= link.pushed.refusedSince(dependency, epoch);
    if (refused !== null) end();
  };
  const stopListening = link.pushed.listen(look);
  const stopHearing = onAbort(signal, end);
  look();
  if (signal?.aborted) end();
  await sleepUntil(until, now, over.signal);
  stopListening();
  stopHearing();
  signal?.throwIfAborted();
  if (refused === null) return now() - begun;
  counting.pushedDenials += 1;
  previous.late();
  return refused;
}
