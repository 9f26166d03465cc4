// The driver of this client: plays the client's side of scenarios, as docs/conformance.md says.

import { once } from "node:events";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { Metadata } from "@grpc/grpc-js";
import {
  type Attempt,
  type CallOptions,
  Client,
  type ClientOptions,
  type Denial,
  DeniedError,
  holdoffFetch,
  type Outcome,
  type OutcomeKind,
  type Permit,
  type QuestionOptions,
  SettingError,
  stopped,
} from "../src/index.js";

type Result = Record<string, unknown>;

interface Line {
  id: number;
  endpoints: string[];
  control: string;
  client: { options: Options; steps: Step[] };
}

interface Options {
  service?: string;
  instance?: string;
  namespace?: string;
  timeout_ms?: number;
  follow?: string[];
  on_no_decision?: ClientOptions["onNoDecision"];
  mode?: "fleet" | "testing";
}

interface Step {
  do: string;
  name?: string;
  method?: string;
  url?: string;
  headers?: Record<string, string>;
  ms?: number;
  within_ms?: number;
  every_ms?: number;
  for_ms?: number;
  action?: string;
  permit?: string;
  outcome?: {
    kind: OutcomeKind;
    pushback_ms?: number;
    do_not_retry?: boolean;
    retried_below?: boolean;
    status_code?: number;
  };
  calls?: Step[];
  times?: number;
  dependency?: string;
  function?: Entry[];
  idempotent?: boolean;
  deadline_ms?: number;
  max_attempts?: number;
  attempt_timeout_ms?: number;
  priority?: "low" | "normal" | "high";
  cost?: number;
  call_id?: string;
  on_denied?: "fail" | "wait";
  fallback?: string;
  cancel_after_ms?: number;
  takes_ms?: number;
}

interface Entry {
  ok?: string;
  error?: string;
  http?: number;
  headers?: Record<string, string>;
  grpc?: number;
  trailers?: Record<string, string>;
  get?: string;
  takes_ms?: number;
}

const CLOSE = 300;

