// What a client makes of the words of the service, and what it tells it.

import assert from "node:assert/strict";
import { create } from "@bufbuild/protobuf";
import {
  AcquireResponseSchema,
  ClientPolicySchema,
  OfflineAllowanceSchema,
  UpdateSchema,
} from "../../src/gen/holdoff/v1/coordinator_pb.js";
import type { OutcomeKind } from "../../src/outcome.js";
import { readPolicy } from "../../src/pushed/policy.js";
import { Heard, type Sought } from "../../src/pushed/update.js";
import { OWN_POLICY } from "../../src/rules/policy.js";
import { millisOf, nanosOf, SECOND } from "../../src/rules/time.js";
import { Tallies } from "../../src/tally.js";
import { readAnswer } from "../../src/wire/read.js";
import { nanos, number, only, text, vectors } from "./files.js";

interface WireDuration {
  seconds: string;
  nanos: number;
}

function duration(said: WireDuration | undefined): { seconds: bigint; nanos: number } | undefined {
  if (said === undefined) return undefined;
  only(said, "seconds", "nanos");
  return { seconds: BigInt(said.seconds), nanos: said.nanos };
}

/** Without the fields that are absent. */
function present<T extends object>(fields: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]: Exclude<T[K], undefined> };
}

interface AnswerVector {
  name: string;
  attempt: number;
  response: {
    state: number;
    grant?: {
      delay?: WireDuration;
      permit_bytes?: number;
      permit_ttl?: WireDuration;
      probe?: boolean;
      confirm?: boolean;
      attempt_timeout?: WireDuration;
    };
    denial?: { reason: number; retry_after?: WireDuration };
  };
  expected: object;
}

vectors<AnswerVector>("answer", 91, ({ attempt, response, expected, ...rest }) => {
  only(rest, "name");
  only(response, "state", "grant", "denial");
  const { grant, denial } = response;
  only(grant ?? {}, "delay", "permit_bytes", "permit_ttl", "probe", "confirm", "attempt_timeout");
  only(denial ?? {}, "reason", "retry_after");
  const message = create(AcquireResponseSchema, { state: response.state });
  if (grant !== undefined) {
    const value = present({
      delay: duration(grant.delay),
      permit: new Uint8Array(grant.permit_bytes ?? 0),
      permitTtl: duration(grant.permit_ttl),
      probe: grant.probe,
      confirm: grant.confirm,
      attemptTimeout: duration(grant.attempt_timeout),
    });
    message.verdict = create(AcquireResponseSchema, { verdict: { case: "grant", value } }).verdict;
  } else if (denial !== undefined) {
    const value = present({ reason: denial.reason, retryAfter: duration(denial.retry_after) });
    message.verdict = create(AcquireResponseSchema, { verdict: { case: "denial", value } }).verdict;
  }
  assert.deepEqual(shownAnswer(readAnswer(message), attempt), expected);
});

function shownAnswer(answer: ReturnType<typeof readAnswer>, attempt: number): object {
  switch (answer.kind) {
    case "granted":
      return {
        granted: {
          delay_ns: text(answer.delay),
          permit_ttl_ns: text(answer.permitTtl),
          probe: answer.probe,
          confirm: answer.confirm,
          attempt_timeout_ns: text(answer.attemptTimeout),
        },
      };
    case "denied":
      return { denied: { reason: answer.denial.reason, retry_after_ns: text(answer.retryAfter) } };
    case "unreadable":
      return answer.isWithoutDelay && attempt > 1 ? { stops: "UNREADABLE" } : { no_decision: true };
  }
}

interface ClientPolicyVector {
  name: string;
  said: Record<string, WireDuration | number | string | boolean> | null;
  allowance: { retries_per_second: number | string } | null;
  expected: object;
}

const NUMBERS = [
  "max_attempts",
  "strategy",
  "multiplier",
  "jitter",
  "jitter_proportion",
  "budget_ratio",
  "open_multiplier",
];
const SPANS = [
  "initial_delay",
  "max_delay",
  "min_delay",
  "min_attempt_time",
  "pushback_max",
  "pushback_spread",
  "budget_ttl",
  "open_for",
  "open_max",
  "slow_after",
];

