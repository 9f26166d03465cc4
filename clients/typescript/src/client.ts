// The client: what its calls share, and where they begin.

import { create } from "@bufbuild/protobuf";
import { Asking } from "./asking.js";
import { type CallOptions, call, type Operation } from "./call.js";
import { type Checked, type CheckOptions, type CheckRun, check, type Health } from "./check.js";
import { Clock } from "./clock.js";
import type { Core } from "./core.js";
import { type Counters, counting } from "./counters.js";
import { HelloSchema } from "./gen/holdoff/v1/coordinator_pb.js";
import { Link } from "./link.js";
import { Local } from "./local.js";
import { Log } from "./log.js";
import { type ClientOptions, readOptions } from "./options.js";
import { type Permit, permitFor } from "./permit.js";
import { Pushed } from "./pushed.js";
import { type QuestionOptions, readQuestion } from "./question.js";
import type { Policy } from "./rules/policy.js";
import { type SupervisorOptions, supervise, type Task } from "./supervisor.js";

const FAREWELL = 1_000;
const POLL = 1;
const TESTING_ATTEMPTS = 3;

/** Asks holdoff before a call. One for a process is enough: all calls share its connection. */
export class Client implements AsyncDisposable {
  readonly #core: Core;

  /**
   * Nothing is connected yet.
   *
   * @throws {SettingError} A setting can never work.
   */
  constructor(options: ClientOptions = {}) {
    this.#core = isTesting(options) ? testing() : coreOf(options);
  }

  /**
   * For tests of code that makes calls: no service, no waiting, no breaker, at most three attempts a
   * call. What can never be retried is not retried here either.
   */
  static testing(): Client {
    return new Client(TESTING);
  }

  /**
   * Makes a call: asks, waits, runs `operation`, reports, and retries.
   *
   * @throws The last error of `operation`, as it is; {@link stopped} says why there was no further
   * attempt. {@link DeniedError} where no attempt has returned an error. The signal's reason where
   * the caller gave the call up.
   */
  call<T>(dependency: string, operation: Operation<T>, options: CallOptions<T> = {}): Promise<T> {
    return call(this.#core, dependency, operation, options);
  }

  /** The same function, each call of it guarded. */
  guard<A extends unknown[], T>(
    dependency: string,
    operation: (...args: A) => T | PromiseLike<T>,
    options: CallOptions<T> = {},
  ): (...args: A) => Promise<T> {
    return (...args) => call(this.#core, dependency, () => operation(...args), options);
  }

  /**
   * Only the question: `wait` on the permit before the attempt, `report` or `retry` after it.
   *
   * @throws {DeniedError} The attempt may not be made.
   */
  acquire(dependency: string, options: QuestionOptions = {}): Promise<Permit> {
    return permitFor(Asking.first(this.#core, readQuestion(this.#core, dependency, options)));
  }

  /**
   * Keeps a task running: restarts it when it fails, after a coordinated and jittered delay. `name` is
   * that of a dependency: the task's own, or what it cannot do without.
   */
  supervise<T>(name: string, task: Task<T>, options: SupervisorOptions = {}): Promise<T> {
    return supervise(this.#core, name, task, options);
  }

  /**
   * Runs a health check again and again, when the service says: spread over the fleet, or left to
   * others whose verdict is told instead.
   */
  check(dependency: string, run: (check: CheckRun) => Health, options: CheckOptions = {}): Promise<Checked> {
    return check(this.#core, dependency, run, options);
  }

  /**
   * Connects now rather than with the first question, which may then be answered in time, and waits
   * for the state of what is followed. False: the service was not reached within `timeout` ms.
   */
  async connect(timeout = 1_000): Promise<boolean> {
    const { link, now, timeout: patience } = this.#core;
    if (link === null) return false;
    const end = now() + timeout;
    const isThere = await within(link.connect(), timeout, false);
    // What is not heard of is asked for.
    const heardBy = Math.min(end, now() + patience);
    while (isThere && !link.pushed.hasHeardAllWished && now() < heardBy) await pause();
    return isThere;
  }

  /**
   * Waits until the service has taken all outcomes. False: some were still on their way after
   * `timeout` ms.
   */
  async flush(timeout = FAREWELL): Promise<boolean> {
    const { link, now } = this.#core;
    if (link === null) return true;
    for (const end = now() + timeout; !link.reports.isEmpty; await pause()) {
      if (now() >= end) return false;
      link.reports.hurry();
    }
    return true;
  }

  /** Tells the last outcomes, for a second at most, and ends the connection. */
  async close(): Promise<void> {
    await this.#core.link?.close(FAREWELL, (timeout) => this.flush(timeout));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** What it has done so far. */
  get counters(): Counters {
    return { ...this.#core.counting };
  }
}

const TESTING: ClientOptions = Object.freeze({});

function isTesting(options: ClientOptions): boolean {
  return options === TESTING;
}

function coreOf(options: ClientOptions): Core {
  const settings = readOptions(options);
  const isBypassed = process.env["HOLDOFF_BYPASS"] === "1";
  const clock = new Clock();
  const now = () => clock.now();
  const log = new Log(settings.logger);
  const counts = counting();
  const local = new Local(now);
  const pushed = new Pushed(now, settings.policy, settings.follow);
  pushed.onLetGo = (dependency) => local.letGo(dependency);
  const { service, instance, namespace, endpoints, timeout, onNoDecision, policy } = settings;
  const hello = create(HelloSchema, { caller: { service, instance }, namespace });
  const { tls, token } = settings;
  const link = new Link({ endpoints, tls, token, hello, pushed, counting: counts, log, now });
  return {
    link: isBypassed ? null : link,
    isTesting: false,
    timeout,
    onNoDecision,
    local,
    own: policy,
    now,
    counting: counts,
    log,
  };
}

function testing(): Core {
  const { policy } = readOptions({ localPolicy: { maxAttempts: TESTING_ATTEMPTS, initialDelay: 0 } });
  const own: Policy = { ...policy, budget: { ...policy.budget, floorMicrosPerSecond: 10n ** 12n } };
  const clock = new Clock();
  const now = () => clock.now();
  return {
    link: null,
    isTesting: true,
    timeout: 0,
    onNoDecision: "local",
    local: new Local(now),
    own,
    now,
    counting: counting(),
    log: new Log(undefined),
  };
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, POLL));
}

function within<T>(promise: Promise<T>, millis: number, otherwise: T): Promise<T> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(otherwise), millis);
    void promise.then((value) => {
      clearTimeout(timer);
      resolve(value);
    });
  });
}
