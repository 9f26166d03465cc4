// Writes what a client says.

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  OutcomeKind as Kind,
  type ReportEntry,
  ReportEntrySchema,
  type OutcomeSchema as WireOutcomeSchema,
  Priority as WirePriority,
  Safety as WireSafety,
} from "../gen/holdoff/v1/coordinator_pb.js";
import type { Outcome, OutcomeKind } from "../outcome.js";
import type { Safety } from "../rules/settled.js";
import { writeDuration } from "./duration.js";

/** Longer latencies are refused; so long an attempt is merely as long as can be said. */
export const LONGEST_LATENCY = 24 * 3600 * 1000;

/** Which callers go first when there is not room for all. */
export type Priority = "low" | "normal" | "high";

const KINDS: Record<OutcomeKind, Kind> = {
  success: Kind.SUCCESS,
  failure: Kind.FAILURE,
  timeout: Kind.TIMEOUT,
  not_sent: Kind.NOT_SENT,
  throttled: Kind.THROTTLED,
  rejected: Kind.REJECTED,
  ignored: Kind.IGNORED,
  cancelled: Kind.CANCELLED,
};

export function isOutcomeKind(kind: unknown): kind is OutcomeKind {
  return typeof kind === "string" && Object.hasOwn(KINDS, kind);
}

export const SAFETIES: Record<Safety, WireSafety> = {
  unsafe: WireSafety.UNSAFE,
  idempotent: WireSafety.IDEMPOTENT,
  keyed: WireSafety.KEYED,
};

export const PRIORITIES: Record<Priority, WirePriority> = {
  low: WirePriority.LOW,
  normal: WirePriority.NORMAL,
  high: WirePriority.HIGH,
};

export function writeOutcome(outcome: Outcome): MessageInitShape<typeof WireOutcomeSchema> {
  const { kind, latency, pushback } = outcome;
  return {
    kind: KINDS[kind],
    ...(latency === undefined ? {} : { latency: writeDuration(Math.min(latency, LONGEST_LATENCY)) }),
    ...(pushback === undefined ? {} : { pushback: writeDuration(pushback) }),
    pushbackRestartsBackoff: outcome.pushbackRestartsBackoff ?? false,
    doNotRetry: outcome.doNotRetry ?? false,
    retriedBelow: outcome.retriedBelow ?? false,
    // What is no number of the wire would end the stream, and it is for people alone.
    statusCode: isUint32(outcome.statusCode) ? outcome.statusCode : 0,
  };
}

function isUint32(value: number | undefined): value is number {
  return value !== undefined && Number.isInteger(value) && value >= 0 && value < 2 ** 32;
}

export function reportEntry(permit: Uint8Array, outcome: Outcome): ReportEntry {
  return create(ReportEntrySchema, {
    entry: { case: "result", value: { permit, outcome: writeOutcome(outcome) } },
  });
}
