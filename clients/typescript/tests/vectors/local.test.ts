// The stories of a process that decides alone.

import assert from "node:assert/strict";
import type { DenialReason } from "../../src/denial.js";
import type { Outcome, OutcomeKind } from "../../src/outcome.js";
import { type JitterKind, OWN_POLICY, type Policy, type Strategy } from "../../src/rules/policy.js";
import { type LocalAnswer, type LocalPermit, LocalRecord, type Terms } from "../../src/rules/record.js";
import { millisOf } from "../../src/rules/time.js";
import { nanos, only, text, vectors } from "./files.js";

interface PolicySaid {
  max_attempts?: number | null;
  strategy?: Strategy;
  jitter?: JitterKind;
  jitter_proportion?: number;
  initial_delay_ns?: string;
  min_delay_ns?: string;
  min_attempt_time_ns?: string;
  budget_ratio_ppm?: number;
  floor_micros_per_second?: string;
  open_for_ns?: string;
  open_multiplier?: number;
  open_max_ns?: string;
  breaker_off?: boolean;
}

interface Step {
  do: "first" | "retry" | "confirm" | "report" | "told" | "let_go";
  now_ns: string;
  as?: string;
  attempt?: number;
  permit?: string;
  made?: "fleet";
  outcome?: OutcomeSaid;
  idempotent?: boolean;
  time_left_ns?: string | null;
  jitter?: number;
  spread?: number;
  reason?: DenialReason;
  retry_after_ns?: string | null;
  expected?: object;
}

const FIELDS = [
  ...["do", "now_ns", "as", "attempt", "permit", "made", "outcome", "idempotent", "time_left_ns"],
  ...["jitter", "spread", "reason", "retry_after_ns", "expected"],
];

interface OutcomeSaid {
  kind: OutcomeKind;
  pushback_ns?: string;
  restarts_backoff?: boolean;
  do_not_retry?: boolean;
  retried_below?: boolean;
}

interface Story {
  name: string;
  policy: PolicySaid;
  mode: "all" | "retries_only";
  steps: Step[];
}

vectors<Story>("local", 158, ({ policy: said, mode, steps, ...rest }) => {
  only(rest, "name");
  const policy = policyOf(said);
  const strictness = mode === "all" ? "all" : "retries-only";
  const record = new LocalRecord(BigInt(steps[0]?.now_ns ?? "0"));
  const permits = new Map<string, LocalPermit>();
  for (const step of steps) {
    only(step, ...FIELDS);
    const answer = play(record, { policy, strictness, timeLeft: nanos(step.time_left_ns) }, step, permits);
    if (answer !== null && "permit" in answer) permits.set(step.as ?? step.permit ?? "", answer.permit);
    assert.deepEqual(shown(answer), step.expected, JSON.stringify(step));
  }
});

function play(
  record: LocalRecord,
  terms: Terms,
  step: Step,
  permits: Map<string, LocalPermit>,
): LocalAnswer | null {
  const now = BigInt(step.now_ns);
  const draws = { jitter: step.jitter ?? 0, spread: step.spread ?? 0 };
  const permit = () => {
    const named = permits.get(step.permit ?? "");
    assert.ok(named, `no permit ${step.permit}`);
    return named;
  };
  switch (step.do) {
    case "first":
      return record.first(terms, now, draws);
    case "retry": {
      const made = step.made ?? permit();
      const isSafe = step.idempotent ?? true;
      return record.retry(
        terms,
        { attempt: step.attempt ?? 0, outcome: outcomeOf(step), isSafe, made },
        now,
        draws,
      );
    }
    case "confirm":
      return record.confirm(terms, permit(), now, draws.spread);
    case "report":
      record.report(terms, permit(), outcomeOf(step), now);
      return null;
    case "told": {
      const wait = nanos(step.retry_after_ns);
      assert.ok(step.reason);
      record.tell({ reason: step.reason, retryAfter: wait === null ? null : millisOf(wait) }, now);
      return null;
    }
    case "let_go":
      record.letGo(now);
      return null;
  }
}

function shown(answer: LocalAnswer | null): object | undefined {
  if (answer === null) return undefined;
  if ("reason" in answer)
    return { denied: { reason: answer.reason, retry_after_ns: text(answer.retryAfter) } };
  const { delay, probe, confirm } = answer;
  return { granted: { delay_ns: text(delay), probe, confirm } };
}

function outcomeOf({ outcome }: Step): Outcome {
  assert.ok(outcome);
  const { kind, pushback_ns, restarts_backoff, do_not_retry, retried_below, ...odd } = outcome;
  only(odd);
  const pushback = nanos(pushback_ns);
  return {
    kind,
    pushback: pushback === null ? undefined : millisOf(pushback),
    pushbackRestartsBackoff: restarts_backoff,
    doNotRetry: do_not_retry,
    retriedBelow: retried_below,
  };
}

function policyOf(said: PolicySaid): Policy {
  const { max_attempts, strategy, jitter, jitter_proportion, initial_delay_ns, min_delay_ns, ...more } = said;
  const { min_attempt_time_ns, budget_ratio_ppm, floor_micros_per_second, ...breaker } = more;
  const { open_for_ns, open_multiplier, open_max_ns, breaker_off, ...odd } = breaker;
  only(odd);
  const own = OWN_POLICY;
  return {
    ...own,
    backoff: {
      ...own.backoff,
      strategy: strategy ?? own.backoff.strategy,
      initialDelay: nanos(initial_delay_ns) ?? own.backoff.initialDelay,
      minDelay: nanos(min_delay_ns) ?? own.backoff.minDelay,
      jitter:
        jitter === undefined ? own.backoff.jitter : { kind: jitter, proportion: jitter_proportion ?? null },
    },
    budget: {
      ...own.budget,
      ratioPpm: budget_ratio_ppm ?? own.budget.ratioPpm,
      floorMicrosPerSecond: nanos(floor_micros_per_second) ?? own.budget.floorMicrosPerSecond,
    },
    maxAttempts: max_attempts === undefined ? own.maxAttempts : max_attempts,
    minAttemptTime: nanos(min_attempt_time_ns) ?? own.minAttemptTime,
    openFor: nanos(open_for_ns) ?? own.openFor,
    openMultiplier: open_multiplier ?? own.openMultiplier,
    openMax: nanos(open_max_ns) ?? own.openMax,
    breakerOff: breaker_off ?? own.breakerOff,
  };
}
