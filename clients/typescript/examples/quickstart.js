// The smallest use: a call that is guarded. Runs with a service (`holdoff serve`) and without one.

import { Client } from "@holdoff/client";

const client = new Client({ service: "checkout" });

const answer = await client.call(
  "payments",
  async (attempt) => {
    const by = attempt.isLocal ? "this process" : "the service";
    console.log(`attempt ${attempt.number}, granted by ${by}`);
    return charge(attempt.number);
  },
  { idempotent: true, deadline: 2_000 },
);
console.log(answer);

await client.close();

/**
 * Stands for a call that fails now and then.
 *
 * @param {number} attempt
 * @returns {Promise<string>}
 */
async function charge(attempt) {
  if (attempt === 1) throw new Error("503 Service Unavailable");
  return "charged";
}