function answer(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function play({ endpoints, control, client: { options, steps } }: Line): Promise<Result[]> {
  const client = clientOf(endpoints, options);
  const script = new Script(client, control);
  try {
    for (const step of steps) await script.step(step);
    for (const permit of script.permits.values()) permit.drop();
    await client.flush(CLOSE);
    return script.results;
  } finally {
    void client.close();
  }
}

function clientOf(endpoints: string[], options: Options): Client {
  if (options.mode === "testing") return Client.testing();
  return new Client({
    endpoints: endpoints.map((endpoint) => `http://${endpoint}`),
    service: options.service ?? "checkout",
    instance: options.instance ?? "test-1",
    namespace: options.namespace ?? "",
    timeout: options.timeout_ms ?? 50,
    follow: options.follow ?? [],
    onNoDecision: options.on_no_decision ?? "local",
  });
}

class Script {
  readonly permits = new Map<string, Permit>();
  readonly results: Result[] = [];
  readonly #client: Client;
  readonly #control: string;

  constructor(client: Client, control: string) {
    this.#client = client;
    this.#control = control;
  }

  async step(step: Step): Promise<void> {
    if (step.do === "parallel") {
      const calls = step.calls ?? [];
      const results = await Promise.all(calls.map((call) => this.#calls(call)));
      for (const [index, result] of results.entries()) this.#show(calls[index] ?? step, result);
      return;
    }
    const result = await this.#play(step);
    if (result !== undefined) this.#show(step, result);
  }

  #show({ name }: Step, result: Result): void {
    if (name !== undefined) this.results.push({ name, ...result });
  }

  async #play(step: Step): Promise<Result | undefined> {
    const { within_ms = 1_000 } = step;
    switch (step.do) {
      case "connect":
        return { done: await this.#client.connect(within_ms) };
      case "flush":
        return { done: await this.#client.flush(within_ms) };
      case "wait":
        await sleep(step.ms ?? 0);
        return undefined;
      case "server":
        await this.#server(step.action ?? "");
        return undefined;
      case "call":
        return this.#calls(step);
      case "request":
        return this.#request(step);
      case "acquire":
        return this.#keep(step, () => this.#client.acquire(step.dependency ?? "", questionOf(step)));
      case "retry": {
        const permit = this.#permit(step);
        return this.#keep(step, () => permit.retry(outcomeOf(step)));
      }
      case "report":
        this.#permit(step).report(outcomeOf(step));
        return undefined;
      case "drop":
        this.#permit(step).drop();
        return undefined;
      case "repeat":
        return this.#repeat(step);
      case "until_fleet":
        return this.#untilFleet(step, within_ms);
      default:
        throw new Error(`no step ${step.do}`);
    }
  }

  async #server(action: string): Promise<void> {
    const [host = "", port = ""] = this.#control.split(":");
    const socket = connect(Number(port), host);
    socket.setEncoding("utf8").write(`${action}\n`);
    const [said] = (await once(socket, "data")) as [string];
    socket.destroy();
    if (said.trim() !== "done") throw new Error(`the server said ${said}`);
  }

  #permit({ permit = "" }: Step): Permit {
    const kept = this.permits.get(permit);
    if (kept === undefined) throw new Error(`no permit ${permit}`);
    this.permits.delete(permit);
    return kept;
  }

  async #keep({ name = "" }: Step, ask: () => Promise<Permit>): Promise<Result> {
    try {
      const permit = await (await ask()).wait();
      this.permits.set(name, permit);
      return { granted: true, attempt: permit.attempt, probe: permit.isProbe, local: permit.isLocal };
    } catch (error) {
      if (!(error instanceof DeniedError)) throw error;
      return { granted: false, ...shown(error.denial) };
    }
  }

  async #untilFleet({ dependency = "", every_ms = 20 }: Step, within: number): Promise<Result> {
    const begun = performance.now();
    const after = () => Math.floor(performance.now() - begun);
    while (after() < within) {
      const isLocal = await this.#client.call(dependency, (attempt) => attempt.isLocal).catch(() => true);
      if (!isLocal) return { back: true, after_ms: after() };
      await sleep(every_ms);
    }
    return { back: false, after_ms: after() };
  }

  async #repeat(step: Step): Promise<Result> {
    const { for_ms = 0, every_ms = 0 } = step;
    let [calls, succeeded, refused] = [0, 0, 0];
    for (const end = performance.now() + for_ms; performance.now() < end; await sleep(every_ms)) {
      const { reason, runs } = await this.#call(step);
      calls += 1;
      if (reason === null) succeeded += 1;
      if (runs === 0) refused += 1;
    }
    return { calls, succeeded, refused };
  }

  /** One call after the other. */
  async #calls(step: Step): Promise<Result> {
    let last: Result = {};
    let [runs, longest] = [0, 0];
    for (let time = 0; time < (step.times ?? 1); time++) {
      last = await this.#call(step);
      runs += Number(last["runs"]);
      longest = Math.max(longest, Number(last["total_ms"]));
    }
    return { ...last, runs, total_ms: longest };
  }

  /** Scenarios deny it: nothing is sent. */
  async #request({ method = "GET", url = "", headers = {} }: Step): Promise<Result> {
    let runs = 0;
    const send = async () => {
      runs += 1;
      return new Response();
    };
    try {
      await holdoffFetch(this.#client, { fetch: send })(url, { method, headers });
      return { value: "sent", error: null, reason: null, by: null, retry_after_ms: null, runs };
    } catch (error) {
      return { value: null, error: textOf(error), ...why(error), runs };
    }
  }

  async #call(step: Step): Promise<Result> {
    const { dependency = "", cancel_after_ms, fallback, on_denied } = step;
    const cancelled = new AbortController();
    const options: CallOptions<string> = {
      ...questionOf(step),
      ...(on_denied === undefined ? {} : { onDenied: on_denied }),
      ...(fallback === undefined ? {} : { fallback: () => fallback }),
      ...(cancel_after_ms === undefined ? {} : { signal: cancelled.signal }),
    };
    const starts: number[] = [];
    const begun = performance.now();
    const since = () => Math.floor(performance.now() - begun);
    // Timers may fire a little early.
    const timer = setTimeout(() => cancelled.abort(), (cancel_after_ms ?? 2 ** 30) + 1);
    let ended: Result;
    try {
      const value = await this.#client.call(
        dependency,
        (attempt) => {
          starts.push(since());
          return perform(step, starts.length - 1, attempt);
        },
        options,
      );
      ended = { value, error: null, reason: null, by: null, retry_after_ms: null };
    } catch (error) {
      ended = { value: null, error: textOf(error), ...why(error) };
    }
    clearTimeout(timer);
    return { ...ended, runs: starts.length, starts_ms: starts, total_ms: since() };
  }
}

