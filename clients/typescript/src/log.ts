// What the client tells those who run it: lines for a logger, and events for whoever subscribes to
// them on `node:diagnostics_channel`. Neither is paid for where nobody listens.

import { type Channel, channel } from "node:diagnostics_channel";
import { debuglog } from "node:util";
import type { Denial } from "./denial.js";
import type { Outcome } from "./outcome.js";

/** `console`, pino, winston and their like. */
export interface Logger {
  debug?(message: string, ...details: unknown[]): void;
  info?(message: string, ...details: unknown[]): void;
  warn?(message: string, ...details: unknown[]): void;
}

/**
 * | channel | message |
 * |---|---|
 * | `holdoff:attempt` | {@link AttemptEvent}: an attempt of a call has ended |
 * | `holdoff:denied` | {@link DeniedEvent}: there is no attempt, or no further one |
 * | `holdoff:service` | {@link ServiceEvent}: the service stopped to answer, or answers again |
 */
export const channels = {
  attempt: channel("holdoff:attempt") as Channel<AttemptEvent>,
  denied: channel("holdoff:denied") as Channel<DeniedEvent>,
  service: channel("holdoff:service") as Channel<ServiceEvent>,
};

export interface AttemptEvent {
  readonly dependency: string;
  readonly attempt: number;
  readonly isProbe: boolean;
  readonly isLocal: boolean;
  readonly outcome: Outcome;
}

export interface DeniedEvent {
  readonly dependency: string;
  readonly denial: Denial;
}

export interface ServiceEvent {
  readonly isAway: boolean;
  /** `host:port`. */
  readonly endpoint: string;
  readonly why: string;
}

/** A logger that throws must not fail a call. */
export class Log {
  readonly #logger: Logger | undefined;
  readonly #isDebugging: boolean;

  constructor(logger: Logger | undefined) {
    this.#logger = logger;
    // `console` prints whatever it is given.
    this.#isDebugging = logger !== undefined && (logger !== console || debuglog("holdoff").enabled);
  }

  debug(message: string, details: Record<string, unknown>): void {
    if (this.#isDebugging) this.#say("debug", message, [details]);
  }

  info(message: string): void {
    this.#say("info", message, []);
  }

  warn(message: string): void {
    this.#say("warn", message, []);
  }

  #say(level: "debug" | "info" | "warn", message: string, details: readonly unknown[]): void {
    try {
      this.#logger?.[level]?.(`holdoff: ${message}`, ...details);
    } catch {
      // Nobody to tell.
    }
  }
}
