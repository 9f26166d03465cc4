// Ask and report as two steps, for callers that run their attempts themselves.

import { Client, DeniedError } from "@holdoff/client";

const client = new Client({ service: "worker" });
const isThere = await client.connect(1_000);
console.log(`the service is ${isThere ? "there" : "away"}`);

let permit = await client.acquire("search", { idempotent: true, deadline: 3_000 });
for (;;) {
  console.log(`attempt ${permit.attempt} in ${Math.round(permit.delay)} ms`);
  await permit.wait();
  try {
    const found = search(permit.attempt);
    console.log(`found ${found}`);
    permit.report({ kind: "success", latency: 12 });
    break;
  } catch (error) {
    console.log(`${error}`);
    const next = await permit.retry("timeout").catch((denied) => denied);
    if (next instanceof DeniedError) {
      console.log(`no further attempt: ${next.message}`);
      break;
    }
    permit = next;
  }
}

await client.flush();
console.log(client.counters);
await client.close();

/**
 * @param {number} attempt
 * @returns {string}
 */
function search(attempt) {
  if (attempt < 3) throw new Error("no answer in time");
  return "a needle";
}
