// Settings of a client and of a call, and what is wrong with them. Only what can never work is
// refused; a service that cannot be reached is the everyday case, and is met when the first question
// is asked.

import { hostname } from "node:os";
import { basename } from "node:path";
import { name } from "./entropy.js";
import type { TlsOptions, Token } from "./link/channel.js";
import { ENDPOINT_ALLOWED, type Endpoint, readEndpoint } from "./link/endpoint.js";
import type { Logger } from "./log.js";
import { type JitterKind, OWN_POLICY, type Policy, type Strategy } from "./rules/policy.js";
import { type Nanos, nanosOf } from "./rules/time.js";

/** What a client does when the service decides nothing. */
export type OnNoDecision = "local" | "allow" | "deny";

/** Settings of a client. Times are milliseconds. */
export interface ClientOptions {
  /**
   * `http://host:port`, `https://host:port` or `host:port`, one or more in order of preference. Unless
   * said, the environment's `HOLDOFF_SERVER`, else `http://127.0.0.1:7460`.
   */
  readonly endpoints?: string | readonly string[];
  /** What this process is, for example `checkout`; the name of its script unless said. */
  readonly service?: string;
  /** Which process of it; no two may share a name. Host, process id and a random part unless said. */
  readonly instance?: string;
  /** The tenant; `default` unless said. */
  readonly namespace?: string;
  /** The longest that a call waits for the service: above 0, to 10,000; 50 unless said. */
  readonly timeout?: number;
  /**
   * When the service decides nothing: `local` decides by the same rules over what this process alone
   * knows, `allow` lets first attempts through, `deny` denies. `local` unless said.
   */
  readonly onNoDecision?: OnNoDecision;
  /** Dependencies whose state is wanted from the first connection on. */
  readonly follow?: readonly string[];
  /** What local decisions keep to before a policy was pushed. */
  readonly localPolicy?: LocalPolicy;
  /** For `https` endpoints. */
  readonly tls?: TlsOptions;
  /** A bearer token, or what reads it anew for each connection; `HOLDOFF_TOKEN` unless said. */
  readonly token?: Token;
  /**
   * `console`, or a logger like it. Nothing is logged unless said. Of `console` the lines at debug are
   * left out unless `NODE_DEBUG` names `holdoff`.
   */
  readonly logger?: Logger;
}

/** What differs from the built-in policy. Times are milliseconds. */
export interface LocalPolicy {
  /** 1 to 1,000, the first call included; `Infinity`: unlimited. 3 unless said. */
  readonly maxAttempts?: number;
  readonly strategy?: Strategy;
  /** 100 unless said. */
  readonly initialDelay?: number;
  /** 1 to 100; 2 unless said. */
  readonly multiplier?: number;
  /** 10,000 unless said. */
  readonly maxDelay?: number;
  readonly minDelay?: number;
  /** `full` unless said. */
  readonly jitter?: JitterKind;
  /** 0 to 1; of `proportional` alone. */
  readonly jitterProportion?: number;
  readonly minAttemptTime?: number;
  /** 60,000 unless said. */
  readonly pushbackMax?: number;
  /** 1,000 unless said. */
  readonly pushbackSpread?: number;
  /** Retries for each first attempt, 0 to 10; 0.1 unless said. */
  readonly budgetRatio?: number;
  /** Retries a second on top of it; 1 unless said. */
  readonly retriesPerSecond?: number;
  /** 10,000 unless said. */
  readonly budgetTtl?: number;
  /** 10,000 unless said. */
  readonly openFor?: number;
  /** 1 to 1,000; 2 unless said. */
  readonly openMultiplier?: number;
  /** 60,000 unless said. */
  readonly openMax?: number;
}

/** A setting that can never work. */
export class SettingError extends RangeError {
  override readonly name = "SettingError";
  readonly field: string;

  constructor(field: string, value: unknown, allowed: string) {
    super(`${field} ${shown(value)}: ${allowed}`);
    this.field = field;
  }
}

const NAME_BYTES_MAX = 200;
const DEFAULT_ENDPOINT = "http://127.0.0.1:7460";
const TIMEOUT_MAX = 10_000;
const LONGEST = 24 * 3600 * 1000;
const SHOWN_MAX = 80;

