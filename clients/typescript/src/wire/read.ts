// Reads an answer of the service, strictly: one that says something unknown, or leaves out what it
// must say, is no decision.

import { type Denial, denial, REASONS_OF_THE_WIRE } from "../denial.js";
import type { AcquireResponse, Grant, Denial as WireDenial } from "../gen/holdoff/v1/coordinator_pb.js";
import { millisOf, type Nanos } from "../rules/time.js";
import { type ReadDuration, readDuration } from "./duration.js";

/** Permits take about 48 bytes; callers keep them, so that what is no permit is not kept. */
export const PERMIT_BYTES_MAX = 1024;
const STATES_MAX = 6;

export interface Granted {
  readonly kind: "granted";
  readonly delay: Nanos;
  readonly permit: Uint8Array;
  /** From the end of `delay`; null: not said. */
  readonly permitTtl: Nanos | null;
  readonly probe: boolean;
  readonly confirm: boolean;
  readonly attemptTimeout: Nanos | null;
  /** In which it was granted. */
  readonly epoch: bigint;
}

export interface Denied {
  readonly kind: "denied";
  readonly denial: Denial;
  readonly retryAfter: Nanos | null;
}

export interface Unreadable {
  readonly kind: "unreadable";
  readonly why: string;
  /** A grant that does not say when is never taken as "now". */
  readonly isWithoutDelay: boolean;
}

export type Answer = Granted | Denied | Unreadable;

export function readAnswer(response: AcquireResponse): Answer {
  if (!isKnown(response.state, 0, STATES_MAX)) return unreadable("the state of the breaker is unknown");
  switch (response.verdict.case) {
    case "grant":
      return readGrant(response.verdict.value, response.epoch);
    case "denial":
      return readDenial(response.verdict.value);
    default:
      return unreadable("the answer has no verdict");
  }
}

function readGrant(grant: Grant, epoch: bigint): Answer {
  const delay = readDuration(grant.delay);
  if (delay === null) return unreadable("the grant does not say when", true);
  if (grant.permit.length > PERMIT_BYTES_MAX) return unreadable("the permit is longer than any permit");
  const permitTtl = someTime(readDuration(grant.permitTtl));
  const attemptTimeout = someTime(readDuration(grant.attemptTimeout));
  if (delay === "bad" || permitTtl === "bad" || attemptTimeout === "bad") return badDuration();
  const { probe, confirm } = grant;
  // A copy: the original is a part of the whole message and would keep it alive.
  const permit = grant.permit.slice();
  return { kind: "granted", delay, permit, permitTtl, probe, confirm, attemptTimeout, epoch };
}

function readDenial({ reason, retryAfter, detail }: WireDenial): Answer {
  const word = REASONS_OF_THE_WIRE[reason - 1];
  if (word === undefined) return unreadable("the reason of the denial is unknown");
  const wait = readDuration(retryAfter);
  if (wait === "bad") return badDuration();
  const millis = wait === null ? null : millisOf(wait);
  return { kind: "denied", denial: denial("fleet", word, detail, millis), retryAfter: wait };
}

/** A life of nothing cannot be meant: it would end before the attempt begins. */
function someTime(duration: ReadDuration): ReadDuration {
  return duration === 0n ? null : duration;
}

export function isKnown(value: number, low: number, high: number): boolean {
  return Number.isInteger(value) && value >= low && value <= high;
}

function badDuration(): Unreadable {
  return unreadable("a duration is negative or out of range");
}

function unreadable(why: string, isWithoutDelay = false): Unreadable {
  return { kind: "unreadable", why, isWithoutDelay };
}
