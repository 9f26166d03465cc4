// A call as its caller sees it. No service is there, so that decisions are local.

import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { test } from "node:test";
import {
  type AttemptEvent,
  Client,
  DeniedError,
  SettingError,
  stopped,
  TimedOutError,
} from "../src/index.js";

/** Nobody listens there, and it is known at once. */
const ENDPOINTS = ["http://127.0.0.1:1"];
const client = new Client({ endpoints: ENDPOINTS, localPolicy: { initialDelay: 1 } });

async function errorOf(call: Promise<unknown>): Promise<unknown> {
  const none = {};
  const error = await call.then(
    () => none,
    (error: unknown) => error,
  );
  assert.notEqual(error, none, "it returned");
  return error;
}

test("the_last_real_error_is_thrown_itself_although_it_is_frozen_with_the_reason_beside_it", async () => {
  class PaymentError extends Error {}
  const errors = [1, 2, 3].map((number) => Object.freeze(new PaymentError(`boom ${number}`)));
  let run = 0;
  const call = client.call("frozen", () => Promise.reject(errors[run++]), { idempotent: true });
  const error = await errorOf(call);
  assert.equal(error, errors[2]);
  assert.deepEqual(stopped(error), {
    reason: "ATTEMPTS_EXHAUSTED",
    by: "local",
    retryAfter: null,
    detail: "",
    attempts: 3,
  });
});

test("what_is_no_error_is_thrown_as_it_is_and_a_function_that_throws_at_once_counts_too", async () => {
  assert.equal(await errorOf(client.call("text", () => Promise.reject("text"))), "text");
  const thrown = new TypeError("at once");
  const call = client.call("at-once", () => {
    throw thrown;
  });
  assert.equal(await errorOf(call), thrown);
  assert.equal(stopped(thrown)?.reason, "RETRY_UNSAFE");
  assert.equal(stopped("text"), undefined);
});

test("a_call_that_may_have_been_executed_is_not_repeated_and_one_that_was_not_sent_is", async () => {
  const runs = { reset: 0, refused: 0 };
  const failing = (name: keyof typeof runs, code: string, syscall: string) =>
    client.call(name, () => {
      runs[name] += 1;
      throw Object.assign(new Error(code), { code, syscall });
    });
  await errorOf(failing("reset", "ECONNRESET", "read"));
  await errorOf(failing("refused", "ECONNREFUSED", "connect"));
  assert.deepEqual(runs, { reset: 1, refused: 3 });
});

test("what_was_never_made_is_a_denied_error_and_what_was_cut_off_a_timeout", async () => {
  const late = await errorOf(client.call("late", () => 1, { deadline: 0 }));
  assert.ok(late instanceof DeniedError);
  assert.equal(late.message, "not called: no time left");
  assert.equal(late.attempts, 0);
  const cut = await errorOf(client.call("cut", () => new Promise(() => {}), { attemptTimeout: 5 }));
  assert.ok(cut instanceof TimedOutError && !(cut instanceof DeniedError));
  assert.deepEqual([cut.name, cut.reason, cut.attempts], ["TimeoutError", "RETRY_UNSAFE", 1]);
  assert.equal(stopped(cut)?.reason, "RETRY_UNSAFE");
});

test("an_attempt_that_is_cut_off_hears_of_it_and_what_it_comes_to_later_is_not_lost_as_a_rejection", async () => {
  const reasons: unknown[] = [];
  const call = client.call(
    "signal",
    ({ signal, limit }) => {
      assert.ok(limit <= 10);
      return new Promise((_, reject) =>
        signal.addEventListener("abort", () => {
          reasons.push((signal.reason as Error).name);
          reject(new Error("aborted"));
        }),
      );
    },
    { attemptTimeout: 10 },
  );
  assert.ok((await errorOf(call)) instanceof TimedOutError);
  assert.deepEqual(reasons, ["TimeoutError"]);
});

test("a_caller_that_gives_up_gets_its_own_reason_at_once_wherever_the_call_is", async () => {
  const reason = new Error("the user has left");
  const running = new AbortController();
  const call = client.call("running", () => new Promise(() => {}), { signal: running.signal });
  setTimeout(() => running.abort(reason), 5);
  assert.equal(await errorOf(call), reason);
  assert.equal(stopped(reason)?.reason, "CANCELLED");

  const waiting = new AbortController();
  const slow = new Client({
    endpoints: ENDPOINTS,
    localPolicy: { initialDelay: 60_000, maxDelay: 60_000, jitter: "none" },
  });
  const options = { idempotent: true, signal: waiting.signal, fallback: () => "never" };
  const delayed = slow.call("waiting", () => Promise.reject(new Error("boom")), options);
  setTimeout(() => waiting.abort(reason), 5);
  assert.equal(await errorOf(delayed), reason);

  let runs = 0;
  const before = client.call("before", () => (runs += 1), { signal: AbortSignal.abort(reason) });
  assert.equal(await errorOf(before), reason);
  assert.equal(runs, 0);
});

