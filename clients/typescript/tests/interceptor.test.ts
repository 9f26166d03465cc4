// Guarded calls under a generated client of grpc-js, against a real server.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  credentials,
  Client as GrpcClient,
  type handleServerStreamingCall,
  type handleUnaryCall,
  Metadata,
  Server,
  ServerCredentials,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import { Client, classifyError, holdoffInterceptor, stopped } from "../src/index.js";

const text = { write: (value: string) => Buffer.from(value), read: (bytes: Buffer) => bytes.toString() };
const settings = {
  requestSerialize: text.write,
  requestDeserialize: text.read,
  responseSerialize: text.write,
  responseDeserialize: text.read,
};

let asked: string[] = [];
/** The codes of the next answers, OK after them. */
let codes: status[] = [];
let pushback: string | undefined;
/** What the next refusals say. */
let words = "scripted";

function refusal(): { code: status; details: string; metadata: Metadata } | undefined {
  const code = codes.shift();
  const metadata = new Metadata();
  if (pushback !== undefined) metadata.set("grpc-retry-pushback-ms", pushback);
  return code === undefined ? undefined : { code, details: words, metadata };
}

const greet: handleUnaryCall<string, string> = (call, done) => {
  const { request } = call;
  asked.push(request);
  const no = refusal();
  if (no === undefined) done(null, `hello ${request}`);
  else {
    // The trailers are empty then.
    if (request === "sends metadata") call.sendMetadata(new Metadata());
    done(no);
  }
};

const count: handleServerStreamingCall<string, string> = (call) => {
  asked.push(call.request);
  const no = refusal();
  if (no !== undefined) {
    call.emit("error", no);
    return;
  }
  for (const number of ["1", "2", "3"]) call.write(number);
  if (call.request === "breaks") call.emit("error", { code: status.UNAVAILABLE, details: "in the middle" });
  else call.end();
};

const server = new Server();
let grpc: GrpcClient;

before(async () => {
  server.addService(
    {
      greet: { path: "/test.Greeter/Greet", requestStream: false, responseStream: false, ...settings },
      count: { path: "/test.Greeter/Count", requestStream: false, responseStream: true, ...settings },
    },
    { greet, count },
  );
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) =>
      error ? reject(error) : resolve(port),
    ),
  );
  const client = new Client({ endpoints: ["http://127.0.0.1:1"], localPolicy: { initialDelay: 1 } });
  const interceptor = holdoffInterceptor(client, {
    dependency: (path) => path.slice(1),
    idempotent: true,
  });
  grpc = new GrpcClient(`127.0.0.1:${port}`, credentials.createInsecure(), { interceptors: [interceptor] });
});

after(() => {
  grpc.close();
  server.forceShutdown();
});

function begin(...next: status[]): void {
  asked = [];
  codes = next;
  pushback = undefined;
  words = "scripted";
}

function greetOf(name: string, options = {}): Promise<string | ServiceError> {
  return new Promise((resolve) => {
    const path = "/test.Greeter/Greet";
    grpc.makeUnaryRequest(path, text.write, text.read, name, new Metadata(), options, (error, value) =>
      resolve(error ?? value ?? ""),
    );
  });
}

async function countOf(name: string): Promise<{ values: string[]; error: ServiceError | undefined }> {
  const values: string[] = [];
  try {
    const path = "/test.Greeter/Count";
    for await (const value of grpc.makeServerStreamRequest(path, text.write, text.read, name)) {
      values.push(value as string);
    }
    return { values, error: undefined };
  } catch (error) {
    return { values, error: error as ServiceError };
  }
}

test("a_unary_call_is_repeated_whole_until_it_is_answered", async () => {
  begin(status.UNAVAILABLE, status.RESOURCE_EXHAUSTED);
  assert.equal(await greetOf("ann"), "hello ann");
  assert.deepEqual(asked, ["ann", "ann", "ann"]);
});

test("the_last_status_comes_out_with_the_reason_beside_it", async () => {
  begin(status.INVALID_ARGUMENT);
  const error = await greetOf("bob");
  assert.ok(error instanceof Error);
  assert.deepEqual([error.code, error.details, asked.length], [status.INVALID_ARGUMENT, "scripted", 1]);
  assert.equal(stopped(error)?.reason, "NOT_RETRYABLE");
});

test("b07_a_pushback_that_forbids_it_ends_the_call", async () => {
  begin(status.UNAVAILABLE);
  pushback = "-1";
  const error = await greetOf("eve");
  assert.ok(error instanceof Error);
  assert.deepEqual([stopped(error)?.reason, asked.length], ["PUSHBACK", 1]);
});