export interface Settings {
  readonly endpoints: readonly Endpoint[];
  readonly service: string;
  readonly instance: string;
  readonly namespace: string;
  readonly timeout: number;
  readonly onNoDecision: OnNoDecision;
  readonly follow: readonly string[];
  readonly policy: Policy;
  readonly tls: TlsOptions;
  readonly token: Token | undefined;
  readonly logger: Logger | undefined;
}

const OPTIONS: Record<keyof ClientOptions, true> = {
  endpoints: true,
  service: true,
  instance: true,
  namespace: true,
  timeout: true,
  onNoDecision: true,
  follow: true,
  localPolicy: true,
  tls: true,
  token: true,
  logger: true,
};

export function readOptions(options: ClientOptions): Settings {
  refuseUnknown("option", options, OPTIONS);
  const { namespace = "", timeout = 50, onNoDecision = "local" } = options;
  const { follow = [], localPolicy = {}, tls = {}, logger } = options;
  within("timeout", timeout, Number.MIN_VALUE, TIMEOUT_MAX);
  if (!["local", "allow", "deny"].includes(onNoDecision)) {
    throw new SettingError("onNoDecision", onNoDecision, "local, allow or deny");
  }
  if (!Array.isArray(follow)) throw new SettingError("follow", follow, "a list of names");
  for (const dependency of follow) {
    if (!isName(dependency)) throw new SettingError("follow", dependency, NAME_ALLOWED);
  }
  if (namespace !== "" && !isName(namespace)) {
    throw new SettingError("namespace", namespace, `${NAME_ALLOWED}, or nothing`);
  }
  return {
    endpoints: readEndpoints(options.endpoints),
    service: short("service", options.service ?? program()),
    instance: short("instance", options.instance ?? instance()),
    namespace,
    timeout,
    onNoDecision,
    follow,
    policy: readLocalPolicy(localPolicy),
    tls,
    token: readToken(options.token),
    logger,
  };
}

/** Of the option, else of the environment. */
function readEndpoints(said: ClientOptions["endpoints"]): readonly Endpoint[] {
  if (said === undefined) {
    const variable = process.env["HOLDOFF_SERVER"];
    return [variable ? endpointOf("HOLDOFF_SERVER", variable) : endpointOf("endpoint", DEFAULT_ENDPOINT)];
  }
  const texts: readonly unknown[] = Array.isArray(said) ? said : [said];
  if (texts.length === 0) throw new SettingError("endpoints", [], "at least one");
  return texts.map((text) => endpointOf("endpoint", text));
}

/** @throws {SettingError} It is none. */
export function endpointOf(field: string, text: unknown): Endpoint {
  const endpoint = readEndpoint(text);
  if (endpoint !== null) return endpoint;
  throw new SettingError(field, withoutSecret(text), ENDPOINT_ALLOWED);
}

/** What stands in front of an `@` may be a password. */
function withoutSecret(text: unknown): unknown {
  return typeof text === "string" ? text.replace(/^.*@/s, "…@") : text;
}

function readToken(said: unknown): Token | undefined {
  if (said === undefined) return process.env["HOLDOFF_TOKEN"] || undefined;
  if (typeof said === "string" || typeof said === "function") return said as Token;
  // Not shown: it is a secret.
  throw new SettingError("token", typeof said, "a text, or a function that returns one");
}

/** What nobody reads was misspelt. */
export function refuseUnknown(what: string, options: object, known: Readonly<Record<string, true>>): void {
  for (const name in options) {
    if (!Object.hasOwn(known, name)) {
      throw new SettingError(what, name, `there is none of this name, but ${Object.keys(known).join(", ")}`);
    }
  }
}

const NAME = /^[A-Za-z0-9._/:@-]{1,200}$/;
export const NAME_ALLOWED = "1 to 200 ASCII letters, digits and . _ / : @ -";

/** Whether it can be the name of a dependency. */
export function isName(text: unknown): text is string {
  return typeof text === "string" && NAME.test(text);
}

function short(field: string, value: string): string {
  if (typeof value === "string" && Buffer.byteLength(value) <= NAME_BYTES_MAX) return value;
  throw new SettingError(field, value, "a text of at most 200 bytes");
}

function program(): string {
  return basename(process.argv[1] ?? "node")
    .replace(/\.[^.]*$/, "")
    .slice(0, 60);
}

