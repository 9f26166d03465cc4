// What all parts of one client share.

import type { Counting } from "./counters.js";
import type { Link } from "./link.js";
import type { Local } from "./local.js";
import type { Log } from "./log.js";
import type { OnNoDecision } from "./options.js";
import type { Policy } from "./rules/policy.js";

export interface Core {
  /** `null`: there is no service to ask, since it was taken out, or for tests. */
  readonly link: Link | null;
  /** Nothing is waited for. */
  readonly isTesting: boolean;
  readonly timeout: number;
  readonly onNoDecision: OnNoDecision;
  readonly local: Local;
  /** What is kept to where the service has said nothing. */
  readonly own: Policy;
  readonly now: () => number;
  readonly counting: Counting;
  readonly log: Log;
}

/** What is kept to without the service. */
export function policyOf({ link, own }: Core, dependency: string): Policy {
  return link?.pushed.policy(dependency) ?? own;
}

/** The service is not at hand, and this process decides: its own record is to see all that ends. */
export function isAlone({ link, onNoDecision }: Core): boolean {
  return link !== null && onNoDecision === "local" && !link.isAsked;
}

/** How much of the rules binds without the service. */
export function strictnessOf({ link, onNoDecision }: Core): "all" | "retries-only" {
  return link !== null && onNoDecision === "local" ? "all" : "retries-only";
}
