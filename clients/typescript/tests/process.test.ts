// What the client does to the process it lives in.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { promisify } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Worker } from "node:worker_threads";
import { Client } from "../src/index.js";
import { Scripted } from "./server.js";

const entry = new URL("../src/index.js", import.meta.url).href;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** Of what is still held, in MiB. */
function heldMemory(): number {
  collect();
  return process.memoryUsage().heapUsed / 2 ** 20;
}

/** Runs a program with `client`, which prints how it ended; it has 5 s to end by itself. */
async function run(
  body: string,
  environment: Record<string, string> = {},
): Promise<{ output: string; took: number }> {
  const program = `
    import { Client, stopped } from "${entry}";
    const client = new Client({ endpoints: [process.env.ENDPOINT ?? "http://127.0.0.1:1"] });
    ${body}`;
  const begun = performance.now();
  const { stdout, stderr } = await promisify(execFile)(
    process.execPath,
    ["--unhandled-rejections=strict", "--input-type=module", "-e", program],
    { timeout: 5_000, env: { ...process.env, ...environment } },
  );
  assert.equal(stderr, "");
  return { output: stdout.trim(), took: performance.now() - begun };
}

test("a_process_with_an_open_session_ends_by_itself", async () => {
  using service = await Scripted.start();
  const body = `
    await client.connect();
    console.log(await client.call("payments", (attempt) => attempt.isLocal));
    process.on("exit", (code) => console.log("code", code));`;
  const { output } = await run(body, { ENDPOINT: service.endpoint });
  assert.equal(output, "false\ncode 0");
  assert.equal(service.sessions, 1);
});

test("a_process_does_not_end_while_a_call_waits", async () => {
  const body = `
    let runs = 0;
    const call = client.call("payments", () => { if (++runs < 3) throw new Error("boom"); return runs; }, { idempotent: true });
    console.log(await call);`;
  assert.equal((await run(body)).output, "3");
});

test("a_process_that_closes_its_client_has_told_all_its_outcomes", async () => {
  using service = await Scripted.start();
  const body = `
    await client.connect();
    for (let n = 0; n < 10; n++) await client.call("payments", () => n);
    await client.close();
    console.log(client.counters.reported);`;
  assert.equal((await run(body, { ENDPOINT: service.endpoint })).output, "10");
});

test("nothing_rejects_unheard_when_calls_fail_time_out_or_are_given_up", async () => {
  const body = `
    const never = () => new Promise((_, reject) => setTimeout(() => reject(new Error("late")), 30));
    const given = new AbortController();
    const calls = [
      client.call("a", never, { attemptTimeout: 5, idempotent: true }),
      client.call("b", never, { deadline: 5 }),
      client.call("c", never, { signal: given.signal }),
      client.call("d", () => { throw "text"; }),
      client.acquire("e", { signal: AbortSignal.abort() }),
    ];
    setTimeout(() => given.abort(), 5);
    const ended = await Promise.allSettled(calls);
    await new Promise((resolve) => setTimeout(resolve, 100));
    console.log(ended.map((end) => end.status).join(" "));`;
  assert.equal((await run(body)).output, "rejected rejected rejected rejected rejected");
});

test("a_thousand_calls_share_a_signal_without_a_warning_and_hear_of_its_abort", async () => {
  const body = `
    const stop = new AbortController();
    const never = () => new Promise(() => {});
    const waiting = () => client.call("a", never, { signal: stop.signal });
    const quick = () => client.call("b", () => 1, { signal: stop.signal });
    const calls = Array.from({ length: 1_000 }, (_, n) => (n % 2 ? waiting() : quick()));
    setTimeout(() => stop.abort(), 200);
    const ended = await Promise.allSettled(calls);
    console.log(ended.filter((end) => end.status === "rejected").length);`;
  assert.equal((await run(body)).output, "500");
});

test("a_burst_as_the_first_act_makes_three_callers_wait_and_all_is_coordinated_after_it", async () => {
  using service = await Scripted.start();
  const body = `
    const waits = [];
    const burst = async (size) => {
      const begun = performance.now();
      const one = (attempt) => { waits.push(performance.now() - begun); return attempt.isLocal; };
      const calls = Array.from({ length: size }, () => client.call("payments", one));
      return (await Promise.all(calls)).filter((isLocal) => isLocal).length;
    };
    const alone = await burst(100);
    waits.sort((a, b) => a - b);
    // The event loop itself is blocked for a while where the machine is busy.
    console.log(alone >= 97, waits[96] < 50);
    await client.connect();
    console.log(await burst(100), client.counters.noDecision === alone);`;
  const { output } = await run(body, { ENDPOINT: service.endpoint });
  assert.equal(output, "true true\n0 true");
});

test("a_first_call_does_not_wait_for_nodes_fetch_to_load", async () => {
  const body = `
    await client.call("payments", () => ({ some: "value" }));
    console.log(process.moduleLoadList.filter((name) => name.includes("undici")).length);
    console.log(await client.call("payments", () => new Response("x", { status: 503 })).then(({ status }) => status));`;
  const { output } = await run(body);
  assert.equal(output, "0\n503");
});