/** The random part tells apart processes with the same id in different containers. */
function instance(): string {
  return `${hostname().slice(0, 150)}-${process.pid}-${name().slice(0, 8)}`;
}

const POLICY: Record<keyof LocalPolicy, true> = {
  maxAttempts: true,
  strategy: true,
  initialDelay: true,
  multiplier: true,
  maxDelay: true,
  minDelay: true,
  jitter: true,
  jitterProportion: true,
  minAttemptTime: true,
  pushbackMax: true,
  pushbackSpread: true,
  budgetRatio: true,
  retriesPerSecond: true,
  budgetTtl: true,
  openFor: true,
  openMultiplier: true,
  openMax: true,
};

function readLocalPolicy(said: LocalPolicy): Policy {
  refuseUnknown("option of localPolicy", said, POLICY);
  const own = OWN_POLICY;
  const maxDelay = span(said, "maxDelay") ?? own.backoff.maxDelay;
  const initialDelay = span(said, "initialDelay") ?? own.backoff.initialDelay;
  const minDelay = span(said, "minDelay") ?? own.backoff.minDelay;
  if (initialDelay > maxDelay) throw new SettingError("initialDelay", said.initialDelay, "at most maxDelay");
  if (minDelay > maxDelay) throw new SettingError("minDelay", said.minDelay, "at most maxDelay");
  const openFor = span(said, "openFor", 1) ?? own.openFor;
  const openMax = span(said, "openMax", 1) ?? (openFor > own.openMax ? openFor : own.openMax);
  if (openFor > openMax) throw new SettingError("openFor", said.openFor, "at most openMax");
  const ratio = ranged(said, "budgetRatio", 0, 10);
  const floor = ranged(said, "retriesPerSecond", 0, 1e6);
  return {
    backoff: {
      strategy: said.strategy ?? own.backoff.strategy,
      initialDelay,
      multiplier: ranged(said, "multiplier", 1, 100) ?? own.backoff.multiplier,
      maxDelay,
      minDelay,
      jitter: {
        kind: said.jitter ?? own.backoff.jitter.kind,
        proportion: ranged(said, "jitterProportion", 0, 1) ?? null,
      },
    },
    budget: {
      ratioPpm: ratio === undefined ? own.budget.ratioPpm : Math.round(ratio * 1e6),
      floorMicrosPerSecond:
        floor === undefined ? own.budget.floorMicrosPerSecond : BigInt(Math.floor(floor * 1e6)),
      ttl: span(said, "budgetTtl", 1) ?? own.budget.ttl,
    },
    maxAttempts: readAttempts(said.maxAttempts, own.maxAttempts),
    minAttemptTime: span(said, "minAttemptTime") ?? own.minAttemptTime,
    pushbackMax: span(said, "pushbackMax") ?? own.pushbackMax,
    pushbackSpread: span(said, "pushbackSpread") ?? own.pushbackSpread,
    openFor,
    openMultiplier: ranged(said, "openMultiplier", 1, 1_000) ?? own.openMultiplier,
    openMax,
    breakerOff: own.breakerOff,
    slowAfter: own.slowAfter,
  };
}

function readAttempts(said: number | undefined, own: number | null): number | null {
  if (said === undefined) return own;
  if (said === Number.POSITIVE_INFINITY) return null;
  if (!Number.isInteger(said)) throw new SettingError("maxAttempts", said, "a whole number, or Infinity");
  return within("maxAttempts", said, 1, 1_000);
}

function span(said: LocalPolicy, field: keyof LocalPolicy, least = 0): Nanos | undefined {
  const millis = ranged(said, field, least, LONGEST);
  return millis === undefined ? undefined : nanosOf(millis);
}

function ranged(said: LocalPolicy, field: keyof LocalPolicy, low: number, high: number): number | undefined {
  const value = said[field];
  return value === undefined ? undefined : within(field, value as number, low, high);
}

/** No number is in no range. */
export function within(field: string, value: number, low: number, high: number): number {
  if (typeof value === "number" && value >= low && value <= high) return value;
  const least = low === Number.MIN_VALUE ? "above 0" : `${low}`;
  throw new SettingError(field, value, `a number, ${least} to ${high}`);
}

function shown(value: unknown): string {
  const text = String(value);
  return `\`${text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text}\``;
}
