// Durations of the wire. Reading is strict: what is none is never mended by a default, since
// protobuf's default of a delay is "now".

import { create } from "@bufbuild/protobuf";
import { type Duration, DurationSchema } from "@bufbuild/protobuf/wkt";
import { add, min, type Nanos, nanosOf, SECOND } from "../rules/time.js";

const LONGEST_SECONDS = 315_576_000_000n;

/** What is read: `bad` is negative or out of range, `null` is absent. */
export type ReadDuration = Nanos | null | "bad";

export function readDuration(duration: Pick<Duration, "seconds" | "nanos"> | undefined): ReadDuration {
  if (duration === undefined) return null;
  const { seconds, nanos } = duration;
  const isInRange = seconds >= 0n && seconds <= LONGEST_SECONDS && nanos >= 0 && nanos < 1e9;
  return isInRange ? add(min(seconds, LONGEST_SECONDS) * SECOND, BigInt(nanos)) : "bad";
}

export function writeDuration(millis: number): Duration {
  const nanos = nanosOf(millis);
  return create(DurationSchema, { seconds: nanos / SECOND, nanos: Number(nanos % SECOND) });
}
