// A service that lies: the user's call is completed all the same.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";
import { Client, DeniedError, stopped } from "../src/index.js";
import { type Answer, deniedFor, granted, Scripted, type Update } from "./server.js";

const YEAR = { seconds: 365n * 86_400n, nanos: 0 };
const LONGEST = { seconds: 315_576_000_000n, nanos: 999_999_999 };

/** A small generator with a seed, so that what it finds can be found again. */
function generator(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function pick<T>(below: (n: number) => number, values: readonly T[]): T {
  return values[below(values.length)] as T;
}

const DURATIONS = [
  undefined,
  { seconds: 0n, nanos: 0 },
  { seconds: 0n, nanos: 1_000_000 },
  { seconds: -1n, nanos: 0 },
  { seconds: 0n, nanos: -5 },
  { seconds: 0n, nanos: 2_000_000_000 },
  { seconds: 2n ** 63n - 1n, nanos: 0 },
  YEAR,
  LONGEST,
];

/** Without fields that are undefined. */
function fields(all: Record<string, unknown>): object {
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

function oddAnswer(below: (n: number) => number): Answer | null {
  const state = pick(below, [0, 1, 2, 3, 5, 6, 7, 99, -1]);
  const epoch = pick(below, [0n, 1n, 2n ** 64n - 1n]);
  const duration = () => pick(below, DURATIONS);
  const permit = pick(below, [Buffer.alloc(0), Buffer.alloc(48), Buffer.alloc(100_000)]);
  switch (below(4)) {
    case 0:
      return { state, epoch };
    case 1: {
      const reason = pick(below, [0, 2, 4, 6, 9, 10, 17, 18, 20, 99, -1]);
      const value = fields({ reason, retryAfter: duration(), detail: "é".repeat(pick(below, [0, 1 << 19])) });
      return { verdict: { case: "denial", value }, state, epoch } as Answer;
    }
    case 2:
      return null;
    default: {
      const value = fields({
        delay: duration(),
        permitTtl: duration(),
        attemptTimeout: duration(),
        permit,
        probe: below(2) === 1,
        confirm: below(2) === 1,
      });
      return { verdict: { case: "grant", value }, state, epoch } as Answer;
    }
  }
}

function oddUpdate(below: (n: number) => number): Update {
  const duration = () => pick(below, DURATIONS);
  const number = () => pick(below, [Number.NaN, Number.POSITIVE_INFINITY, -1, 0, 1e300]);
  return fields({
    dependency: pick(below, ["payments", "", "x".repeat(300), "other"]),
    state: pick(below, [0, 1, 2, 5, 99, -1]),
    firstAttempts: pick(below, [0, 1, 2, 3, 99]),
    epoch: pick(below, [0n, 7n, 2n ** 64n - 1n]),
    validFor: duration(),
    policy: fields({
      maxAttempts: pick(below, [0, 1, 4_294_967_295]),
      strategy: 99,
      jitter: -3,
      multiplier: number(),
      budgetRatio: number(),
      openMultiplier: number(),
      initialDelay: duration(),
      maxDelay: duration(),
      openFor: duration(),
      breakerOff: below(2) === 1,
    }),
    offlineAllowance: fields({
      retriesPerSecond: number(),
      knownClients: pick(below, [0, 5_000, 2 ** 32 - 1]),
    }),
  }) as Update;
}

test("cl4_whatever_a_service_says_a_call_ends_in_time_with_its_value_or_its_own_error", async () => {
  const seed = Number(process.env["SEED"] ?? Date.now() % 100_000);
  const below = generator(seed);
  using service = await Scripted.start({
    answer: () => {
      service.push(oddUpdate(below));
      return oddAnswer(below);
    },
  });
  for (let round = 0; round < 20; round++) {
    await using client = new Client({ endpoints: [service.endpoint] });
    await client.connect();
    const calls = Array.from({ length: 20 }, async (_, index) => {
      const isGood = index % 2 === 0;
      const begun = performance.now();
      const run = () => (isGood ? "value" : Promise.reject(new Error("boom")));
      const ended = await client
        .call("payments", run, { idempotent: true, deadline: 300 })
        .catch((e: unknown) => e);
      const took = performance.now() - begun;
      assert.ok(took < 800, `seed ${seed}: it took ${took} ms`);
      const isOwn = ended instanceof Error && ended.message === "boom" && stopped(ended) !== undefined;
      // Readable refusals are obeyed; but nothing else comes out of it.
      assert.ok(ended === "value" || isOwn || ended instanceof DeniedError, `seed ${seed}: ${String(ended)}`);
    });
    await Promise.all(calls);
  }
});

test("b04d_a_retry_that_is_granted_without_a_delay_ends_the_call_with_its_last_error", async () => {
  using service = await Scripted.start({
    answer: ({ attempt }) =>
      attempt === 1 ? granted() : { verdict: { case: "grant", value: {} }, state: 1 },
  });
  await using client = new Client({ endpoints: [service.endpoint], timeout: 1_000 });
  await client.connect();
  let runs = 0;
  for (let call = 0; call < 100; call++) {
    const error = new Error("503");
    const run = () => {
      runs += 1;
      throw error;
    };
    await assert.rejects(client.call("payments", run, { idempotent: true }), (thrown) => thrown === error);
    assert.equal(stopped(error)?.reason, "UNREADABLE");
  }
  assert.equal(runs, 100, "the first attempts alone");
});

test("cl4_a_delay_of_a_year_is_known_not_to_fit_at_once", async () => {
  using service = await Scripted.start({
    answer: ({ attempt }) => (attempt === 1 ? granted() : granted({ delay: YEAR })),
  });
  await using client = new Client({ endpoints: [service.endpoint], timeout: 1_000 });
  await client.connect();
  const begun = performance.now();
  const error = new Error("503");
  const call = client.call("payments", () => Promise.reject(error), {
    idempotent: true,
    deadline: 3_600_000,
  });
  await assert.rejects(call, (thrown) => thrown === error);
  assert.equal(stopped(error)?.reason, "DEADLINE");
  assert.ok(performance.now() - begun < 1_000);
});

test("cl4_an_unreadable_answer_to_a_first_question_is_no_decision", async () => {
  const odd: Answer[] = [
    {},
    granted({ delay: { seconds: -1n, nanos: 0 } }),
    granted({ permit: Buffer.alloc(1 << 20) }),
    deniedFor(0),
    deniedFor(20),
    { ...granted(), state: 99 as never },
  ];
  for (const answer of odd) {
    using service = await Scripted.start({ answer: () => answer });
    await using client = new Client({ endpoints: [service.endpoint], timeout: 1_000 });
    await client.connect();
    assert.equal(await client.call("payments", ({ isLocal }) => isLocal), true);
    assert.deepEqual([client.counters.answered, client.counters.noDecision], [0, 1]);
  }
});

test("cl2_a_port_that_answers_garbage_or_nothing_or_resets_costs_no_call", async () => {
  for (const behave of ["garbage", "nothing", "reset"]) {
    const listener = createServer((socket) => {
      socket.on("error", () => {});
      if (behave === "garbage") socket.end("HTTP/1.1 200 OK\r\n\r\n\u0000\u0001\u0002".repeat(50));
      if (behave === "reset") socket.resetAndDestroy();
    });
    listener.listen(0, "127.0.0.1");
    await once(listener, "listening");
    const { port } = listener.address() as { port: number };
    await using client = new Client({ endpoints: [`http://127.0.0.1:${port}`] });
    const waits: number[] = [];
    for (let call = 0; call < 50; call++) {
      const begun = performance.now();
      assert.equal(await client.call("payments", () => "value"), "value", behave);
      waits.push(performance.now() - begun);
    }
    const late = waits.filter((wait) => wait > 20);
    assert.ok(late.length <= 3 && Math.max(...waits) < 150, `${behave}: ${late.join(" ")}`);
    listener.close();
  }
});