test("a_service_that_refuses_is_told_once_with_its_address_and_nothing_of_each_call", async () => {
  const body = `
    const lines = [];
    const log = (level) => (text) => lines.push(level + " " + text);
    const logged = new Client({
      endpoints: "127.0.0.1:1",
      logger: { info: log("info"), warn: log("warn") },
    });
    for (let call = 0; call < 100; call++) await logged.call("payments", () => 1);
    console.log(lines.join("\\n"));`;
  const { output } = await run(body);
  assert.equal(
    output,
    "warn holdoff: the service at 127.0.0.1:1 is away (ECONNREFUSED); deciding locally until it is back",
  );
});

test("a_service_that_is_killed_is_told_once_and_its_return_too", async () => {
  const lines: string[] = [];
  const logger = { info: (text: string) => lines.push(text), warn: (text: string) => lines.push(text) };
  const first = await Scripted.start();
  await using client = new Client({ endpoints: first.endpoint, logger });
  await client.connect();
  first[Symbol.dispose]();
  while (lines.length === 0) await client.call("payments", () => 1);
  using second = await Scripted.start({ port: first.port });
  while (lines.length === 1) {
    await client.call("payments", () => 1);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  const at = `holdoff: the service at 127.0.0.1:${second.port} is`;
  assert.deepEqual(lines, [
    `${at} away (the connection broke); deciding locally until it is back`,
    `${at} back`,
  ]);
});

test("console_is_not_filled_with_a_line_for_each_call", async () => {
  const body = `
    console.warn = () => {};
    const logged = new Client({ endpoints: "127.0.0.1:1", logger: console });
    for (let call = 0; call < 10; call++) await logged.call("payments", () => 1);
    console.log("done");`;
  assert.equal((await run(body)).output, "done");
});

test("the_environment_names_the_endpoint_and_the_token_where_no_option_does", async () => {
  using service = await Scripted.start();
  const body = `
    const asked = new Client({});
    console.log(await asked.connect());
    await asked.close();`;
  const environment = { HOLDOFF_SERVER: service.endpoint, HOLDOFF_TOKEN: "secret" };
  assert.equal((await run(body, environment)).output, "true");
  assert.deepEqual(service.tokens, ["Bearer secret"]);
  const odd = `
    try { new Client({}); } catch (error) { console.log(error.message); }`;
  const { output } = await run(odd, { HOLDOFF_SERVER: "log" });
  assert.match(output, /^HOLDOFF_SERVER `log`: it must be/);
});

test("a_healthy_service_is_not_silent_where_the_event_loop_is_blocked_again_and_again", async () => {
  const server = new Worker(new URL("./worker.js", import.meta.url));
  const [endpoint] = (await once(server, "message")) as [string];
  await using client = new Client({ endpoints: [endpoint] });
  await client.connect();
  const block = (millis: number) => {
    for (const until = performance.now() + millis; performance.now() < until; );
  };
  const busy = setInterval(() => block(30), 1);
  for (let round = 0; round < 10; round++) {
    const permits = Array.from({ length: 5 }, () => client.acquire("payments"));
    // Before anything is sent.
    block(80);
    for (const permit of permits) assert.equal((await permit).isLocal, false);
  }
  clearInterval(busy);
  await server.terminate();
});

test("cl5_an_answer_that_came_while_the_event_loop_was_blocked_is_not_late", async () => {
  // In a thread of its own, or it would be blocked too.
  const server = new Worker(new URL("./worker.js", import.meta.url));
  const [endpoint] = (await once(server, "message")) as [string];
  await using client = new Client({ endpoints: [endpoint] });
  await client.connect();
  for (let round = 0; round < 5; round++) {
    const permit = client.acquire("payments");
    await new Promise((resolve) => setImmediate(resolve));
    for (const until = performance.now() + 100; performance.now() < until; );
    assert.equal((await permit).isLocal, false);
  }
  await server.terminate();
});

test("cl5_clients_that_are_opened_and_closed_leave_no_socket_and_no_timer_behind", async () => {
  using service = await Scripted.start();
  const body = `
    const held = () => process.getActiveResourcesInfo().filter((kind) => kind !== "PipeWrap");
    const cycle = async () => {
      const client = new Client({ endpoints: process.env.ENDPOINT });
      if (!(await client.connect(5_000))) throw new Error("no connection");
      await client.call("payments", () => 1);
      await client.close();
    };
    for (let cycles = 0; cycles < 30; cycles++) await cycle();
    for (let waits = 0; waits < 300 && held().length > 0; waits++) await new Promise(setImmediate);
    console.log(held().join());`;
  assert.equal((await run(body, { ENDPOINT: service.endpoint })).output, "");
});

test("cl2_without_a_service_a_hundred_thousand_calls_cost_little_and_keep_nothing", async () => {
  await using client = new Client({ endpoints: ["http://127.0.0.1:1"] });
  for (let call = 0; call < 1_000; call++) await client.call("payments", () => call);
  const before = heldMemory();
  const begun = performance.now();
  for (let call = 0; call < 100_000; call++) await client.call("payments", () => call);
  const each = (performance.now() - begun) / 100_000;
  assert.ok(each < 0.2, `${each} ms a call`);
  const grown = heldMemory() - before;
  assert.ok(grown < 2, `${grown} MiB more`);
  assert.equal(client.counters.localGrants, 101_000);
});
