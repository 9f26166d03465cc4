// What a client does beside the state that is pushed: in a huge fleet, and after it went on alone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, type ClientOptions, type Denial, type Permit, stopped } from "../src/index.js";
import { deniedFor, granted, Scripted, type Update } from "./server.js";

const HUGE = 100_000;

/** First attempts go, in a fleet of so many. */
function go(epoch: bigint, knownClients: number, validFor = { seconds: 15n, nanos: 0 }): Update {
  return {
    ...{ dependency: "payments", state: 1, firstAttempts: 1, epoch },
    validFor,
    policy: { maxAttempts: 3, strategy: 1, jitter: 1, initialDelay: { seconds: 0n, nanos: 20_000_000 } },
    offlineAllowance: { retriesPerSecond: 1_000, knownClients },
  };
}

function refuse(epoch: bigint, validFor?: { seconds: bigint; nanos: number }): Update {
  return { ...go(epoch, HUGE, validFor), state: 2, firstAttempts: 3 };
}

async function following(service: Scripted, options: ClientOptions = {}): Promise<Client> {
  const endpoints = [service.endpoint];
  const client = new Client({ endpoints, follow: ["payments"], timeout: 2_000, ...options });
  assert.ok(await client.connect());
  return client;
}

/** A client that hears a GO, and that knows that the service is away once `lose` has returned. */
async function losing(options: ClientOptions = {}) {
  const service = await Scripted.start({ updates: [go(7n, 1)] });
  let isAway = () => {};
  const away = new Promise<void>((resolve) => {
    isAway = resolve;
  });
  const client = await following(service, { logger: { info: () => {}, warn: isAway }, ...options });
  const lose = async () => {
    service[Symbol.dispose]();
    await away;
  };
  return { service, client, lose };
}

async function first(client: Client): Promise<Permit> {
  return client.acquire("payments", { idempotent: true });
}

function isOpenHere(error: unknown): boolean {
  const { reason, by } = stopped(error) ?? {};
  return reason === "BREAKER_OPEN" && by === "local";
}

/** And the retry is granted here. */
async function fails(permit: Permit): Promise<void> {
  const again = await permit.retry("failure");
  assert.ok(again.isLocal);
  again.drop();
}

interface Ended {
  readonly took: number;
  readonly why: Denial | undefined;
}

/** Calls that all fail now, and how each ended; a second attempt succeeds. */
function failTogether(client: Client, count: number): Promise<Ended[]> {
  const begun = performance.now();
  const calls = Array.from({ length: count }, async () => {
    const operation = ({ number }: { number: number }) => {
      if (number === 1) throw new Error("boom");
    };
    const error = await client.call("payments", operation, { idempotent: true }).catch((error) => error);
    return { took: performance.now() - begun, why: stopped(error) };
  });
  return Promise.all(calls);
}

function sleep(millis: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, millis));
}

function tallied(service: Scripted): { starts: number; failures: number } {
  let [starts, failures] = [0, 0];
  for (const { entry } of service.reports.flatMap(({ entries }) => entries)) {
    if (entry.case !== "tally") continue;
    starts += entry.value.firstAttempts;
    failures += entry.value.failures;
  }
  return { starts, failures };
}

test("a_huge_fleet_asks_within_a_second_and_its_retries_are_no_later_for_it", async () => {
  for (const knownClients of [5_000, HUGE]) {
    using service = await Scripted.start({
      updates: [go(7n, knownClients)],
      answer: () => granted({ delay: { seconds: 1n, nanos: 200_000_000 } }),
    });
    await using client = await following(service);
    const failing = failTogether(client, 200);
    await sleep(475);
    const half = service.asked.length;
    if (knownClients === HUGE) assert.ok(half > 50 && half < 160, `${half}`);
    else assert.equal(half, 200);
    for (const { took, why } of await failing) {
      assert.equal(why, undefined);
      assert.ok(took >= 1_199 && took < 1_500, `${took}`);
    }
    assert.equal(service.asked.length, 200);
  }
});

test("a_trip_answers_the_questions_that_a_huge_fleet_holds_back", async () => {
  using service = await Scripted.start({ updates: [go(7n, HUGE)], answer: () => deniedFor(9) });
  await using client = await following(service);
  const failing = failTogether(client, 100);
  await sleep(300);
  // The same epoch answers nothing, a later one does.
  service.push(refuse(7n));
  await sleep(50);
  assert.ok(service.asked.length < 80, `${service.asked.length}`);
  service.push(refuse(8n));
  const answered = (await failing).filter(({ why }) => why?.reason === "BREAKER_OPEN");
  assert.equal(answered.length + service.asked.length, 100);
  for (const { why, took } of answered) {
    assert.equal(why?.by, "fleet");
    assert.ok(why.retryAfter !== null && why.retryAfter > 14_000, `${why.retryAfter}`);
    assert.ok(took < 700, `${took}`);
  }
  assert.ok(await client.flush());
  assert.deepEqual(tallied(service), { starts: answered.length, failures: answered.length });
});

test("a_trip_that_came_before_the_failure_answers_it_and_a_waiting_call_tells_it_with_its_next_question", async () => {
  using service = await Scripted.start({ updates: [go(7n, 2 ** 32 - 1)] });
  await using client = await following(service);
  const operation = async ({ number }: { number: number }) => {
    if (number > 1) return "done";
    service.push(refuse(8n, { seconds: 0n, nanos: 300_000_000 }));
    await sleep(50);
    throw new Error("boom");
  };
  const options = { idempotent: true, onDenied: "wait" as const };
  assert.equal(await client.call("payments", operation, options), "done");
  assert.ok(await client.flush());
  assert.deepEqual(
    service.asked.map(({ attempt, previous }) => [attempt, previous?.madeUnder]),
    [[2, { case: "epoch", value: 7n }]],
  );
  assert.deepEqual(tallied(service), { starts: 0, failures: 0 });
});

