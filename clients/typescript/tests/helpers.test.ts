// The supervisor, the health check, metrics, encryption and tokens.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { ServerCredentials } from "@grpc/grpc-js";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { checkerName, Schedule } from "../src/check/schedule.js";
import { Client, type Finding, stopped } from "../src/index.js";
import { instrument } from "../src/metrics.js";
import { OWN_POLICY } from "../src/rules/policy.js";
import { fullJitter } from "../src/supervisor.js";
import { deniedFor, granted, Scripted } from "./server.js";

const NOBODY = ["http://127.0.0.1:1"];
const soon = { initialDelay: 1, maxDelay: 20 };

test("a_task_that_falls_is_restarted_until_it_is_done_and_its_starts_are_counted", async () => {
  const client = new Client({
    endpoints: NOBODY,
    localPolicy: { ...soon, maxAttempts: Number.POSITIVE_INFINITY },
  });
  const starts: number[] = [];
  const done = await client.supervise("consumer", async ({ number }) => {
    starts.push(number);
    if (number < 4) throw new Error("fell");
    return "done";
  });
  assert.deepEqual([done, starts], ["done", [1, 2, 3, 4]]);
});

test("a_supervisor_goes_on_where_the_service_allows_no_further_attempt_and_asks_as_for_a_first_one", async () => {
  using service = await Scripted.start({ answer: ({ attempt }) => (attempt < 3 ? granted() : deniedFor(6)) });
  await using client = new Client({ endpoints: [service.endpoint], localPolicy: soon, timeout: 1_000 });
  const run = ({ number }: { number: number }) => (number < 6 ? Promise.reject(new Error("fell")) : number);
  assert.equal(await client.supervise("consumer", run), 6);
  const attempts = service.asked.map(({ attempt }) => attempt);
  assert.deepEqual(attempts, [1, 2, 3, 1, 2, 3, 1, 2]);
});

test("a_run_that_lasts_is_reported_as_a_success_while_it_runs", async () => {
  using service = await Scripted.start({ answer: () => granted({ permitTtl: { seconds: 60n, nanos: 0 } }) });
  await using client = new Client({ endpoints: [service.endpoint], timeout: 1_000 });
  const stop = new AbortController();
  const running = client.supervise("consumer", () => new Promise(() => {}), {
    healthyAfter: 20,
    signal: stop.signal,
  });
  while (service.reports.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  const [entry] = service.reports[0]?.entries ?? [];
  assert.equal(entry?.entry.case === "result" && entry.entry.value.outcome?.kind, 1);
  stop.abort();
  await assert.rejects(running, { name: "AbortError" });
});

test("a_supervisor_stops_at_an_error_that_no_restart_mends", async () => {
  const client = new Client({ endpoints: NOBODY });
  const error = new Error("misconfigured");
  const running = client.supervise("consumer", () => Promise.reject(error), {
    stopIf: (one) => one === error,
  });
  await assert.rejects(running, (thrown) => thrown === error);
  assert.equal(stopped(error)?.attempts, 1);
});

test("the_own_delay_is_uniform_below_a_doubling_ceiling_and_never_spins", () => {
  const ceilings = [1, 2, 3, 4, 7, 8, 9].map((failures) => fullJitter(OWN_POLICY, failures, 1));
  assert.deepEqual(ceilings, [100, 200, 400, 800, 6_400, 10_000, 10_000]);
  const none = { ...OWN_POLICY, backoff: { ...OWN_POLICY.backoff, initialDelay: 0n, maxDelay: 0n } };
  assert.equal(fullJitter(none, 3, 0.5), 50);
});

test("checks_are_made_when_the_service_plans_them_and_their_results_are_handed_over_once", async () => {
  using service = await Scripted.start({
    plan: () => {
      const number = service.planned.length;
      const run = {
        delay: { seconds: 0n, nanos: 0 },
        permit: Buffer.from(`c${number}`),
        timeout: { seconds: 1n, nanos: 0 },
      };
      const shared = { verdict: 2, askAgain: { seconds: 0n, nanos: 1_000_000 } };
      return {
        plan: number === 2 ? { case: "shared", value: shared } : { case: "run", value: run },
        verdict: 1,
      };
    },
  });
  await using client = new Client({ endpoints: [service.endpoint] });
  const findings: Finding[] = [];
  let run = 0;
  const checked = await client.check("payments", () => run++ === 0, {
    runs: 2,
    onFinding: (one) => findings.push(one),
  });
  assert.deepEqual(checked, { runs: 2, last: false, wasStopped: false });
  assert.deepEqual(
    findings.map((one) => (one.kind === "ran" ? `${one.isHealthy} ${one.fleet} ${one.isLocal}` : one.kind)),
    ["true healthy false", "shared", "false healthy false"],
  );
  const told = service.planned.map(
    ({ lastResult }) => lastResult && `${Buffer.from(lastResult.permit)} ${lastResult.verdict}`,
  );
  assert.deepEqual(told, [undefined, "c1 1", undefined, "c3 2"]);
});

test("where_nothing_is_planned_and_without_a_service_checks_go_on_alone_and_that_is_told_once", async () => {
  using service = await Scripted.start();
  for (const [endpoint, kind] of [
    [service.endpoint, "not-planned"],
    ["http://127.0.0.1:1", "away"],
  ] as const) {
    await using client = new Client({ endpoints: [endpoint] });
    const kinds: string[] = [];
    const options = { period: 20, timeout: 10, runs: 3, onFinding: (one: Finding) => kinds.push(one.kind) };
    const checked = await client.check("payments", ({ isLocal }) => isLocal, options);
    assert.deepEqual(
      [checked, kinds],
      [{ runs: 3, last: true, wasStopped: false }, [kind, "ran", "ran", "ran"]],
    );
  }
});

test("a_check_that_takes_too_long_is_unhealthy_and_one_that_is_stopped_ends", async () => {
  const client = new Client({ endpoints: NOBODY });
  const findings: Finding[] = [];
  const stop = new AbortController();
  const options = { period: 20, timeout: 5, signal: stop.signal };
  const checked = await client.check("payments", () => new Promise(() => {}), {
    ...options,
    onFinding: (finding) => {
      findings.push(finding);
      if (finding.kind === "ran") stop.abort();
    },
  });
  assert.equal(checked.wasStopped, true);
  assert.ok(findings.some((one) => one.kind === "ran" && one.timedOut && !one.isHealthy));
});

test("the_grid_is_that_of_the_anchor_and_a_late_run_takes_the_next_time", () => {
  const schedule = new Schedule(0n, 10, 1, 7);
  const after = [0, 6, 7, 16, 17, 1_000].map((now) => schedule.after(now));
  assert.deepEqual(after, [7, 7, 17, 17, 27, 1_007]);
  const name = (instance: string) => checkerName("payments", { service: "checkout", instance });
  assert.notEqual(name("a"), name("b"));
});

test("the_counters_are_read_as_metrics_when_an_exporter_asks", async () => {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  const client = new Client({ endpoints: NOBODY });
  const stop = instrument(client, { meterProvider, attributes: { team: "shop" } });
  for (let call = 0; call < 3; call++) await client.call("payments", () => call);
  await reader.forceFlush();
  stop();
  const metrics = exporter
    .getMetrics()
    .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics));
  const decisions = metrics.find(({ descriptor }) => descriptor.name === "holdoff.client.decisions");
  const local = decisions?.dataPoints.find(
    ({ attributes }) => attributes["holdoff.by"] === "local" && attributes["holdoff.answer"] === "granted",
  );
  assert.deepEqual([local?.value, local?.attributes["team"]], [3, "shop"]);
  await meterProvider.shutdown();
});