vectors<ClientPolicyVector>("client_policy", 168, ({ said, allowance, expected, ...rest }) => {
  only(rest, "name");
  only(said ?? {}, ...NUMBERS, ...SPANS, "breaker_off");
  only(allowance ?? {}, "retries_per_second");
  const fields = Object.entries(said ?? {}).map(([name, value]) => [
    name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()),
    readField(name, value),
  ]);
  const policy = readPolicy(
    said === null ? undefined : create(ClientPolicySchema, Object.fromEntries(fields)),
    allowance === null
      ? undefined
      : create(OfflineAllowanceSchema, { retriesPerSecond: number(allowance.retries_per_second) }),
    OWN_POLICY,
  );
  const { backoff, budget } = policy;
  const shown = {
    max_attempts: policy.maxAttempts,
    strategy: backoff.strategy,
    initial_delay_ns: text(backoff.initialDelay),
    multiplier: backoff.multiplier,
    max_delay_ns: text(backoff.maxDelay),
    min_delay_ns: text(backoff.minDelay),
    jitter: backoff.jitter.kind,
    jitter_proportion: backoff.jitter.proportion,
    min_attempt_time_ns: text(policy.minAttemptTime),
    pushback_max_ns: text(policy.pushbackMax),
    pushback_spread_ns: text(policy.pushbackSpread),
    budget_ratio_ppm: budget.ratioPpm,
    budget_ttl_ns: text(budget.ttl),
    open_for_ns: text(policy.openFor),
    open_multiplier: policy.openMultiplier,
    open_max_ns: text(policy.openMax),
    slow_after_ns: text(policy.slowAfter),
    breaker_off: policy.breakerOff,
    floor_micros_per_second: text(budget.floorMicrosPerSecond),
  };
  assert.deepEqual(shown, expected);
});

function readField(name: string, value: WireDuration | number | string | boolean) {
  if (name === "breaker_off") return value;
  return SPANS.includes(name) ? duration(value as WireDuration) : number(value as number);
}

interface PushedVector {
  name: string;
  update: { state: number; first_attempts: number; epoch: number; valid_for?: WireDuration };
  after_ns: string;
  waiting?: { granted_in: number; attempt: number };
  alone?: { sought: Sought; since: number | null };
  expected: object;
}

vectors<PushedVector>("pushed", 184, ({ update: said, after_ns, waiting, alone, expected, ...rest }) => {
  only(rest, "name");
  only(said, "state", "first_attempts", "epoch", "valid_for");
  only(waiting ?? {}, "granted_in", "attempt");
  const { state, first_attempts: firstAttempts, epoch, valid_for } = said;
  const validFor = duration(valid_for);
  const update = create(UpdateSchema, present({ state, firstAttempts, epoch: BigInt(epoch), validFor }));
  const heard = new Heard(update, OWN_POLICY, 0);
  const after = millisOf(BigInt(after_ns));
  if (waiting !== undefined) {
    const epochOfGrant = BigInt(waiting.granted_in);
    const dropped = heard.dropped(epochOfGrant, waiting.attempt, after)?.reason ?? null;
    assert.deepEqual({ dropped, confirmed: heard.standsBy(epochOfGrant, after) }, expected);
    return;
  }
  if (alone !== undefined) {
    only(alone, "sought", "since");
    const since = alone.since === null ? null : BigInt(alone.since);
    const denied = heard.refusedAlone(alone.sought, since, after);
    const refused = denied && {
      reason: denied.reason,
      retry_after_ns: text(nanosOf(denied.retryAfter ?? 0)),
    };
    assert.deepEqual({ refused }, expected);
    return;
  }
  const word = heard.word(after);
  if (word === null) assert.deepEqual({ word: "ask" }, expected);
  else if ("epoch" in word) assert.deepEqual({ word: "go", epoch: Number(word.epoch) }, expected);
  else {
    const retry_after_ns = text(nanosOf(word.retryAfter ?? 0));
    assert.deepEqual({ word: "refuse", reason: word.reason, retry_after_ns }, expected);
  }
});

interface Ended {
  dependency: string;
  epoch: number;
  kind: OutcomeKind;
  latency_ns: string | null;
  slow_after_ns: string;
}

interface TallyVector {
  name: string;
  ended: (Ended | { stream_begins: true })[];
  expected: { dependency: string; epoch: number }[];
}

vectors<TallyVector>("tally", 22, ({ ended, expected, ...rest }) => {
  only(rest, "name");
  const tallies = new Tallies();
  for (const step of ended) {
    if ("stream_begins" in step) {
      only(step, "stream_begins");
      tallies.forgetStarts();
      continue;
    }
    const { dependency, epoch, kind, latency_ns, slow_after_ns, ...odd } = step;
    only(odd);
    const latency = nanos(latency_ns);
    const on = { epoch: BigInt(epoch), slowAfter: millisOf(BigInt(slow_after_ns)) };
    const outcome = { kind, latency: latency === null ? undefined : millisOf(latency) };
    assert.ok(tallies.note(dependency, on, outcome));
  }
  const shown = tallies.take(Number.MAX_SAFE_INTEGER).map(({ entry }) => {
    assert.equal(entry.case, "tally");
    const { dependency, epoch, firstAttempts, latencySum, ...counts } = entry.value;
    const { successes, failures, timeouts, throttled, rejected, slow, ignored } = counts;
    return {
      dependency,
      epoch: Number(epoch),
      first_attempts: firstAttempts,
      ...{ successes, failures, timeouts, throttled, rejected, slow, ignored },
      latency_sum_ns: text((latencySum?.seconds ?? 0n) * SECOND + BigInt(latencySum?.nanos ?? 0)),
    };
  });
  shown.sort((a, b) => a.dependency.localeCompare(b.dependency) || a.epoch - b.epoch);
  assert.deepEqual(shown, expected);
});
