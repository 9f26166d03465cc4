// A `fetch` whose requests are guarded calls.
//
// A response with status 408, 425, 429 or 5xx is retried where the request may be repeated, and
// returned as it is where there is no further attempt; `stopped(response)` tells why. A body that is a
// stream is sent once, whatever becomes of it: it cannot be read again.
//
// Unless a request says otherwise (`redirect`), redirects are followed below this. A connection that is
// refused may be that of a second hop then, after the first one has executed the request: that is a
// failure, and only where nothing is followed was the request certainly not sent.

import type { CallOptions } from "./call.js";
import { type Hops, type Result, readResult } from "./classify/index.js";
import type { Client } from "./client.js";
import { type Outcome, SUCCESS } from "./outcome.js";

export interface FetchOptions extends Omit<CallOptions<Response>, "signal" | "idempotent" | "keyed"> {
  /** What a request calls; its host and port unless said. */
  readonly dependency?: string | ((url: URL, init: RequestInit | undefined) => string);
  /**
   * Whether a request may be made twice; unless said, by its method (RFC 9110, 9.2.2: GET, HEAD,
   * OPTIONS, TRACE, PUT, DELETE), and where it has an `Idempotency-Key`.
   */
  readonly idempotent?: boolean | ((url: URL, init: RequestInit | undefined) => boolean);
  /** What makes the requests; the global one unless said. */
  readonly fetch?: typeof fetch;
}

const IDEMPOTENT = new Set(["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"]);

/** The same function, each request of it guarded. It rejects as `fetch` does, with `DeniedError`, or with `TimedOutError`. */
export function holdoffFetch(client: Client, options: FetchOptions = {}): typeof fetch {
  const { dependency, idempotent, fetch: send = fetch, ...common } = options;
  return async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : String(input));
    const request = readRequest(input, init);
    const name = typeof dependency === "function" ? dependency(url, init) : (dependency ?? nameOf(url));
    const isIdempotent = typeof idempotent === "function" ? idempotent(url, init) : idempotent;
    let last: Response | undefined;
    const response = await client.call<Response>(
      name,
      async ({ signal }) => {
        // An answer that nobody reads would keep its connection.
        await last?.body?.cancel().catch(() => {});
        last = await send(input, { ...init, signal: AbortSignal.any([signal, ...request.signals]) });
        return last;
      },
      {
        ...common,
        classify: common.classify ?? ((result) => classifyFetch(result, request.hops)),
        idempotent: isIdempotent ?? request.isIdempotent,
        keyed: isIdempotent === undefined && request.hasKey,
        ...(request.isStream ? { maxAttempts: 1 } : {}),
        ...(request.signals[0] === undefined ? {} : { signal: request.signals[0] }),
      },
    );
    return response;
  };
}

interface Read {
  readonly isIdempotent: boolean;
  readonly hasKey: boolean;
  readonly isStream: boolean;
  readonly hops: Hops;
  /** The caller's own, if any. */
  readonly signals: readonly AbortSignal[];
}

export function readRequest(input: string | URL | Request, init: RequestInit | undefined): Read {
  const request = input instanceof Request ? input : undefined;
  const method = init?.method ?? request?.method ?? "GET";
  const headers = new Headers(init?.headers ?? request?.headers);
  const signal = init?.signal ?? request?.signal;
  const redirect = init?.redirect ?? request?.redirect ?? "follow";
  return {
    isIdempotent: IDEMPOTENT.has(method.toUpperCase()),
    hasKey: Boolean(headers.get("idempotency-key")),
    isStream: init?.body === undefined ? request?.body != null : isStream(init.body),
    hops: redirect === "follow" ? "unknown" : "one",
    signals: signal == null ? [] : [signal],
  };
}

function isStream(body: RequestInit["body"]): boolean {
  if (typeof body !== "object" || body === null) return false;
  return body instanceof ReadableStream || (Symbol.asyncIterator in body && !(body instanceof Blob));
}

/** `api.example.com`, `localhost:8080`: in lower case and without the scheme's own port, as URL has it. */
export function nameOf({ host }: URL): string {
  return host.replaceAll(/[^A-Za-z0-9._:-]/g, "");
}

/** A redirect that was not followed, and what is opaque, have been answered. */
function classifyFetch(result: Result<Response>, hops: Hops): Outcome {
  const isOpaque = result.ok && result.value.status === 0;
  if (isOpaque) return SUCCESS;
  const outcome = readResult(result, hops);
  // Whatever function has made the request.
  return outcome.kind === "not_sent" && hops === "unknown" ? { ...outcome, kind: "failure" } : outcome;
}
