// The answer no, and how a caller sees it.
//
// A call that is given up throws the last real error itself, unchanged: code that looks at its
// type or fields goes on to work. Why there was no further attempt is kept beside it and read by
// `stopped(error)`. It is not written onto the error, which may be frozen, or thrown by many
// calls at once. Only where no attempt has returned an error is there a `DeniedError`.

const DETAIL_LENGTH_MAX = 1024;

/** Of the wire, by number. */
export const REASONS_OF_THE_WIRE = [
  "FORCED_OPEN",
  "PUSHBACK",
  "PUSHBACK_TOO_LONG",
  "NOT_RETRYABLE",
  "RETRIED_BELOW",
  "ATTEMPTS_EXHAUSTED",
  "RETRY_UNSAFE",
  "HEDGE_REFUSED",
  "HELD",
  "BREAKER_OPEN",
  "PROBE_IN_PROGRESS",
  "RECOVERING",
  "CALLER_FAULT",
  "CALENDAR_FULL",
  "RATE_LIMITED",
  "DEADLINE",
  "BUDGET_EXHAUSTED",
  "DUPLICATE",
  "PERMIT_VOID",
] as const;

/**
 * Why an attempt may not be made: a word of the service, or one of the client's own.
 * `NO_DECISION`: the service decided nothing, and the client was told to deny then.
 * `UNREADABLE`: it granted a retry without saying when. `CANCELLED`: the caller gave the call up.
 */
export type DenialReason = (typeof REASONS_OF_THE_WIRE)[number] | "NO_DECISION" | "UNREADABLE" | "CANCELLED";

const WORDS: Record<DenialReason, string> = {
  FORCED_OPEN: "forced open by an operator",
  PUSHBACK: "the dependency said: do not retry",
  PUSHBACK_TOO_LONG: "the dependency asked for too long a wait",
  NOT_RETRYABLE: "a retry cannot mend it",
  RETRIED_BELOW: "a layer below retried already",
  ATTEMPTS_EXHAUSTED: "no attempt left",
  RETRY_UNSAFE: "a retry may do harm",
  HEDGE_REFUSED: "hedge refused",
  HELD: "the dependency asked the fleet to wait",
  BREAKER_OPEN: "breaker open",
  PROBE_IN_PROGRESS: "breaker half-open, all probes are out",
  RECOVERING: "recovering, the admitted share is taken",
  CALLER_FAULT: "this instance fails while others do not",
  CALENDAR_FULL: "calendar full",
  RATE_LIMITED: "rate limited",
  DEADLINE: "no time left",
  BUDGET_EXHAUSTED: "retry budget exhausted",
  DUPLICATE: "the permit was used already",
  PERMIT_VOID: "the permit is void",
  NO_DECISION: "nothing was decided",
  UNREADABLE: "unreadable answer",
  CANCELLED: "given up by the caller",
};

/**
 * Who said no: the service, for the whole fleet; this process, by the same rules over what it
 * knows itself; or the caller's own limits.
 */
export type DeniedBy = "fleet" | "local" | "caller";

/** No. */
export interface Denial {
  readonly reason: DenialReason;
  readonly by: DeniedBy;
  /** When asking again makes sense, in milliseconds. `null`: the answer is final. */
  readonly retryAfter: number | null;
  /** One sentence with the numbers, for people. */
  readonly detail: string;
}

export function denial(
  by: DeniedBy,
  reason: DenialReason,
  detail = "",
  retryAfter: number | null = null,
): Denial {
  return { reason, by, retryAfter, detail: detail.slice(0, DETAIL_LENGTH_MAX) };
}

export function denialText({ reason, detail }: Denial): string {
  return detail === "" ? WORDS[reason] : `${WORDS[reason]}: ${detail}`;
}

/** The answer was no, and there is no error of an attempt to show. */
export class DeniedError extends Error {
  override readonly name = "DeniedError";
  readonly denial: Denial;
  /** Attempts that were made before. */
  readonly attempts: number;

  constructor(why: Denial, attempts = 0) {
    super(`${attempts === 0 ? "not called" : gaveUpAfter(attempts)}: ${denialText(why)}`);
    this.denial = why;
    this.attempts = attempts;
    remember(this, { ...why, attempts });
  }

  get reason(): DenialReason {
    return this.denial.reason;
  }

  /** Milliseconds, or `null`. */
  get retryAfter(): number | null {
    return this.denial.retryAfter;
  }
}

/** All attempts were cut off by a time limit: the deadline, the attempt's own, a probe's lease. */
export class TimedOutError extends Error {
  /** As of `AbortSignal.timeout`. */
  override readonly name = "TimeoutError";
  /** Why there was no further attempt. */
  readonly denial: Denial;
  readonly attempts: number;

  constructor(why: Denial, attempts: number) {
    super(`timed out: ${gaveUpAfter(attempts)}: ${denialText(why)}`);
    this.denial = why;
    this.attempts = attempts;
    remember(this, { ...why, attempts });
  }

  get reason(): DenialReason {
    return this.denial.reason;
  }

  /** Milliseconds, or `null`. */
  get retryAfter(): number | null {
    return this.denial.retryAfter;
  }
}

function gaveUpAfter(attempts: number): string {
  return `gave up after attempt ${attempts}`;
}

/** Why a call was given up. */
export interface Stopped extends Denial {
  /** Attempts that were made. */
  readonly attempts: number;
}

/** What a call leaves beside what it has thrown. */
export interface Mark {
  readonly why: Stopped;
  /** Its number. */
  readonly call: number;
  /** It has made more than one attempt, or a call within it has. */
  readonly hasRetried: boolean;
}

const marks = new WeakMap<object, Mark>();
let calls = 0;

/** Of a call that begins: all that are made within it have higher ones. */
export function numberOfCall(): number {
  calls += 1;
  return calls;
}

/** The number of the call that has begun last. */
export function newestCall(): number {
  return calls;
}

/**
 * Why there was no further attempt after this error, which a call has thrown. `undefined`: it
 * comes from no call, or is no object (`throw "text"`). Of an error that several calls have
 * thrown, it is that of the last one.
 */
export function stopped(error: unknown): Stopped | undefined {
  return markOf(error)?.why;
}

/** What a call after the `newest` one has left: an error may be shared, and an earlier call have thrown it too. */
export function markAfter(newest: number, error: unknown): Mark | undefined {
  const mark = markOf(error);
  return mark !== undefined && mark.call > newest ? mark : undefined;
}

/** What stands beside an error stands beside what it is passed on as. */
export function passOn(error: unknown, as: object): void {
  const mark = markOf(error);
  if (mark !== undefined) marks.set(as, mark);
}

function markOf(error: unknown): Mark | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  // Of a status, grpc-js makes an error of its own, and keeps only what the status held.
  const { metadata } = error as { metadata?: unknown };
  return (
    marks.get(error) ?? (typeof metadata === "object" && metadata !== null ? marks.get(metadata) : undefined)
  );
}

/** `call` is the number of the call that has ended so. What was made for it alone needs none. */
export function remember(error: unknown, why: Stopped, call = calls): void {
  if (typeof error !== "object" || error === null) return;
  const hasRetried = why.attempts > 1 || (markAfter(call, error)?.hasRetried ?? false);
  marks.set(error, { why, call, hasRetried });
}
