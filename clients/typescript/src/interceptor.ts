// Under a generated gRPC client: an interceptor for grpc-js that makes each call a guarded one.
//
// A unary call is repeated whole. A call whose answers are a stream is repeated until the first of
// them has come; after that it is passed through. One whose requests are a stream is asked for and
// reported, and never repeated, since nothing keeps what was sent.
//
// The status that the caller sees is that of the last attempt; `stopped(error)` tells why there was no
// further one.

import {
  type InterceptorOptions as CallSettings,
  InterceptingCall,
  type Interceptor,
  Metadata,
  type NextCall,
  status,
} from "@grpc/grpc-js";
import type { CallOptions } from "./call.js";
import { wasRefused } from "./classify/grpc.js";
import { classifyError, type Result } from "./classify/index.js";
import type { Client } from "./client.js";
import { DeniedError, passOn, TimedOutError } from "./denial.js";
import { type Outcome, SUCCESS } from "./outcome.js";

export interface InterceptorOptions
  extends Omit<
    CallOptions<unknown>,
    "signal" | "deadline" | "idempotent" | "keyed" | "fallback" | "classify"
  > {
  /** What a method calls, by its path (`/package.Service/Method`). */
  readonly dependency: string | ((path: string) => string);
  /** Whether it may be called twice; not so unless said. */
  readonly idempotent?: boolean | ((path: string) => boolean);
}

type Call = ReturnType<NextCall>;
type Listener = Parameters<InterceptingCall["start"]>[1] & object;
type MessageContext = Parameters<Call["sendMessageWithContext"]>[0];
type StatusObject = Parameters<NonNullable<Listener["onReceiveStatus"]>>[0];

/** `new PaymentsClient(address, credentials, { interceptors: [holdoffInterceptor(client, …)] })` */
export function holdoffInterceptor(client: Client, options: InterceptorOptions): Interceptor {
  return (settings, next) => new InterceptingCall(new GuardedCall(client, options, settings, next));
}

/** A status as an error, as grpc-js itself makes it. */
class StatusError extends Error {
  readonly code: number;
  readonly details: string;
  readonly metadata: Metadata;

  constructor({ code, details, metadata }: StatusObject) {
    super(`${code}: ${details}`);
    this.code = code;
    this.details = details;
    this.metadata = metadata;
  }
}

/** No connection could be made for the call. */
class RefusedError extends StatusError {}

/** What a message was sent with. */
interface Sent {
  readonly context: MessageContext;
  readonly message: unknown;
}

class GuardedCall implements Call {
  readonly #client: Client;
  readonly #options: InterceptorOptions;
  readonly #settings: CallSettings;
  readonly #next: NextCall;
  readonly #cancelled = new AbortController();
  readonly #sent: Sent[] = [];
  #metadata = new Metadata();
  #listener: Listener = {};
  #inner: Call | undefined;
  #isHalfClosed = false;
  /** Asked for by the caller, and not answered by a message yet. */
  #reads = 0;
  /** The caller has been told the end. */
  #isOver = false;

  constructor(client: Client, options: InterceptorOptions, settings: CallSettings, next: NextCall) {
    this.#client = client;
    this.#options = options;
    this.#settings = settings;
    this.#next = next;
  }

  start(metadata: Metadata, listener: Listener = {}): void {
    this.#metadata = metadata;
    this.#listener = listener;
    void this.#run();
  }

  sendMessage(message: unknown): void {
    this.sendMessageWithContext({}, message);
  }

  sendMessageWithContext(context: MessageContext, message: unknown): void {
    // What cannot be repeated is not kept.
    if (!this.#isRepeatable && this.#inner !== undefined) {
      this.#inner.sendMessageWithContext(context, message);
      return;
    }
    this.#sent.push({ context, message });
    this.#inner?.sendMessageWithContext(context, message);
  }

  startRead(): void {
    this.#reads += 1;
    this.#inner?.startRead();
  }

  halfClose(): void {
    this.#isHalfClosed = true;
    this.#inner?.halfClose();
  }

  cancelWithStatus(code: status, details: string): void {
    this.#inner?.cancelWithStatus(code, details);
    this.#cancelled.abort(new StatusError({ code, details, metadata: new Metadata() }));
  }

  getPeer(): string {
    return this.#inner?.getPeer() ?? "";
  }

  getAuthContext(): ReturnType<Call["getAuthContext"]> {
    return this.#inner?.getAuthContext() ?? null;
  }

