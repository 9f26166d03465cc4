// The examples, with the service and without. They import the package by its name, as it was built.

import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { Client } from "../src/index.js";
import { operatorClient } from "../src/operator.js";
import { repository } from "./vectors/files.js";

const folder = join(repository, "clients/typescript");
const NOBODY = "http://127.0.0.1:1";

/** Where a real service listens, on a free port. */
let endpoint = "";
let service: ChildProcess;

before(async () => {
  const binary = join(repository, "target/debug/holdoff");
  service = spawn(binary, ["serve", "--listen", "127.0.0.1:0", "--http", "off"], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  assert.ok(service.stdout);
  for await (const line of createInterface({ input: service.stdout })) {
    const address = /127\.0\.0\.1:\d+/.exec(line)?.[0];
    if (address === undefined) continue;
    endpoint = `http://${address}`;
    break;
  }
});

after(() => service.kill());

/** Examples are made for the usual address; here they are run at another one. */
async function run(name: string, at: string): Promise<string> {
  const text = readFileSync(join(folder, "examples", `${name}.js`), "utf8");
  const moved = text.includes("endpoints:")
    ? text.replace("http://127.0.0.1:7460", at)
    : text.replace("new Client({", `new Client({ endpoints: ["${at}"],`);
  const made = join(folder, "build/examples", at === NOBODY ? "alone" : "with");
  mkdirSync(made, { recursive: true });
  writeFileSync(join(made, `${name}.js`), moved);
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [join(made, `${name}.js`)], {
    timeout: 20_000,
  });
  assert.equal(stderr, "");
  return stdout;
}

test("quickstart_is_granted_by_the_service_and_without_it_by_this_process", async () => {
  const granter = async (at: string) => {
    const lines = (await run("quickstart", at)).trim().split("\n");
    assert.equal(lines.at(-1), "charged");
    return lines[0];
  };
  assert.equal(await granter(NOBODY), "attempt 1, granted by this process");
  // A process that has just begun, on a machine that is busy, may be late for its first question.
  const granters = new Set<string | undefined>();
  for (let time = 0; time < 10 && !granters.has("attempt 1, granted by the service"); time++) {
    granters.add(await granter(endpoint));
  }
  assert.ok(granters.has("attempt 1, granted by the service"), [...granters].join());
});

test("guarded_call_asks_nothing_while_all_is_well", async () => {
  for (const at of [endpoint, NOBODY]) {
    const output = await run("guarded_call", at);
    const counts =
      at === NOBODY ? "0 without a hop, 0 asked, 1000 decided here" : "1000 without a hop, 0 asked";
    assert.ok(output.includes(counts), output);
    for (const line of [
      "attempt 2\nstatus 200",
      "RETRY_UNSAFE",
      "from the cache: 42",
      "GET http://catalogue/items\nhello",
    ]) {
      assert.ok(output.includes(line), `${line}\n${output}`);
    }
  }
});

test("two_step_finds_what_it_looks_for_at_the_third_attempt", async () => {
  for (const [at, state] of [
    [endpoint, "there"],
    [NOBODY, "away"],
  ] as const) {
    const output = await run("two_step", at);
    assert.ok(output.includes(`the service is ${state}`) && output.includes("found a needle"), output);
  }
});

test("testing_mode_waits_for_nothing", async () => {
  const output = await run("testing_mode", NOBODY);
  assert.match(
    output,
    /it recovers: 3, after 3 calls\nit gives up: Error: 503, ATTEMPTS_EXHAUSTED after 3 attempts/,
  );
  assert.ok(output.includes("without waiting: true"));
});

test("what_a_client_calls_is_what_an_operator_sees_and_an_override_reaches_it", async () => {
  await using client = new Client({ endpoints: [endpoint] });
  await client.connect();
  const operator = operatorClient(endpoint);
  assert.equal(await client.call("ledger", ({ isLocal }) => isLocal), false);
  const { dependencies } = await operator.listDependencies({});
  assert.ok(dependencies.some(({ name }) => name === "ledger"));
  const override = { dependency: "ledger", kind: 1, owner: "test", reason: "test" };
  await operator.setOverride(override);
  const denied = async () => (await client.acquire("ledger").catch((error) => error)).reason;
  for (const until = performance.now() + 2_000; performance.now() < until; ) {
    if ((await denied()) === "FORCED_OPEN") break;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.equal(await denied(), "FORCED_OPEN");
  operator.close();
});
