// Rules that need nothing but their arguments.

import assert from "node:assert/strict";
import { classifyGrpc } from "../../src/classify/grpc.js";
import { classifyHttpAt } from "../../src/classify/http.js";
import type { DenialReason } from "../../src/denial.js";
import type { Outcome, OutcomeKind } from "../../src/outcome.js";
import { ceilingOf, delayOf } from "../../src/rules/backoff.js";
import { BudgetCounts } from "../../src/rules/budget.js";
import { askAgainAfter, heldBackFor, shutFor, useOf, waitFor } from "../../src/rules/clamp.js";
import { Detector } from "../../src/rules/detector.js";
import type { JitterKind, Strategy } from "../../src/rules/policy.js";
import { parseGrpcPushback, parseRetryAfter } from "../../src/rules/pushback.js";
import { type Safety, settled } from "../../src/rules/settled.js";
import { millisOf, nanosOf } from "../../src/rules/time.js";
import { nanos, only, text, vectors } from "./files.js";

interface BackoffVector {
  name: string;
  policy: {
    strategy: Strategy;
    initial_delay_ns: string;
    multiplier: number;
    max_delay_ns: string;
    min_delay_ns: string;
    jitter: JitterKind;
    proportion?: number;
  };
  retry: number;
  previous_delay_ns: string;
  sample: number;
  expected: { ceiling_ns: string; delay_ns: string };
}

vectors<BackoffVector>(
  "backoff",
  121,
  ({ policy: said, retry, previous_delay_ns, sample, expected, ...rest }) => {
    only(rest, "name");
    const { strategy, initial_delay_ns, multiplier, max_delay_ns, min_delay_ns, jitter, proportion, ...odd } =
      said;
    only(odd);
    const policy = {
      strategy,
      initialDelay: BigInt(initial_delay_ns),
      multiplier,
      maxDelay: BigInt(max_delay_ns),
      minDelay: BigInt(min_delay_ns),
      jitter: { kind: jitter, proportion: proportion ?? null },
    };
    const shown = {
      ceiling_ns: text(ceilingOf(policy, retry)),
      delay_ns: text(delayOf(policy, retry, BigInt(previous_delay_ns), sample)),
    };
    assert.deepEqual(shown, expected);
  },
);

interface RetryAfterVector {
  name: string;
  value: string;
  date: string | null;
  wall_unix_seconds: number;
  expected_ns: string | null;
}

vectors<RetryAfterVector>("pushback_http", 49, ({ value, date, wall_unix_seconds, expected_ns, ...rest }) => {
  only(rest, "name");
  assert.equal(text(parseRetryAfter(value, date, wall_unix_seconds)), expected_ns);
});

interface GrpcPushbackVector {
  name: string;
  value: string;
  expected: { after_ns: string } | { do_not_retry: true };
}

vectors<GrpcPushbackVector>("pushback_grpc", 21, ({ value, expected, ...rest }) => {
  only(rest, "name");
  const wait = parseGrpcPushback(value);
  assert.deepEqual(wait === null ? { do_not_retry: true } : { after_ns: text(wait) }, expected);
});

interface BudgetVector {
  name: string;
  policy: { ratio: number; floor_per_second: number; ttl_ns: string };
  steps: {
    now_ns: string;
    do: "deposit" | "ask";
    count: number;
    expected?: { granted: number; first_attempts: number; retries: number; allowed: number };
  }[];
}

vectors<BudgetVector>("budget", 18, ({ policy: said, steps, ...rest }) => {
  only(rest, "name");
  only(said, "ratio", "floor_per_second", "ttl_ns");
  const policy = {
    ratioPpm: Math.round(said.ratio * 1e6),
    floorMicrosPerSecond: BigInt(Math.round(said.floor_per_second * 1e6)),
    ttl: BigInt(said.ttl_ns),
  };
  const counts = new BudgetCounts();
  for (const step of steps) {
    only(step, "now_ns", "do", "count", "expected");
    const now = BigInt(step.now_ns);
    if (step.do === "deposit") {
      counts.deposit(policy, now, step.count);
      continue;
    }
    let granted = 0;
    while (granted < step.count && counts.take(policy, now)) granted += 1;
    const { firstAttempts, retries, allowed } = counts.look(policy, now);
    const shown = { granted, first_attempts: firstAttempts, retries, allowed: Number(allowed) };
    assert.deepEqual(shown, step.expected);
  }
});

interface DetectorVector {
  name: string;
  steps: { now_ns: string; successes: number; failures: number; expected: { trips: boolean; sum: number } }[];
}

