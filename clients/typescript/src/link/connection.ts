// What a connection is to the link, and the link to it.

import type { Counting } from "../counters.js";
import type { Gate } from "../gate.js";
import type { AcquireResponse, Hello } from "../gen/holdoff/v1/coordinator_pb.js";
import type { Pushed } from "../pushed.js";
import type { Reports } from "../reports.js";
import type { Ask, Reply } from "./ask.js";
import type { End } from "./course.js";

/** A session, or the same without a stream. */
export interface Connection {
  ask(ask: Ask): void;
  /** Calls back once the service has taken it; with false where it never does. */
  whenOpen(then: (isOpen: boolean) => void): void;
  /** There is something to report, or room for it again. */
  reportsChanged(): void;
  /** Everything was sent and answered. */
  readonly isIdle: boolean;
  /** Ends it; those who wait learn it at once. */
  end(end: End): void;
}

/** What connections use. */
export interface Surroundings {
  readonly hello: Hello;
  readonly reports: Reports;
  readonly pushed: Pushed;
  readonly gate: Gate;
  readonly counting: Counting;
  readonly now: () => number;
  /** To whoever waits; a grant that nobody waits for any longer is given back. */
  reply(ask: Ask, reply: Reply): void;
  giveBack(response: AcquireResponse): void;
  /** The service refuses to push the state of a dependency. */
  warnFollowing(text: string): void;
  /** Somebody would wait for an answer of it now. */
  readonly isAwaited: boolean;
  /** The service has said something on this connection. */
  heard(): void;
  /** The preferred endpoint can be reached. */
  isPreferredBack(): Promise<boolean>;
}

/** The end of a connection, and the questions that were never taken. */
export type OnEnd = (
  end: End,
  untaken: readonly Ask[],
  waiting: readonly ((isOpen: boolean) => void)[],
) => void;