  get #isRepeatable(): boolean {
    return !this.#settings.method_definition.requestStream;
  }

  async #run(): Promise<void> {
    const { dependency, idempotent, ...common } = this.#options;
    const { path } = this.#settings.method_definition;
    const timeLeft = timeLeftOf(this.#settings.deadline);
    try {
      const deliver = await this.#client.call(
        typeof dependency === "function" ? dependency(path) : dependency,
        ({ signal }) => this.#attempt(signal),
        {
          ...common,
          classify,
          idempotent: typeof idempotent === "function" ? idempotent(path) : (idempotent ?? false),
          signal: this.#cancelled.signal,
          ...(timeLeft === undefined ? {} : { deadline: timeLeft }),
          ...(this.#isRepeatable ? {} : { maxAttempts: 1 }),
        },
      );
      deliver();
    } catch (error) {
      this.#end(statusOf(error));
    }
  }

  /** Resolves with what hands the answer to the caller; rejects with a status that is none. */
  #attempt(signal: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      const inner = this.#next(this.#settings);
      const isStream = this.#settings.method_definition.responseStream;
      let headers: Metadata | undefined;
      let messages: unknown[] = [];
      let ended: StatusObject | undefined;
      let isPassedThrough = false;
      const passOn = () => {
        isPassedThrough = true;
        if (headers !== undefined) this.#listener.onReceiveMetadata?.(headers);
        for (const message of messages) this.#deliver(message);
        messages = [];
        if (ended !== undefined) this.#end(ended);
      };
      signal.addEventListener("abort", () => inner.cancelWithStatus(status.CANCELLED, "given up"), {
        once: true,
      });
      inner.start(this.#metadata.clone(), {
        onReceiveMetadata: (received) => {
          headers = received;
          if (isPassedThrough) this.#listener.onReceiveMetadata?.(received);
        },
        onReceiveMessage: (message: unknown) => {
          if (isPassedThrough) return this.#deliver(message);
          messages.push(message);
          // A stream that has begun is a success, whatever its end will be.
          if (isStream) resolve(passOn);
        },
        onReceiveStatus: (received) => {
          if (isPassedThrough) return this.#end(received);
          ended = received;
          if (received.code === status.OK) resolve(passOn);
          // Of no effect where a stream has begun.
          else reject(errorOf(received, headers, inner));
        },
      });
      this.#inner = inner;
      for (const { context, message } of this.#sent) inner.sendMessageWithContext(context, message);
      if (!this.#isRepeatable) this.#sent.length = 0;
      if (this.#isHalfClosed) inner.halfClose();
      for (let read = 0; read < this.#reads; read++) inner.startRead();
    });
  }

  #deliver(message: unknown): void {
    this.#reads -= 1;
    this.#listener.onReceiveMessage?.(message);
  }

  #end(received: StatusObject): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#listener.onReceiveStatus?.(received);
  }
}

function errorOf(received: StatusObject, headers: Metadata | undefined, inner: Call): StatusError {
  const isRefused = wasRefused({
    status: received,
    hasMetadata: headers !== undefined || Object.keys(received.metadata.getMap()).length > 0,
    hasConnection: inner.getAuthContext() !== null,
  });
  return isRefused ? new RefusedError(received) : new StatusError(received);
}

function classify(result: Result<unknown>): Outcome {
  if (result.ok) return SUCCESS;
  const outcome = classifyError(result.error);
  return result.error instanceof RefusedError ? { ...outcome, kind: "not_sent" } : outcome;
}

function timeLeftOf(deadline: CallSettings["deadline"]): number | undefined {
  if (deadline === undefined || deadline === null) return undefined;
  const at = deadline instanceof Date ? deadline.getTime() : deadline;
  return Number.isFinite(at) ? Math.max(at - Date.now(), 0) : undefined;
}

/**
 * grpc-js makes an error of its own from a status. It keeps the status's metadata, by which the reason
 * is found again.
 */
function statusOf(error: unknown): StatusObject {
  const metadata = error instanceof StatusError ? error.metadata.clone() : new Metadata();
  passOn(error, metadata);
  if (error instanceof StatusError) return { code: error.code, details: error.details, metadata };
  return { code: codeOf(error), details: error instanceof Error ? error.message : String(error), metadata };
}

function codeOf(error: unknown): status {
  if (error instanceof TimedOutError) return status.DEADLINE_EXCEEDED;
  if (!(error instanceof DeniedError)) return status.UNKNOWN;
  const { reason } = error;
  if (reason === "DEADLINE") return status.DEADLINE_EXCEEDED;
  return reason === "RATE_LIMITED" ? status.RESOURCE_EXHAUSTED : status.UNAVAILABLE;
}