vectors<DetectorVector>("detector", 13, ({ steps, ...rest }) => {
  only(rest, "name");
  const detector = new Detector();
  for (const { now_ns, successes, failures, expected, ...odd } of steps) {
    only(odd);
    const trips = detector.record(successes, failures, BigInt(now_ns));
    assert.equal(trips, expected.trips, `trips at ${detector.sum}`);
    const isClose = expected.sum > 1000 || Math.abs(detector.sum - expected.sum) <= 0.01;
    assert.ok(isClose, `${detector.sum} is not ${expected.sum}`);
  }
});

interface HttpVector {
  name: string;
  status: number;
  headers: [string, string][];
  wall_unix_seconds: number;
  expected: { kind: OutcomeKind; status_code: number; pushback_ns: string | null };
}

vectors<HttpVector>("classify_http", 144, ({ status, headers, wall_unix_seconds, expected, ...rest }) => {
  only(rest, "name");
  const { kind, statusCode, pushback, ...odd } = classifyHttpAt({ status, headers }, wall_unix_seconds);
  only(odd);
  const shown = { kind, status_code: statusCode, pushback_ns: text(pushbackOf(pushback)) };
  assert.deepEqual(shown, expected);
});

function pushbackOf(millis: number | undefined): bigint | null {
  return millis === undefined ? null : nanosOf(millis);
}

interface GrpcVector {
  name: string;
  code: number;
  pushback: string[];
  expected: {
    kind: OutcomeKind;
    status_code: number;
    pushback_ns: string | null;
    restarts_backoff: boolean;
    do_not_retry: boolean;
  };
}

vectors<GrpcVector>("classify_grpc", 73, ({ code, pushback, expected, ...rest }) => {
  only(rest, "name");
  const outcome = classifyGrpc({ code, metadata: { get: () => pushback } });
  const shown = {
    kind: outcome.kind,
    status_code: outcome.statusCode,
    pushback_ns: text(pushbackOf(outcome.pushback)),
    restarts_backoff: outcome.pushbackRestartsBackoff ?? false,
    do_not_retry: outcome.doNotRetry ?? false,
  };
  assert.deepEqual(shown, expected);
});

interface OwnWordsVector {
  name: string;
  attempt: number;
  max_attempts: number;
  safety: Safety;
  previous: {
    kind: OutcomeKind;
    pushback_ns?: string;
    do_not_retry?: boolean;
    retried_below?: boolean;
  } | null;
  time_left_ns: string | null;
  expected: { refused: DenialReason | null };
}

vectors<OwnWordsVector>("own_words", 60, (vector) => {
  const { attempt, max_attempts, safety, previous, time_left_ns, expected, ...rest } = vector;
  only(rest, "name");
  only(previous ?? {}, "kind", "pushback_ns", "do_not_retry", "retried_below");
  const before: Outcome | null = previous && {
    kind: previous.kind,
    doNotRetry: previous.do_not_retry,
    retriedBelow: previous.retried_below,
  };
  const left = nanos(time_left_ns);
  const refused = settled(attempt, max_attempts, safety, before, left === null ? null : millisOf(left));
  assert.deepEqual({ refused }, expected);
});

interface ClampVector {
  name: string;
  wait?: { delay_ns: string; time_left_ns: string | null };
  lease?: { lease_ns: string };
  ask_again?: { reason: DenialReason; retry_after_ns: string | null; time_left_ns: string | null };
  held_back?: { known_clients: number; time_left_ns: string | null; sample: number };
  shut?: { failed_trials: number; sample: number };
  expected: object;
}

vectors<ClampVector>("clamp", 120, (vector) => {
  only(vector, "name", "wait", "lease", "ask_again", "shut", "held_back", "expected");
  assert.deepEqual(clamped(vector), vector.expected);
});

function clamped({ wait, lease, ask_again, shut, held_back }: ClampVector): object {
  if (wait !== undefined) {
    const waited = waitFor(BigInt(wait.delay_ns), nanos(wait.time_left_ns));
    return waited === null ? { denied: "DEADLINE" } : { wait_ns: text(waited) };
  }
  if (lease !== undefined) return { use_ns: text(useOf(BigInt(lease.lease_ns))) };
  if (ask_again !== undefined) {
    const { reason, retry_after_ns, time_left_ns } = ask_again;
    return { wait_ns: text(askAgainAfter(reason, nanos(retry_after_ns), nanos(time_left_ns))) };
  }
  if (held_back !== undefined) {
    const { known_clients, time_left_ns, sample } = held_back;
    return { held_ns: text(heldBackFor(known_clients, nanos(time_left_ns), sample)) };
  }
  assert.ok(shut);
  return { shut_ns: text(shutFor(shut.failed_trials, shut.sample)) };
}
