// A guarded fetch against a real server.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { Client, DeniedError, holdoffFetch, stopped } from "../src/index.js";

interface Seen {
  readonly method: string | undefined;
  readonly body: string;
}

let seen: Seen[] = [];
/** The statuses of the next answers, 200 after them. */
let statuses: number[] = [];
let headers: Record<string, string> = {};

const server = createServer(async (request: IncomingMessage, response: ServerResponse) => {
  let body = "";
  for await (const chunk of request) body += chunk;
  seen.push({ method: request.method, body });
  const status = statuses.shift() ?? 200;
  response.writeHead(status, status === 200 ? {} : headers).end(`status ${status}`);
});
let url = "";

before(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/items`;
});

after(() => {
  server.closeAllConnections();
  server.close();
});

function guarded(options = {}): typeof fetch {
  seen = [];
  headers = {};
  const client = new Client({ endpoints: ["http://127.0.0.1:1"], localPolicy: { initialDelay: 1 } });
  return holdoffFetch(client, options);
}

test("a_request_that_may_be_repeated_is_retried_until_it_is_answered", async () => {
  const get = guarded();
  statuses = [503, 429];
  const response = await get(url);
  assert.deepEqual([response.status, await response.text(), seen.length], [200, "status 200", 3]);
});

test("the_last_response_is_returned_whole_where_there_is_no_further_attempt", async () => {
  const get = guarded();
  statuses = [503, 503, 503];
  const response = await get(url);
  assert.deepEqual([response.status, await response.text(), seen.length], [503, "status 503", 3]);
  assert.equal(stopped(response)?.reason, "ATTEMPTS_EXHAUSTED");
});

test("a_retry_after_is_waited_for", async () => {
  const get = guarded();
  statuses = [429];
  headers = { "retry-after": "1" };
  const begun = performance.now();
  assert.equal((await get(url)).status, 200);
  assert.ok(performance.now() - begun >= 1_000);
});

test("a_post_is_repeated_only_with_a_key_and_its_text_is_sent_again", async () => {
  const post = guarded();
  statuses = [503];
  assert.equal((await post(url, { method: "POST", body: "once" })).status, 503);
  assert.equal(seen.length, 1);
  statuses = [503];
  const keyed = { method: "POST", body: "again", headers: { "Idempotency-Key": "k1" } };
  assert.equal((await post(url, keyed)).status, 200);
  assert.deepEqual(seen.slice(1), [
    { method: "POST", body: "again" },
    { method: "POST", body: "again" },
  ]);
});

test("a_body_that_is_a_stream_is_sent_once", async () => {
  const put = guarded();
  const body = () => new Blob(["streamed"]).stream();
  statuses = [503];
  assert.equal((await put(url, { method: "PUT", body: body(), duplex: "half" })).status, 503);
  statuses = [503];
  assert.equal((await put(new Request(url, { method: "PUT", body: "text" }))).status, 503);
  assert.deepEqual(
    seen.map((one) => one.body),
    ["streamed", "text"],
  );
});

test("who_aborts_gets_its_reason", async () => {
  await assert.rejects(guarded()(url, { signal: AbortSignal.abort() }), { name: "AbortError" });
});

/** Where nobody listens. */
async function refusing(): Promise<string> {
  const unused = createServer().listen(0, "127.0.0.1");
  await once(unused, "listening");
  const { port } = unused.address() as AddressInfo;
  await new Promise((resolve) => unused.close(resolve));
  return `http://127.0.0.1:${port}/`;
}

async function whyStopped(request: Promise<Response>): Promise<string> {
  const error = await request.catch((error: unknown) => error);
  assert.ok(error instanceof TypeError, String(error));
  return `${stopped(error)?.reason} after ${stopped(error)?.attempts}`;
}

test("a_host_that_refuses_is_retried_as_not_sent_where_no_redirect_is_followed", async () => {
  const nowhere = await refusing();
  for (const redirect of ["manual", "error"] as const) {
    const sent = guarded()(nowhere, { method: "POST", redirect });
    assert.equal(await whyStopped(sent), "ATTEMPTS_EXHAUSTED after 3", redirect);
    const request = guarded()(new Request(nowhere, { method: "POST", redirect }));
    assert.equal(await whyStopped(request), "ATTEMPTS_EXHAUSTED after 3", redirect);
  }
  assert.equal(await whyStopped(guarded()(nowhere, { method: "POST" })), "RETRY_UNSAFE after 1");
  assert.equal(await whyStopped(guarded()(nowhere)), "ATTEMPTS_EXHAUSTED after 3");
});

test("a_post_that_was_executed_is_not_repeated_because_its_redirect_leads_nowhere", async () => {
  const post = guarded();
  statuses = [303];
  headers = { location: await refusing() };
  assert.equal(await whyStopped(post(url, { method: "POST", body: "charge" })), "RETRY_UNSAFE after 1");
  assert.equal(seen.length, 1);
  const client = new Client({ endpoints: ["http://127.0.0.1:1"], localPolicy: { initialDelay: 1 } });
  statuses = [303];
  const plain = client.call("plain", () => fetch(url, { method: "POST", body: "charge" }));
  assert.equal(await whyStopped(plain), "RETRY_UNSAFE after 1");
  assert.equal(seen.length, 2);
});

test("a_request_is_named_by_its_host_or_as_the_caller_says", async () => {
  const names: string[] = [];
  const client = Client.testing();
  const call = client.call.bind(client);
  client.call = (dependency, ...rest) => {
    names.push(dependency);
    return call(dependency, ...rest);
  };
  await holdoffFetch(client)(url);
  await holdoffFetch(client, { dependency: ({ pathname }) => `shop${pathname}` })(url);
  assert.deepEqual(names, [new URL(url).host, "shop/items"]);
  const denied = holdoffFetch(client, { deadline: 0 })(url);
  await assert.rejects(denied, (error) => error instanceof DeniedError && error.reason === "DEADLINE");
});
