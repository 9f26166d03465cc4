// HTTP statuses.
//
// | status | outcome |
// |---|---|
// | 1xx | ignored |
// | 2xx, 3xx | success |
// | 408, 504 | timeout |
// | 421, 425 | failure |
// | 429 | throttled |
// | other 4xx, 501, 505 | rejected |
// | other 5xx | failure |
//
// `Retry-After` counts on 408, 429 and all 5xx: whole seconds or one of the three date forms,
// counted from the response's own `Date` where it has one. Anything else is ignored, and so are
// two of them.

import type { Outcome, OutcomeKind } from "../outcome.js";
import { parseRetryAfter } from "../rules/pushback.js";
import { millisOf } from "../rules/time.js";

/** What is read of a response: `Response` of fetch, or any other shape of headers. */
export interface HttpStatus {
  readonly status: number;
  readonly headers?: HttpHeaders | undefined;
}

export type HttpHeaders =
  | { get(name: string): string | null | undefined }
  | Iterable<readonly [string, string]>
  | Readonly<Record<string, string | readonly string[] | undefined>>;

/** How an attempt with this response ended. */
export function classifyHttp(response: HttpStatus): Outcome {
  return classifyHttpAt(response, Math.floor(Date.now() / 1000));
}

export function classifyHttpAt({ status, headers }: HttpStatus, wallSeconds: number): Outcome {
  const kind = kindOf(status);
  if (headers === undefined || !mayPushBack(status)) return { kind, statusCode: status };
  const pushback = retryAfterOf(headers, wallSeconds);
  return pushback === undefined ? { kind, statusCode: status } : { kind, statusCode: status, pushback };
}

function kindOf(status: number): OutcomeKind {
  if (status < 200) return "ignored";
  if (status < 400) return "success";
  if (status === 408 || status === 504) return "timeout";
  if (status === 429) return "throttled";
  if (status === 421 || status === 425) return "failure";
  return status < 500 || status === 501 || status === 505 ? "rejected" : "failure";
}

function mayPushBack(status: number): boolean {
  return status === 408 || status === 429 || status >= 500;
}

function retryAfterOf(headers: HttpHeaders, wallSeconds: number): number | undefined {
  const [value, ...others] = valuesOf(headers, "retry-after");
  // Two values contradict each other, so neither is an instruction.
  if (value === undefined || others.length > 0) return undefined;
  const wait = parseRetryAfter(value, valuesOf(headers, "date")[0] ?? null, wallSeconds);
  return wait === null ? undefined : millisOf(wait);
}

function valuesOf(headers: HttpHeaders, name: string): string[] {
  if ("get" in headers && typeof headers.get === "function") {
    // Two values are joined by a comma here, which no single one but a date has.
    return textsOf(headers.get(name));
  }
  const pairs = Symbol.iterator in headers ? headers : Object.entries(headers);
  const values: string[] = [];
  for (const [key, value] of pairs as Iterable<readonly [string, unknown]>) {
    if (key.toLowerCase() === name) values.push(...textsOf(value));
  }
  return values;
}

/** Whoever makes up an error with headers may well write a number there, or that there is none. */
function textsOf(value: unknown): string[] {
  return [value]
    .flat()
    .filter((one) => one !== null && one !== undefined)
    .map(String);
}