test("a_huge_fleet_holds_nothing_back_beyond_its_callers_time_nor_from_who_gives_up", async () => {
  using service = await Scripted.start({ updates: [go(7n, 2 ** 32 - 1)] });
  await using client = await following(service);
  for (let time = 0; time < 10; time++) {
    const permit = await client.acquire("payments", { idempotent: true, deadline: 40 });
    const begun = performance.now();
    await permit.retry("failure").catch(() => undefined);
    assert.ok(performance.now() - begun < 120);
  }
  const stop = new AbortController();
  let begun = 0;
  const operation = () => {
    begun = performance.now();
    setTimeout(() => stop.abort(), 1);
    throw new Error("boom");
  };
  const call = client.call("payments", operation, { idempotent: true, signal: stop.signal });
  await assert.rejects(call, { name: "AbortError" });
  assert.ok(performance.now() - begun < 120);
});

test("an_attempt_made_alone_is_told_under_the_epoch_of_its_start_at_any_attempt", async () => {
  let silent = 2;
  using service = await Scripted.start({
    updates: [go(7n, 1)],
    answer: () => (silent-- > 0 ? null : granted()),
  });
  await using client = new Client({ endpoints: [service.endpoint], follow: ["payments"] });
  assert.ok(await client.connect());
  const isLocal: boolean[] = [];
  const call = client.call(
    "payments",
    (attempt) => {
      isLocal.push(attempt.isLocal);
      if (attempt.number === 2) service.push(go(9n, 1));
      if (attempt.number < 3) throw new Error("boom");
    },
    { idempotent: true, maxAttempts: 5 },
  );
  await call;
  assert.ok(await client.flush());
  const told = service.asked.map(({ attempt, previous }) => [attempt, previous?.madeUnder.value]);
  assert.deepEqual(told.slice(0, 2), [
    [2, 7n],
    [3, 7n],
  ]);
  assert.deepEqual(isLocal.slice(0, 2), [false, true]);
});

test("what_a_go_lets_go_while_the_service_is_away_counts_all", async () => {
  const { client, lose } = await losing();
  await using _ = client;
  await lose();
  for (let call = 0; call < 80; call++) {
    const permit = await first(client);
    assert.ok(permit.isLocal);
    if (call % 8 === 0) await fails(permit);
    else permit.report("success");
  }
  const { pushedGrants, localGrants, localDenials } = client.counters;
  assert.deepEqual(
    { pushedGrants, localGrants, localDenials },
    { pushedGrants: 0, localGrants: 90, localDenials: 0 },
  );
});

test("what_a_go_lets_go_while_the_service_is_away_lets_no_outage_through", async () => {
  const { client, lose } = await losing();
  await using _ = client;
  await lose();
  for (let call = 0; call < 5; call++) (await first(client)).report("failure");
  await assert.rejects(first(client), isOpenHere);
});

test("a_service_that_answers_with_errors_is_not_at_hand_though_its_connection_stands", async () => {
  using service = await Scripted.start({ updates: [go(7n, 1)], answer: () => ({ code: 14 }) });
  await using client = await following(service);
  assert.ok(!(await first(client)).isLocal);
  for (let question = 0; question < 3; question++) await client.acquire("orders");
  assert.ok((await first(client)).isLocal);
  assert.equal(client.counters.connections, 1);
});

test("what_was_under_way_at_the_loss_counts_alone_too_and_once", async () => {
  const { client, lose } = await losing();
  await using _ = client;
  const begin = (count: number) => Promise.all(Array.from({ length: count }, () => first(client)));
  const [retried, unsafe, good] = [await begin(2), await client.acquire("payments"), await begin(20)];
  assert.ok(!unsafe.isLocal);
  await lose();
  for (const permit of retried) await fails(permit);
  await assert.rejects(unsafe.retry("failure"), { reason: "RETRY_UNSAFE" });
  for (const permit of good) permit.report("success");
  // Five in a row open the breaker; four do not, and the three before are made good.
  for (let call = 0; call < 4; call++) await fails(await first(client));
  const last = await first(client);
  assert.ok(last.isLocal);
  last.report("failure");
  await assert.rejects(first(client), isOpenHere);
});

test("a_failure_under_way_at_the_loss_counts_once_however_it_ends", async () => {
  const { client, lose } = await losing();
  await using _ = client;
  const [a, b] = [await first(client), await first(client)];
  const [c, d] = [await client.acquire("payments"), await client.acquire("payments")];
  await lose();
  await fails(a);
  const asLong = b.retry({ kind: "failure", pushback: 1e9 });
  await assert.rejects(asLong, { reason: "PUSHBACK_TOO_LONG" });
  for (const permit of [c, d]) await assert.rejects(permit.retry("failure"), { reason: "RETRY_UNSAFE" });
  const fifth = await first(client);
  fifth.report("failure");
  await assert.rejects(first(client), isOpenHere);
});

test("a_go_is_the_fleets_decision_where_this_process_must_not_decide", async () => {
  for (const onNoDecision of ["allow", "deny"] as const) {
    const { client, lose } = await losing({ onNoDecision });
    await using _ = client;
    await lose();
    for (let call = 0; call < 10; call++) {
      const permit = await first(client);
      assert.ok(!permit.isLocal);
      permit.report("failure");
    }
    assert.deepEqual([client.counters.pushedGrants, client.counters.localGrants], [10, 0]);
  }
});