test("a_fallback_is_told_the_error_and_a_guarded_function_keeps_its_arguments", async () => {
  const options = { fallback: (error: unknown) => (error as Error).message.length };
  const length = await client.call("fallback", () => Promise.reject(new Error("boom")), options);
  assert.equal(length, 4);
  const add = client.guard("add", async (a: number, b: number) => a + b);
  assert.equal(await add(2, 3), 5);
});

test("a_response_that_asks_for_patience_is_retried_and_returned_where_there_is_no_further_attempt", async () => {
  let runs = 0;
  const response = await client.call(
    "response",
    () => {
      runs += 1;
      return new Response(null, { status: 503 });
    },
    { idempotent: true },
  );
  assert.deepEqual([response.status, runs], [503, 3]);
  assert.equal(stopped(response)?.reason, "ATTEMPTS_EXHAUSTED");
});

test("a_classifier_that_throws_does_not_lose_the_call_or_its_real_error", async () => {
  const classify = () => {
    throw new Error("a bug");
  };
  assert.equal(await client.call("classifier", () => "value", { classify }), "value");
  const boom = new Error("boom");
  let runs = 0;
  const fail = () => {
    runs += 1;
    throw boom;
  };
  assert.equal(await errorOf(client.call("classifier", fail, { classify, idempotent: true })), boom);
  assert.deepEqual([runs, stopped(boom)?.reason], [1, "NOT_RETRYABLE"]);
});

test("calls_within_calls_do_not_multiply", async () => {
  const idempotent = { idempotent: true };
  let runs = 0;
  const leaf = async () => {
    runs += 1;
    throw new Error("down");
  };
  const within = (name: string, operation: () => Promise<unknown>) => () =>
    client.call(name, operation, idempotent);
  const top = within("top", within("middle", within("leaf", leaf)));
  const error = await errorOf(top());
  assert.deepEqual([runs, stopped(error)?.reason, stopped(error)?.attempts], [3, "RETRIED_BELOW", 1]);

  runs = 0;
  const wrap = () =>
    within("wrapped", leaf)().catch((cause: unknown) => {
      throw new Error("no receipt", { cause });
    });
  assert.equal(stopped(await errorOf(within("wrapping", wrap)()))?.reason, "RETRIED_BELOW");
  assert.equal(runs, 3);

  runs = 0;
  const busy = async () => {
    runs += 1;
    return new Response(null, { status: 503 });
  };
  const response = await within("response-top", within("response-leaf", busy))();
  assert.deepEqual([runs, stopped(response)?.reason], [3, "RETRIED_BELOW"]);

  runs = 0;
  const hang = () => {
    runs += 1;
    return new Promise<never>(() => {});
  };
  const cut = () => client.call("cut-leaf", hang, { ...idempotent, attemptTimeout: 2 });
  const late = await errorOf(within("cut-top", cut)());
  assert.ok(late instanceof TimedOutError);
  assert.deepEqual([runs, stopped(late)?.reason], [3, "RETRIED_BELOW"]);
});

test("a_call_within_that_was_tried_once_or_never_leaves_the_retry_to_the_one_around_it", async () => {
  let runs = 0;
  const once = () =>
    client.call("once", () => {
      runs += 1;
      throw new Error("down");
    });
  assert.equal(stopped(await errorOf(client.call("around", once, { idempotent: true })))?.attempts, 3);
  assert.equal(runs, 3);
  const never = () => client.call("never", () => 1, { deadline: 0 });
  const outcomes: string[] = [];
  const listen = (message: unknown) => outcomes.push((message as AttemptEvent).outcome.kind);
  subscribe("holdoff:attempt", listen);
  const denied = await errorOf(client.call("around-denied", never, { idempotent: true }));
  unsubscribe("holdoff:attempt", listen);
  assert.ok(denied instanceof DeniedError);
  assert.deepEqual(outcomes, ["ignored"]);
});

test("an_error_that_an_earlier_call_has_thrown_too_is_retried_as_any_other", async () => {
  const shared = new Error("the connection of all is down");
  let runs = 0;
  const fail = () => {
    runs += 1;
    throw shared;
  };
  for (const name of ["first", "second"]) {
    await errorOf(client.call(`shared-${name}`, fail, { idempotent: true }));
    assert.equal(stopped(shared)?.attempts, 3, name);
  }
  assert.equal(runs, 6);
});

test("what_the_caller_has_aborted_itself_is_no_failure_of_the_dependency", async () => {
  const outcomes: string[] = [];
  const listen = (message: unknown) => outcomes.push((message as AttemptEvent).outcome.kind);
  subscribe("holdoff:attempt", listen);
  const ask = (signal: AbortSignal) =>
    errorOf(client.call("aborted", () => fetch("http://127.0.0.1:9/", { signal }), { idempotent: true }));
  const aborted = await ask(AbortSignal.abort());
  const left = new Error("the user has left");
  const within = () => client.call("aborted-leaf", () => 1, { signal: AbortSignal.abort(left) });
  assert.equal(await errorOf(client.call("aborted", within, { idempotent: true })), left);
  unsubscribe("holdoff:attempt", listen);
  assert.deepEqual([(aborted as Error).name, outcomes], ["AbortError", ["cancelled", "cancelled"]]);
});