test("a_deadline_of_the_call_binds_the_retries_too", async () => {
  begin();
  const error = await greetOf("late", { deadline: Date.now() - 1 });
  assert.ok(error instanceof Error);
  assert.deepEqual([error.code, asked.length], [status.DEADLINE_EXCEEDED, 0]);
});

test("a_stream_is_repeated_until_it_has_begun_and_passed_through_after_that", async () => {
  begin(status.UNAVAILABLE);
  assert.deepEqual(await countOf("all"), { values: ["1", "2", "3"], error: undefined });
  assert.equal(asked.length, 2);
  begin();
  const broken = await countOf("breaks");
  assert.deepEqual(
    [broken.values, broken.error?.details, asked.length],
    [["1", "2", "3"], "in the middle", 1],
  );
});

test("b15_a_call_to_a_port_that_refuses_was_not_sent_and_is_retried_although_it_is_not_idempotent", async () => {
  const client = new Client({ endpoints: ["http://127.0.0.1:1"], localPolicy: { initialDelay: 1 } });
  const interceptors = [holdoffInterceptor(client, { dependency: "refusing" })];
  const refusing = new GrpcClient("127.0.0.1:1", credentials.createInsecure(), { interceptors });
  const error = await new Promise((resolve) =>
    refusing.makeUnaryRequest("/test.Greeter/Greet", text.write, text.read, "no", resolve),
  );
  assert.deepEqual([stopped(error)?.reason, stopped(error)?.attempts], ["ATTEMPTS_EXHAUSTED", 3]);
  refusing.close();
});

/** An own client of it, which tells what the interceptor ends an unsafe call with. */
function askAt(
  address: string,
  request: string,
  options: object = {},
  guards = 1,
): Promise<ServiceError | null> {
  const client = new Client({ endpoints: ["http://127.0.0.1:1"], localPolicy: { initialDelay: 1 } });
  const guard = (_: unknown, number: number) => holdoffInterceptor(client, { dependency: `guard-${number}` });
  const interceptors = Array.from({ length: guards }, guard);
  const own = new GrpcClient(address, credentials.createInsecure(), { interceptors, ...options });
  const path = "/test.Greeter/Greet";
  return new Promise((resolve) =>
    own.makeUnaryRequest(path, text.write, text.read, request, (error) => {
      own.close();
      resolve(error);
    }),
  );
}

test("what_a_server_relays_of_a_connection_refused_behind_it_is_no_connection_refused_here", async () => {
  for (const request of ["ann", "sends metadata"]) {
    begin(status.UNAVAILABLE, status.UNAVAILABLE, status.UNAVAILABLE);
    words =
      "No connection established. Last error: Error: connect ECONNREFUSED 10.0.0.7:443. Resolution note: ";
    const error = await askAt(grpc.getChannel().getTarget(), request);
    assert.deepEqual([error?.details, stopped(error)?.reason], [words, "RETRY_UNSAFE"]);
    assert.deepEqual(asked, [request]);
    assert.equal(classifyError(error).kind, "failure");
  }
});

test("a_host_without_an_address_was_not_sent_anything", async () => {
  const error = await askAt("no-such-host.invalid:1", "nobody");
  assert.match(error?.details ?? "", /^Name resolution failed/);
  assert.deepEqual([stopped(error)?.reason, stopped(error)?.attempts], ["ATTEMPTS_EXHAUSTED", 3]);
});

test("a_refused_connection_after_retries_of_grpc_js_itself_is_a_failure", async () => {
  const retryPolicy = {
    maxAttempts: 2,
    initialBackoff: "0.001s",
    maxBackoff: "0.001s",
    backoffMultiplier: 1,
    retryableStatusCodes: ["UNAVAILABLE"],
  };
  const config = JSON.stringify({ methodConfig: [{ name: [{}], retryPolicy }] });
  const error = await askAt("127.0.0.1:1", "no", { "grpc.service_config": config });
  assert.equal(stopped(error)?.reason, "RETRY_UNSAFE");
});

test("two_guards_over_each_other_do_not_multiply", async () => {
  const error = await askAt("127.0.0.1:1", "no", {}, 2);
  assert.deepEqual([stopped(error)?.reason, stopped(error)?.attempts], ["RETRIED_BELOW", 1]);
});

test("a_caller_that_cancels_is_told_so_at_once", async () => {
  begin(...new Array<status>(5).fill(status.UNAVAILABLE));
  pushback = "5000";
  const ended = await new Promise<ServiceError>((resolve) => {
    const call = grpc.makeUnaryRequest("/test.Greeter/Greet", text.write, text.read, "gone", (error) =>
      resolve(error as ServiceError),
    );
    setTimeout(() => call.cancel(), 50);
  });
  assert.equal(ended.code, status.CANCELLED);
});