/** Certificates of an authority, a server and a client, made anew. */
function certificates(): Record<"ca" | "server" | "serverKey" | "client" | "clientKey", Buffer> {
  const folder = mkdtempSync(join(tmpdir(), "holdoff-tls-"));
  const openssl = (...words: string[]) => execFileSync("openssl", words, { cwd: folder, stdio: "pipe" });
  const request = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  openssl(...request, "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem");
  for (const name of ["server", "client"]) {
    openssl(
      ...request,
      "-subj",
      `/CN=${name}`,
      "-addext",
      "subjectAltName=DNS:holdoff.test",
      "-keyout",
      `${name}.key`,
      "-out",
      `${name}.csr`,
    );
    openssl(
      "x509",
      "-req",
      "-in",
      `${name}.csr`,
      "-CA",
      "ca.pem",
      "-CAkey",
      "ca.key",
      "-days",
      "2",
      "-copy_extensions",
      "copy",
      "-out",
      `${name}.pem`,
    );
  }
  const read = (file: string) => readFileSync(join(folder, file));
  const made = {
    ca: read("ca.pem"),
    server: read("server.pem"),
    serverKey: read("server.key"),
    client: read("client.pem"),
    clientKey: read("client.key"),
  };
  rmSync(folder, { recursive: true });
  return made;
}

test("a_client_with_certificates_and_a_token_is_let_in_and_one_without_decides_alone", async () => {
  const { ca, server, serverKey, client: cert, clientKey: key } = certificates();
  const pair = { cert_chain: server, private_key: serverKey };
  using service = await Scripted.start({ credentials: ServerCredentials.createSsl(ca, [pair], true) });
  const endpoints = [service.endpoint.replace("http:", "https:")];
  const serverName = "holdoff.test";
  let tokens = 0;
  const token = () => `t${++tokens}`;
  const lets: boolean[] = [];
  for (const tls of [
    { ca, cert, key, serverName },
    { ca, serverName },
    { cert, key, serverName },
    { ca, cert, key },
  ]) {
    await using client = new Client({ endpoints, tls, token });
    await client.connect();
    lets.push(!(await client.call("payments", ({ isLocal }) => isLocal)));
  }
  assert.deepEqual(lets, [true, false, false, false]);
  assert.deepEqual(service.tokens, ["Bearer t1"]);
});
