// Everything a guarded call can do: no hop while all is well, HTTP statuses and `Retry-After`, a deadline,
// waiting when the answer is no, a fallback, and the error of a call that was given up.

import { Client, holdoffFetch, stopped } from "@holdoff/client";

const client = new Client({
  endpoints: ["http://127.0.0.1:7460"],
  service: "checkout",
  timeout: 50,
  follow: ["catalogue"],
});

console.log("-- while the dependency is well, calls ask nothing");
await client.connect(1_000);
for (let call = 0; call < 1_000; call++) await client.call("catalogue", async () => "an item");
const { pushedGrants, answered, localGrants } = client.counters;
console.log(`1000 calls: ${pushedGrants} without a hop, ${answered} asked, ${localGrants} decided here`);

console.log("-- a response with Retry-After is waited for");
const response = await client.call(
  "inventory",
  async (attempt) => {
    console.log(`attempt ${attempt.number}`);
    return throttledOnce(attempt.number);
  },
  { idempotent: true, deadline: 5_000, onDenied: "wait" },
);
console.log(`status ${response.status}`);

console.log("-- an unsafe call that may have been executed is not repeated");
try {
  await client.call("payments", async () => {
    throw new Error("connection reset");
  });
} catch (error) {
  console.log(`the last real error: ${error}`);
  console.log(`why there was no retry: ${stopped(error)?.reason}`);
}

console.log("-- a fallback where the call is given up");
const price = await client.call(
  "prices",
  async () => {
    throw new Error("no route");
  },
  { fallback: async () => 42 },
);
console.log(`a price from the cache: ${price}`);

console.log("-- the same as a fetch");
const guardedFetch = holdoffFetch(client, {
  dependency: "catalogue",
  fetch: async (url) => {
    console.log(`GET ${url}`);
    return new Response("hello");
  },
});
console.log(await (await guardedFetch("http://catalogue/items")).text());

await client.close();

/** @param {number} attempt */
function throttledOnce(attempt) {
  return attempt === 1
    ? new Response(null, { status: 429, headers: { "retry-after": "1" } })
    : new Response(null, { status: 200 });
}
