// Parts of the client by themselves: the gate, the course, the queue of reports, the clock, the stubs.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { Clock } from "../src/clock.js";
import { counting, Seldom } from "../src/counters.js";
import { unit } from "../src/entropy.js";
import { Gate } from "../src/gate.js";
import {
  AcquireRequestSchema,
  BreakerState,
  FirstAttempts,
  UpdateSchema,
} from "../src/gen/holdoff/v1/coordinator_pb.js";
import { Ask } from "../src/link/ask.js";
import { Course } from "../src/link/course.js";
import { Patience } from "../src/link/patience.js";
import { inMessages } from "../src/link/session.js";
import { Local } from "../src/local.js";
import { Pushed } from "../src/pushed.js";
import { Reports } from "../src/reports.js";
import { OWN_POLICY } from "../src/rules/policy.js";
import { nanosOf } from "../src/rules/time.js";
import { sleepUntil, timerOf } from "../src/timers.js";
import { repository } from "./vectors/files.js";

test("three_unanswered_questions_in_a_row_shut_the_gate_and_one_trial_decides", () => {
  const gate = new Gate();
  const fail = (now: number) => gate.enter(now)?.unanswered(now, 0);
  assert.deepEqual([fail(0), fail(0)], [false, false]);
  gate.enter(0)?.answered();
  assert.deepEqual([fail(0), fail(0), fail(0)], [false, false, true]);
  assert.equal(gate.enter(999), null);
  const trial = gate.enter(1_000);
  assert.equal(gate.enter(1_000), null, "only one trial");
  assert.equal(trial?.unanswered(1_000, 0), true);
  assert.equal(gate.enter(2_999), null, "twice as long");
  gate.enter(3_000)?.givenUp(3_000);
  assert.equal(gate.enter(3_000)?.answered(), true);
  assert.notEqual(gate.enter(3_000), null);
});

test("three_callers_in_all_wait_for_a_service_of_which_nothing_is_heard", () => {
  const patience = new Patience();
  const enter = (times: number) => Array.from({ length: times }, () => patience.enter());
  assert.deepEqual(enter(5), [true, true, true, false, false], "at once");
  patience.leave("answered");
  assert.deepEqual(enter(2), [true, false], "what was refused at once has cost nothing");
  for (let time = 0; time < 3; time++) patience.leave("late");
  assert.deepEqual(enter(1), [false], "and not again one after the other");
  patience.heard();
  assert.deepEqual(enter(5), [true, true, true, true, true]);
  for (let time = 0; time < 5; time++) patience.leave("late");
  patience.lost();
  assert.deepEqual(enter(4), [true, true, true, false], "the next connection");
});

test("a_service_that_is_heard_gets_one_trial_early", () => {
  const gate = new Gate();
  for (let time = 0; time < 3; time++) gate.enter(0)?.unanswered(0, 0.5);
  gate.heard(1);
  assert.equal(gate.enter(1)?.unanswered(1, 0.5), true, "the early trial");
  gate.heard(2);
  assert.equal(gate.enter(2), null, "no second one");
});

test("a_return_is_spread_within_five_seconds_growing_to_thirty_where_the_service_is_ill", () => {
  const course = new Course();
  const waits = Array.from({ length: 5 }, () => {
    course.ended(0, { kind: "broken", answered: false }, 0, 1);
    return course.notBefore;
  });
  assert.deepEqual(waits, [4_500, 9_000, 18_000, 30_000, 30_000]);
  for (let time = 0; time < 3; time++) course.nothingReachable(0, 1);
  assert.equal(course.notBefore, 4_500, "nobody listens");
  for (const [unit, wait] of [[0, 1_000] as const, [1, 4_500] as const]) {
    course.ended(1, { kind: "silent" }, 0, unit);
    assert.deepEqual([course.notBefore, course.start], [wait, 2]);
  }
});

test("successes_wait_ten_milliseconds_and_a_failure_takes_them_along_at_once", () => {
  const reports = new Reports(counting(), () => 1_000);
  reports.push(Buffer.from("p"), { kind: "success" });
  assert.equal(reports.dueAt, 1_010);
  reports.push(Buffer.from("p"), { kind: "timeout" });
  assert.equal(reports.dueAt, 1_000);
  assert.equal(reports.take()?.entries.length, 2);
});

test("starts_of_before_a_stream_deposit_nothing_repeated_or_not", () => {
  const reports = new Reports(counting(), () => 0);
  const count = () => reports.tally("a", { epoch: 1n, slowAfter: 0 }, { kind: "success" });
  const take = () => {
    const entry = reports.take()?.entries[0]?.entry;
    assert.equal(entry?.case, "tally");
    return [entry.value.firstAttempts, entry.value.successes];
  };
  count();
  assert.deepEqual(take(), [1, 1]);
  reports.broken();
  count();
  reports.streamBegins();
  assert.deepEqual(
    [take(), take()],
    [
      [0, 1],
      [0, 1],
    ],
  );
  count();
  assert.deepEqual(take(), [1, 1]);
});

test("counts_wait_up_to_a_second_and_a_failure_that_a_later_state_has_overtaken_too", () => {
  const on = { epoch: 1n, slowAfter: 0 };
  const failure = { kind: "failure" as const };
  const dueAfter = (tally: (reports: Reports) => void) => {
    const reports = new Reports(counting(), () => 0);
    tally(reports);
    return reports.dueAt ?? Number.NaN;
  };
  assert.equal(
    dueAfter((reports) => reports.tally("a", on, failure)),
    0,
  );
  for (let time = 0; time < 100; time++) {
    const late = dueAfter((reports) => reports.tallyLate("a", on, failure));
    const success = dueAfter((reports) => reports.tally("a", on, { kind: "success" }));
    for (const due of [late, success]) assert.ok(due >= 100 && due <= 1_000, `${due}`);
  }
});

