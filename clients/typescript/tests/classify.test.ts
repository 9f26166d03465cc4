// How errors are read that have no vectors, since each language has its own.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import {
  Client,
  classifyError,
  classifyGrpc,
  classifyHttp,
  DeniedError,
  type Outcome,
  stopped,
  TimedOutError,
} from "../src/index.js";

const system = (code: string, syscall: string | undefined) =>
  Object.assign(new Error(`${syscall} ${code}`), { code, ...(syscall === undefined ? {} : { syscall }) });

async function errorOf(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => assert.fail("it returned"),
    (error: unknown) => error,
  );
}

function kindOf(error: unknown): string {
  return classifyError(error).kind;
}

test("only_an_error_of_making_the_connection_says_that_nothing_was_sent", () => {
  for (const code of ["ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH"]) {
    assert.equal(kindOf(system(code, "connect")), "not_sent", code);
    for (const syscall of ["read", "write", undefined])
      assert.equal(kindOf(system(code, syscall)), "failure");
  }
  for (const code of ["ENOTFOUND", "EAI_AGAIN"])
    assert.equal(kindOf(system(code, "getaddrinfo")), "not_sent");
  assert.equal(kindOf(system("ECONNRESET", "connect")), "failure");
  assert.equal(kindOf(new Error("wrapped", { cause: system("ECONNREFUSED", "connect") })), "not_sent");
});

test("of_several_connections_that_were_tried_all_must_have_been_refused", () => {
  const refused = system("ECONNREFUSED", "connect");
  const kindOfAll = (...errors: unknown[]) =>
    kindOf(Object.assign(new AggregateError(errors), { code: "ECONNREFUSED" }));
  assert.equal(kindOfAll(refused, system("ENETUNREACH", "connect")), "not_sent");
  assert.equal(kindOfAll(system("ECONNRESET", "read"), refused), "failure");
  assert.equal(kindOfAll(system("ETIMEDOUT", "connect"), refused), "timeout");
  assert.equal(kindOfAll(), "failure");
  const endless = new AggregateError([]);
  endless.errors.push(endless);
  assert.equal(kindOf(endless), "failure");
});

test("a_real_connection_to_several_addresses_that_all_refuse_was_not_sent", async () => {
  const { connect } = await import("node:net");
  const lookup = (_: string, __: object, done: (error: null, all: object[]) => void) =>
    done(null, [
      { address: "127.0.0.1", family: 4 },
      { address: "127.0.0.2", family: 4 },
    ]);
  const socket = connect({ host: "two", port: 1, lookup: lookup as never, autoSelectFamily: true });
  const error = await new Promise((resolve) => socket.on("error", resolve));
  assert.ok(error instanceof AggregateError, String(error));
  assert.equal(kindOf(error), "not_sent");
});

test("where_redirects_may_have_been_followed_a_refused_connection_is_a_failure", () => {
  const cause = system("ECONNREFUSED", "connect");
  assert.equal(kindOf(new TypeError("fetch failed", { cause })), "failure");
  const axios = (config: object) => Object.assign(new Error("axios"), cause, { isAxiosError: true, config });
  assert.equal(kindOf(axios({})), "failure");
  assert.equal(kindOf(axios({ maxRedirects: 0 })), "not_sent");
});

test("who_has_aborted_is_no_failure_and_a_time_that_was_over_is_a_timeout", async () => {
  const { setTimeout: sleep } = await import("node:timers/promises");
  assert.equal(kindOf(AbortSignal.abort().reason), "cancelled");
  assert.equal(kindOf(await errorOf(sleep(9, null, { signal: AbortSignal.abort() }))), "cancelled");
  assert.equal(kindOf(new Error("gone", { cause: AbortSignal.abort().reason })), "cancelled");
  const late = AbortSignal.timeout(1);
  const ended = await errorOf(sleep(1_000, null, { signal: late }));
  assert.equal((ended as Error).name, "AbortError");
  assert.deepEqual([kindOf(late.reason), kindOf(ended)], ["timeout", "timeout"]);
});

test("the_exit_of_a_child_process_is_no_status_of_http", () => {
  try {
    execFileSync("sh", ["-c", "exit 137"]);
    assert.fail("it returned");
  } catch (error) {
    assert.deepEqual(classifyError(error), { kind: "failure" });
  }
  assert.deepEqual(classifyError({ status: 137, headers: {} }), { kind: "ignored", statusCode: 137 });
  assert.deepEqual(classifyError({ response: { status: 404 } }), { kind: "rejected", statusCode: 404 });
});

test("a_header_that_is_no_text_is_read_as_its_text_or_as_none", () => {
  const throttled = { kind: "throttled", statusCode: 429 };
  const read = (headers: object): Outcome => classifyError({ status: 429, headers });
  assert.deepEqual(read({ "retry-after": 5 }), { ...throttled, pushback: 5_000 });
  assert.deepEqual(read({ "retry-after": [5] }), { ...throttled, pushback: 5_000 });
  assert.deepEqual(read({ get: () => 5 }), { ...throttled, pushback: 5_000 });
  for (const none of [null, undefined, [null], {}]) {
    assert.deepEqual(read({ "retry-after": none }), throttled);
    assert.deepEqual(read({ get: () => none }), throttled);
  }
  assert.deepEqual(classifyHttp({ status: 429, headers: new Headers({ "retry-after": "5" }) }), {
    ...throttled,
    pushback: 5_000,
  });
});

test("a_status_of_grpc_alone_does_not_say_that_nothing_was_sent", () => {
  const details = "No connection established. Last error: Error: connect ECONNREFUSED 10.0.0.7:443";
  const metadata = { get: () => [] };
  assert.deepEqual(classifyGrpc({ code: 14, details, metadata }), { kind: "failure", statusCode: 14 });
});

test("what_a_guarded_call_has_thrown_says_what_it_came_to_and_whether_it_was_retried", async () => {
  const client = new Client({ endpoints: ["http://127.0.0.1:1"], localPolicy: { initialDelay: 1 } });
  const fail = (error: unknown, idempotent = true) =>
    errorOf(client.call("guarded", () => Promise.reject(error), { idempotent }));
  assert.deepEqual(classifyError(await fail(new Error("down"))), { kind: "failure", retriedBelow: true });
  const throttled = await fail({ status: 429 });
  assert.deepEqual(classifyError(throttled), { kind: "throttled", statusCode: 429, retriedBelow: true });
  assert.deepEqual(classifyError(await fail(new Error("down"), false)), { kind: "failure" });
  const why = { reason: "BREAKER_OPEN", by: "fleet", retryAfter: null, detail: "" } as const;
  assert.deepEqual(classifyError(new DeniedError(why)), { kind: "ignored" });
  assert.deepEqual(classifyError(new TimedOutError(why, 1)), { kind: "timeout" });
  const timedOut = new TimedOutError(why, 2);
  assert.deepEqual(classifyError(timedOut), { kind: "timeout", retriedBelow: true });
  assert.equal(stopped(timedOut)?.attempts, 2);
});