test("only_what_can_never_work_is_refused_and_is_named", async () => {
  const odd: [object, RegExp][] = [
    [
      { endpoints: "ftp://x" },
      /^endpoint `ftp:\/\/x`: it must be http:\/\/host:port, https:\/\/host:port or host:port$/,
    ],
    [{ endpoints: ["http://me:secret@host:1"] }, /^endpoint `…@host:1`/],
    [{ endpoints: [] }, /endpoints/],
    [{ endpoints: ["http://host:1/path"] }, /endpoint `http:\/\/host:1\/path`/],
    [{ endpoints: 7460 }, /endpoint `7460`/],
    [{ timeOut: 5 }, /^option `timeOut`: there is none of this name, but endpoints, service/],
    [{ localPolicy: { retries: 5 } }, /^option of localPolicy `retries`/],
    [{ token: 5 }, /^token `number`/],
    [{ namespace: "a b" }, /^namespace `a b`: 1 to 200 ASCII letters/],
    [{ timeout: 0 }, /timeout `0`: a number, above 0 to 10000/],
    [{ timeout: Number.NaN }, /timeout/],
    [{ instance: "x".repeat(201) }, /instance/],
    [{ follow: ["a b"] }, /follow/],
    [{ onNoDecision: "perhaps" }, /onNoDecision/],
    [{ localPolicy: { multiplier: 0.5 } }, /multiplier `0.5`: a number, 1 to 100/],
    [{ localPolicy: { initialDelay: 20_000 } }, /initialDelay/],
    [{ localPolicy: { maxAttempts: 0 } }, /maxAttempts/],
  ];
  for (const [options, message] of odd) {
    assert.throws(
      () => new Client(options),
      (error) => error instanceof SettingError && message.test(error.message),
    );
  }
  assert.ok(new Client({ endpoints: ["https://no-such-host.invalid", "http://[::1]:1"] }));
  assert.ok(new Client({ endpoints: "host:1", namespace: "" }));
  const misspelt = { idempotant: true } as object;
  assert.match(
    String(await errorOf(client.call("x", () => 1, misspelt))),
    /option `idempotant`: there is none/,
  );
  assert.ok((await errorOf(client.call("x", () => 1, { deadline: -1 }))) instanceof SettingError);
  assert.ok((await errorOf(client.call("x", () => 1, { maxAttempts: 0 }))) instanceof SettingError);
  for (const odd of [{ priority: "urgent" }, { onDenied: "x" }, { deadline: "3" }, { maxAttempts: "2" }]) {
    const error = await errorOf(client.call("x", () => 1, odd as never));
    assert.ok(error instanceof SettingError && error.field === Object.keys(odd)[0], String(error));
  }
  assert.ok((await errorOf(client.call("x", null as never))) instanceof SettingError);
});

test("a_name_that_no_dependency_has_is_an_error_that_names_it_and_nothing_runs", async () => {
  const names = ["a b", "", "x".repeat(201), undefined as unknown as string];
  for (const name of names) {
    let runs = 0;
    const run = () => (runs += 1);
    const stop = AbortSignal.timeout(1_000);
    const asks = [
      () => client.call(name, run),
      async () => client.acquire(name),
      () => client.supervise(name, run, { signal: stop }),
      async () => client.check(name, run, { signal: stop }),
    ];
    for (const ask of asks) {
      const error = await errorOf(ask());
      assert.ok(error instanceof SettingError && error.field === "dependency", String(error));
      assert.ok(error.message.startsWith(`dependency \`${String(name).slice(0, 80)}`), error.message);
    }
    assert.equal(runs, 0);
  }
});

test("whoever_subscribes_hears_of_each_attempt", async () => {
  const heard: string[] = [];
  const listen = (message: unknown) => {
    const { dependency, attempt, outcome } = message as AttemptEvent;
    heard.push(`${dependency} ${attempt} ${outcome.kind}`);
  };
  subscribe("holdoff:attempt", listen);
  let run = 0;
  await client.call("heard", () => (run++ === 0 ? Promise.reject(new Error("boom")) : 1), {
    idempotent: true,
  });
  unsubscribe("holdoff:attempt", listen);
  assert.deepEqual(heard, ["heard 1 failure", "heard 2 success"]);
});

test("in_testing_mode_nothing_is_waited_for_and_a_call_has_three_attempts", async () => {
  const testing = Client.testing();
  const begun = performance.now();
  let runs = 0;
  for (let call = 0; call < 50; call++) {
    await errorOf(
      testing.call(
        "rates",
        () => {
          runs += 1;
          throw new Error("503");
        },
        { idempotent: true, onDenied: "wait" },
      ),
    );
  }
  assert.equal(runs, 150);
  assert.ok(performance.now() - begun < 1_000);
});