test("cl5_the_queue_holds_ten_thousand_and_counts_what_it_drops", () => {
  const counts = counting();
  const reports = new Reports(counts, () => 0);
  for (let number = 0; number < 10_005; number++) reports.push(Buffer.from("p"), { kind: "success" });
  assert.equal(counts.reportsDropped, 5);
  for (let batch = 0; batch < 10; batch++) assert.equal(reports.take()?.entries.length, 1_000);
  assert.equal(reports.take(), null);
});

test("a_broken_stream_repeats_a_batch_once_under_its_number", () => {
  const counts = counting();
  const reports = new Reports(counts, () => 0);
  reports.push(Buffer.from("p"), { kind: "success" });
  const first = reports.take()?.sequence ?? 0n;
  reports.broken();
  reports.push(Buffer.from("p"), { kind: "success" });
  assert.deepEqual([reports.take()?.sequence, reports.take()?.sequence], [first, first + 1n]);
  reports.answered(first + 1n, true);
  reports.broken();
  assert.ok(reports.take() === null && reports.isEmpty);
  assert.deepEqual([counts.reported, counts.reportsDropped], [1, 1]);
});

test("a_message_holds_at_most_a_thousand_questions_and_what_the_service_takes", () => {
  const ask = (length: number) =>
    new Ask(create(AcquireRequestSchema, { callId: "x".repeat(length) }), () => {});
  const sizes = (count: number, length: number) =>
    inMessages(Array.from({ length: count }, () => ask(length))).map((group) => group.length);
  assert.deepEqual(sizes(2_100, 1), [1_000, 1_000, 100]);
  assert.deepEqual(sizes(30, 3_000), [21, 9]);
  assert.deepEqual(sizes(0, 0), []);
});

test("a_suspended_machine_ages_what_it_holds_and_a_stepped_wall_clock_does_not", () => {
  const clocks = { monotonic: 0, wall: 1e12, suspended: 0 };
  const clock = new Clock({
    monotonic: () => clocks.monotonic,
    wall: () => clocks.wall,
    suspended: () => clocks.suspended,
  });
  const after = (wall: number, suspended: number) => {
    clocks.monotonic += 10;
    clocks.wall += 10 + wall;
    clocks.suspended += suspended;
    return clock.now();
  };
  assert.equal(after(0, 0), 10);
  assert.equal(after(3_600_000, 0), 20, "stepped");
  assert.equal(after(60_000, 60_000), 60_030, "slept");
  assert.equal(after(-7_200_000, 0), 60_040, "stepped back");
});

test("a_timer_never_overflows_and_a_sleep_never_ends_early", async () => {
  assert.deepEqual(
    [timerOf(Number.POSITIVE_INFINITY), timerOf(2 ** 40), timerOf(-1), timerOf(0.2)],
    [2 ** 31 - 1, 2 ** 31 - 1, 0, 1],
  );
  for (let time = 0; time < 20; time++) {
    const at = performance.now() + 1.5;
    await sleepUntil(at, () => performance.now());
    assert.ok(performance.now() >= at);
  }
});

test("draws_are_uniform_and_one_warning_a_minute_passes", () => {
  const mean = Array.from({ length: 10_000 }, unit).reduce((sum, draw) => sum + draw, 0) / 10_000;
  assert.ok(mean > 0.48 && mean < 0.52, `${mean}`);
  const seldom = new Seldom();
  assert.deepEqual([seldom.isDue(0), seldom.isDue(59_999), seldom.isDue(60_000)], [true, false, true]);
});

test("cl5_ten_thousand_dependencies_are_known_and_those_unknown_share_one_record", () => {
  let now = 0;
  const local = new Local(() => now);
  const records = new Set(Array.from({ length: 10_010 }, (_, number) => local.record(`d${number}`)));
  assert.equal(records.size, 10_001);
  now = 700_000;
  const fresh = local.record("fresh");
  assert.ok(!records.has(fresh));
  const terms = { policy: OWN_POLICY, strictness: "all" as const, timeLeft: null };
  assert.ok("permit" in fresh.first(terms, nanosOf(now), { jitter: 0, spread: 0 }));
});

test("what_is_called_no_longer_is_left_once_and_its_policy_is_kept", () => {
  let now = 0;
  const pushed = new Pushed(() => now, OWN_POLICY, ["wished"]);
  const update = () =>
    pushed.store(
      create(UpdateSchema, {
        dependency: "payments",
        state: BreakerState.CLOSED,
        firstAttempts: FirstAttempts.GO,
        policy: { maxAttempts: 7 },
      }),
    );
  update();
  now = 600_000;
  assert.deepEqual(pushed.followed(), ["wished"]);
  assert.deepEqual([pushed.leaveIdle(), pushed.leaveIdle()], [["payments"], []]);
  assert.equal(pushed.policy("payments").maxAttempts, 7);
  pushed.word("payments");
  update();
  now += 600_000;
  assert.deepEqual(pushed.leaveIdle(), ["payments"]);
});

test("the_messages_are_what_the_contract_makes_them", () => {
  const client = join(repository, "clients/typescript");
  const folder = mkdtempSync(join(tmpdir(), "holdoff-gen-"));
  after(() => rmSync(folder, { recursive: true }));
  const out = join(folder, "gen");
  execFileSync(process.execPath, [join(client, "scripts/generate.js"), out], { stdio: "pipe" });
  const files = (folder: string) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name).slice(folder.length))
      .sort();
  const committed = join(client, "src/gen");
  assert.deepEqual(files(out), files(committed));
  for (const file of files(out))
    assert.equal(readFileSync(out + file, "utf8"), readFileSync(committed + file, "utf8"), file);
});
