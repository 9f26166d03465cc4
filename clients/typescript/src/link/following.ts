// What a stream follows. It begins with what was called lately, the service adds what is asked about,
// and what is called no longer is left, so that nothing is pushed for nobody and the fleet's allowance
// is shared by those who use it.

import { create } from "@bufbuild/protobuf";
import {
  type Hello,
  HelloSchema,
  type SessionRequest,
  SessionRequestSchema,
} from "../gen/holdoff/v1/coordinator_pb.js";
import type { Pushed } from "../pushed.js";

/** Names in one message; of 202 bytes at most, so that these are 40 KiB. */
const NAMES_MAX = 200;
/** Names that are followed again when they are asked about; others are only asked about. */
const LEFT_MAX = 10_000;

export class Following {
  readonly #pushed: Pushed;
  /** What this stream has left. */
  readonly #left = new Set<string>();

  constructor(pushed: Pushed) {
    this.#pushed = pushed;
  }

  /** The first messages of a stream. Their answers, if any, are errors that nobody waits for. */
  greeting(hello: Hello): SessionRequest[] {
    const [subscribe = [], ...rest] = chunks(this.#pushed.followed());
    const value = create(HelloSchema, { ...hello, subscribe });
    const first = create(SessionRequestSchema, { message: { case: "hello", value } });
    return [first, ...rest.map((add) => subscription(add, []))];
  }

  /** Leaves what is called no longer. */
  leaveIdle(): SessionRequest[] {
    const idle = this.#pushed.leaveIdle();
    for (const name of idle) if (this.#left.size < LEFT_MAX) this.#left.add(name);
    return chunks(idle).map((remove) => subscription([], remove));
  }

  /** Follows again what was left and is asked about. */
  resume(asked: Iterable<string>): SessionRequest[] {
    if (this.#left.size === 0) return [];
    return chunks([...asked].filter((name) => this.#left.delete(name))).map((add) => subscription(add, []));
  }
}

function subscription(add: string[], remove: string[]): SessionRequest {
  return create(SessionRequestSchema, { message: { case: "subscribe", value: { add, remove } } });
}

function chunks(names: string[]): string[][] {
  const count = Math.ceil(names.length / NAMES_MAX);
  return Array.from({ length: count }, (_, index) => names.slice(index * NAMES_MAX, (index + 1) * NAMES_MAX));
}
