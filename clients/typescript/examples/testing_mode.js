// How code that makes guarded calls is tested: no service, no waiting, at most three attempts.

import { Client, stopped } from "@holdoff/client";

/**
 * The code under test. In production it gets a client that knows a service.
 *
 * @param {Client} client
 * @param {() => Promise<number>} load
 */
function fetchRates(client, load) {
  return client.call("rates", load, { idempotent: true, deadline: 30_000 });
}

const client = Client.testing();
const begun = performance.now();

let calls = 0;
const rate = await fetchRates(client, async () => {
  calls += 1;
  if (calls < 3) throw new Error("503");
  return calls;
});
console.log(`it recovers: ${rate}, after ${calls} calls`);

try {
  await fetchRates(client, async () => {
    throw new Error("503");
  });
} catch (error) {
  console.log(`it gives up: ${error}, ${stopped(error)?.reason} after ${stopped(error)?.attempts} attempts`);
}
console.log(`without waiting: ${performance.now() - begun < 1_000}`);
