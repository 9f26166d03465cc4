// What a guarded call costs on the success path, beside the usual libraries, in one run: a function that
// returns at once, awaited one call after the other. Each figure is the median of nine rounds, which
// alternate, so that none has a warmer machine than another.

import { ConsecutiveBreaker, circuitBreaker, ExponentialBackoff, handleAll, retry, wrap } from "cockatiel";
import pRetry from "p-retry";
import { Client } from "../src/index.js";
import { Scripted } from "../tests/server.js";

const CALLS = 50_000;
const ROUNDS = 9;

// As a service pushes it: closed, first attempts go, valid for longer than this runs.
using service = await Scripted.start({
  updates: [
    { dependency: "payments", state: 1, firstAttempts: 1, epoch: 1n, validFor: { seconds: 300n, nanos: 0 } },
  ],
});
await using client = new Client({ endpoints: [service.endpoint], follow: ["payments"] });
await client.connect();
const policy = wrap(
  retry(handleAll, { maxAttempts: 3, backoff: new ExponentialBackoff() }),
  circuitBreaker(handleAll, { halfOpenAfter: 10_000, breaker: new ConsecutiveBreaker(5) }),
);

const operation = async () => 1;
const idempotent = { idempotent: true };
const bounded = { idempotent: true, deadline: 2_000 };
const cases: Record<string, () => Promise<unknown>> = {
  "the function alone": operation,
  "holdoff, pushed GO": () => client.call("payments", operation, idempotent),
  "holdoff, pushed GO, with a deadline": () => client.call("payments", operation, bounded),
  "cockatiel 3, retry and breaker": () => policy.execute(operation),
  "p-retry 7, retry alone": () => pRetry(operation, { retries: 2 }),
};

const rounds = new Map(Object.keys(cases).map((name) => [name, [] as number[]]));
for (let round = 0; round <= ROUNDS; round++) {
  for (const [name, call] of Object.entries(cases)) {
    const begun = performance.now();
    for (let number = 0; number < CALLS; number++) await call();
    // The first round warms the compiler.
    if (round > 0) rounds.get(name)?.push(((performance.now() - begun) * 1e6) / CALLS);
  }
}

for (const [name, figures] of rounds) {
  const median = figures.sort((a, b) => a - b)[Math.floor(figures.length / 2)] ?? Number.NaN;
  console.log(`${name.padEnd(36)} ${Math.round(median).toString().padStart(6)} ns a call`);
}
const { pushedGrants, answered } = client.counters;
if (answered > 0 || pushedGrants < 2 * CALLS * ROUNDS) throw new Error("the service was asked");
