// Type-checked against the installed package, as a user's code is: what is inferred, and what is refused.

import {
  Client,
  type Denial,
  DeniedError,
  holdoffFetch,
  holdoffInterceptor,
  type Outcome,
  type Permit,
  stopped,
} from "@holdoff/client";

const client = new Client({ service: "checkout", logger: console, tls: { ca: "pem" }, token: () => "t" });

const text: string = await client.call(
  "payments",
  async ({ signal, number }) => `${signal.aborted} ${number}`,
);
const either: string | null = await client.call<string | null>("payments", () => text, {
  fallback: () => null,
});
const length: (word: string) => Promise<number> = client.guard("length", (word: string) => word.length);
const guarded: typeof fetch = holdoffFetch(client, { idempotent: ({ pathname }) => pathname === "/" });
const interceptors = [holdoffInterceptor(client, { dependency: "ledger" })];

const permit: Permit = await client.acquire("search", { idempotent: true, deadline: 3_000 });
const outcome: Outcome = { kind: "timeout", latency: 12 };
const next = await permit.retry(outcome).catch((error: unknown) => error);
const denial: Denial | undefined = next instanceof DeniedError ? next.denial : stopped(next);
permit.report("success");

// @ts-expect-error a kind that there is not
permit.report("succes");
// @ts-expect-error an option that there is not
await client.call("payments", () => 1, { idempotant: true });

console.log(either, length, guarded, interceptors, denial);
await client.close();
