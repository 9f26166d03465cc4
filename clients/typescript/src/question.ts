// What a caller says about a call before it makes it.

import type { Core } from "./core.js";
import { isName, NAME_ALLOWED, refuseUnknown, SettingError } from "./options.js";
import type { Safety } from "./rules/settled.js";
import type { Priority } from "./wire/write.js";

/** Times are milliseconds. */
export interface QuestionOptions {
  /** Executing it twice is the same as once; not so unless said. */
  readonly idempotent?: boolean;
  /** It carries a key by which the dependency tells a repetition: as idempotent. */
  readonly keyed?: boolean;
  /** How long the caller waits in all, delays and attempts together. No end unless said. */
  readonly deadline?: number;
  /** The caller's own limit, the first call included; 10 unless said, `Infinity`: none. */
  readonly maxAttempts?: number;
  /** One attempt is given up, as timed out, after so long. No limit unless said. */
  readonly attemptTimeout?: number;
  /** Who goes first when there is not room for all; `normal` unless said. */
  readonly priority?: Priority;
  /** What it takes from a rate limit; 1 unless said. */
  readonly cost?: number;
  /** A name of this call of at most 128 bytes; drawn at random unless said. */
  readonly callId?: string;
  /** The caller gives it up when this is aborted. */
  readonly signal?: AbortSignal;
}

export interface Question {
  readonly dependency: string;
  readonly safety: Safety;
  readonly deadline: number;
  readonly maxAttempts: number;
  readonly attemptTimeout: number;
  readonly priority: Priority;
  readonly cost: number;
  readonly callId: string | undefined;
  readonly signal: AbortSignal | undefined;
}

const ATTEMPTS = 10;
const COST_MAX = 1_000_000;
const CALL_ID_BYTES_MAX = 128;

/** Of a question, and of a call: the rest is looked at there. */
const OPTIONS: Readonly<Record<string, true>> = {
  idempotent: true,
  keyed: true,
  deadline: true,
  maxAttempts: true,
  attemptTimeout: true,
  priority: true,
  cost: true,
  callId: true,
  signal: true,
  onDenied: true,
  classify: true,
  fallback: true,
};

const PRIORITIES: readonly Priority[] = ["low", "normal", "high"];

/** What is of another type is no number, whatever it would be read as. */
function isAtLeast(least: number, value: unknown): boolean {
  return typeof value === "number" && value >= least;
}

export function refuseOtherThan(name: string, value: unknown, allowed: readonly string[]): void {
  if (value !== undefined && !allowed.some((one) => one === value)) {
    throw new SettingError(name, value, allowed.join(", "));
  }
}

/** In a bypass nothing is coordinated, and no name is too odd for that. */
export function checkName(core: Core, dependency: unknown): void {
  const isBypassed = core.link === null && !core.isTesting;
  if (isName(dependency) || (isBypassed && typeof dependency === "string")) return;
  throw new SettingError("dependency", dependency, NAME_ALLOWED);
}

/** No limit is Infinity. */
export function readQuestion(core: Core, dependency: string, options: QuestionOptions): Question {
  checkName(core, dependency);
  refuseUnknown("option", options, OPTIONS);
  refuseOtherThan("priority", options.priority, PRIORITIES);
  const { deadline = Number.POSITIVE_INFINITY, attemptTimeout = Number.POSITIVE_INFINITY } = options;
  const { maxAttempts = ATTEMPTS, cost = 0 } = options;
  if (!isAtLeast(0, deadline)) throw new SettingError("deadline", deadline, "milliseconds, 0 or more");
  if (!isAtLeast(0, attemptTimeout))
    throw new SettingError("attemptTimeout", attemptTimeout, "milliseconds, 0 or more");
  if (!isAtLeast(1, maxAttempts)) throw new SettingError("maxAttempts", maxAttempts, "1 or more");
  if (!(cost >= 0 && cost <= COST_MAX && Number.isInteger(cost))) {
    throw new SettingError("cost", cost, "a whole number, 0 to 1000000");
  }
  if (options.callId !== undefined && Buffer.byteLength(options.callId) > CALL_ID_BYTES_MAX) {
    throw new SettingError("callId", options.callId, "a text of at most 128 bytes");
  }
  return {
    dependency,
    safety: options.keyed ? "keyed" : options.idempotent ? "idempotent" : "unsafe",
    deadline,
    maxAttempts: Math.floor(maxAttempts),
    attemptTimeout,
    priority: options.priority ?? "normal",
    cost,
    callId: options.callId,
    signal: options.signal,
  };
}
