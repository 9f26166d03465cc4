// A service that does what a test says, on a free port of this machine.

import {
  create,
  type DescMethod,
  fromBinary,
  type Message,
  type MessageInitShape,
  toBinary,
} from "@bufbuild/protobuf";
import {
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type sendUnaryData,
} from "@grpc/grpc-js";
import {
  AcquireBatchResponseSchema,
  type AcquireItemSchema,
  type AcquireRequest,
  type AcquireResponseSchema,
  CoordinatorService,
  type PlanCheckRequest,
  PlanCheckResponseSchema,
  type ReportRequest,
  ReportResponseSchema,
  type SessionRequest,
  type SessionResponse,
  SessionResponseSchema,
  type UpdateSchema,
} from "../src/gen/holdoff/v1/coordinator_pb.js";

export type Answer = MessageInitShape<typeof AcquireResponseSchema>;
export type Update = MessageInitShape<typeof UpdateSchema>;
type Item = MessageInitShape<typeof AcquireItemSchema>;
type Plan = MessageInitShape<typeof PlanCheckResponseSchema>;

export interface Script {
  /** `null`: no answer at all; a code of gRPC: an error. */
  readonly answer?: (question: AcquireRequest) => Answer | { readonly code: number } | null;
  /** Pushed when a stream begins. */
  readonly updates?: readonly Update[];
  readonly plan?: (request: PlanCheckRequest) => Plan;
  readonly credentials?: ServerCredentials;
  /** A free one unless said. */
  readonly port?: number;
}

/** Yes, at once. */
export function granted(fields: object = {}): Answer {
  const value = { delay: { seconds: 0n, nanos: 0 }, permit: Buffer.from("permit"), ...fields };
  return { verdict: { case: "grant", value }, state: 1, epoch: 1n };
}

export function deniedFor(reason: number, fields: object = {}): Answer {
  return { verdict: { case: "denial", value: { reason, ...fields } }, state: 2, epoch: 2n };
}

export class Scripted {
  readonly asked: AcquireRequest[] = [];
  readonly reports: ReportRequest[] = [];
  readonly planned: PlanCheckRequest[] = [];
  /** The `authorization` of each stream. */
  readonly tokens: unknown[] = [];
  sessions = 0;
  port = 0;
  readonly #script: Script;
  readonly #server = new Server();
  readonly #streams = new Set<ServerDuplexStream<SessionRequest, SessionResponse>>();

  private constructor(script: Script) {
    this.#script = script;
  }

  static async start(script: Script = {}): Promise<Scripted> {
    const scripted = new Scripted(script);
    scripted.#server.addService(
      {
        session: definition(CoordinatorService.method.session, true),
        planCheck: definition(CoordinatorService.method.planCheck, false),
      },
      {
        session: (stream: ServerDuplexStream<SessionRequest, SessionResponse>) => scripted.#session(stream),
        planCheck: (call: ServerUnaryCall<PlanCheckRequest, unknown>, done: sendUnaryData<unknown>) => {
          scripted.planned.push(call.request);
          if (script.plan === undefined) done({ code: 9, details: "no check" });
          else done(null, create(PlanCheckResponseSchema, script.plan(call.request)));
        },
      },
    );
    scripted.port = await new Promise((resolve, reject) => {
      const credentials = script.credentials ?? ServerCredentials.createInsecure();
      scripted.#server.bindAsync(`127.0.0.1:${script.port ?? 0}`, credentials, (error, port) =>
        error ? reject(error) : resolve(port),
      );
    });
    return scripted;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  push(update: Update): void {
    for (const stream of this.#streams) this.#say(stream, 0n, { case: "update", value: update });
  }

  [Symbol.dispose](): void {
    this.#server.forceShutdown();
  }

  #session(stream: ServerDuplexStream<SessionRequest, SessionResponse>): void {
    this.sessions += 1;
    this.tokens.push(stream.metadata.get("authorization")[0]);
    this.#streams.add(stream);
    stream.on("error", () => {});
    stream.on("close", () => this.#streams.delete(stream));
    stream.sendMetadata(stream.metadata.clone());
    for (const value of this.#script.updates ?? []) this.#say(stream, 0n, { case: "update", value });
    stream.on("data", (request: SessionRequest) => this.#take(stream, request));
  }

  #take(stream: ServerDuplexStream<SessionRequest, SessionResponse>, { id, message }: SessionRequest): void {
    if (message.case === "report") {
      this.reports.push(message.value);
      const results = message.value.entries.map(() => ({ applied: true, reason: 1 }));
      this.#say(stream, id, { case: "reported", value: create(ReportResponseSchema, { results }) });
    }
    if (message.case !== "acquire") return;
    const items: Item[] = [];
    for (const question of message.value.requests) {
      this.asked.push(question);
      const value = this.#script.answer === undefined ? granted() : this.#script.answer(question);
      if (value === null) return;
      if ("code" in value) items.push({ result: { case: "status", value } });
      else items.push({ result: { case: "response", value: value as never } });
    }
    this.#say(stream, id, { case: "acquired", value: create(AcquireBatchResponseSchema, { items }) });
  }

  #say(stream: ServerDuplexStream<SessionRequest, SessionResponse>, id: bigint, message: object): void {
    stream.write(create(SessionResponseSchema, { id, message: message as never }));
  }
}

function definition({ parent, name, input, output }: DescMethod, isStream: boolean) {
  return {
    path: `/${parent.typeName}/${name}`,
    requestStream: isStream,
    responseStream: isStream,
    requestSerialize: (message: Message) => Buffer.from(toBinary(input, message)),
    requestDeserialize: (bytes: Buffer) => fromBinary(input, bytes),
    responseSerialize: (message: Message) => Buffer.from(toBinary(output, message)),
    responseDeserialize: (bytes: Buffer) => fromBinary(output, bytes),
  };
}