function questionOf(step: Step): QuestionOptions {
  const { deadline_ms: deadline, max_attempts: maxAttempts, attempt_timeout_ms: attemptTimeout } = step;
  const { idempotent, priority, cost, call_id: callId } = step;
  const fields = { idempotent, deadline, maxAttempts, attemptTimeout, priority, cost, callId };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function outcomeOf({ outcome }: Step): Outcome {
  if (outcome === undefined) throw new Error("no outcome");
  return {
    kind: outcome.kind,
    pushback: outcome.pushback_ms,
    doNotRetry: outcome.do_not_retry,
    retriedBelow: outcome.retried_below,
    statusCode: outcome.status_code,
  };
}

function why(error: unknown): Result {
  const isBadName = error instanceof SettingError && error.field === "dependency";
  if (isBadName) return { reason: "BAD_NAME", by: "CALLER", retry_after_ms: null };
  const said = stopped(error);
  if (said === undefined) throw error;
  return shown(said);
}

function shown({ reason, by, retryAfter }: Denial): Result {
  const millis = retryAfter === null ? null : Math.floor(retryAfter);
  return { reason, by: by.toUpperCase(), retry_after_ms: millis };
}

/** What a user's function fails with. */
class Failed extends Error {
  constructor(text: string, fields: object = {}) {
    super(text);
    Object.assign(this, fields);
  }
}

async function perform(
  { function: entries = [], takes_ms = 0 }: Step,
  run: number,
  attempt: Attempt,
): Promise<string> {
  const entry = entries[run] ?? entries.at(-1) ?? {};
  await sleep(entry.takes_ms ?? takes_ms);
  if (entry.ok !== undefined) return entry.ok;
  if (entry.get !== undefined) return got(entry.get, attempt);
  if (entry.http !== undefined) {
    const headers = new Headers(entry.headers);
    throw new Failed(`http ${entry.http}`, { response: new Response(null, { status: entry.http, headers }) });
  }
  if (entry.grpc !== undefined) {
    const metadata = Metadata.fromHttp2Headers(entry.trailers ?? {});
    throw new Failed(`grpc ${entry.grpc}`, { code: entry.grpc, details: "scripted", metadata });
  }
  throw new Failed(entry.error ?? "no such function");
}

/** A real call. `fetch` fails with an ordinary error where there is no answer. */
async function got(address: string, { number, isProbe, signal }: Attempt): Promise<string> {
  const response = await fetch(`${address}?attempt=${number}&probe=${isProbe ? 1 : 0}`, { signal });
  await response.arrayBuffer();
  if (!response.ok) throw new Failed(`http ${response.status}`, { response });
  return "got";
}

function textOf(error: unknown): string | null {
  return error instanceof Failed ? error.message : null;
}

function sleep(millis: number): Promise<void> | undefined {
  return millis === 0 ? undefined : new Promise((resolve) => setTimeout(resolve, millis));
}

for await (const text of createInterface({ input: process.stdin })) {
  const line = JSON.parse(text) as Line;
  void play(line).then(
    (results) => answer({ id: line.id, results }),
    (error: unknown) => answer({ id: line.id, failed: String(error) }),
  );
}
