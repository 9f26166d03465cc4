// The client of `OperatorService`: what the fleet's state is, and overrides. One promise or one async
// iterable for each method; no retries, since an operator wants to see the error.

import { create, type DescMessage, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { Client } from "@grpc/grpc-js";
import { onAbort } from "./abort.js";
import { OperatorService } from "./gen/holdoff/v1/operator_pb.js";
import {
  credentialsOf,
  methodOf,
  optionsOf,
  type TlsOptions,
  type Token,
  tokenMetadata,
} from "./link/channel.js";
import { endpointOf } from "./options.js";

export * from "./gen/holdoff/v1/operator_pb.js";

export interface OperatorOptions {
  readonly tls?: TlsOptions;
  readonly token?: Token;
}

/** Times are milliseconds. */
export interface RequestOptions {
  /** 10,000 unless said; streams have none. */
  readonly timeout?: number;
  readonly signal?: AbortSignal;
}

type Methods = (typeof OperatorService)["method"];

type Called<M> = M extends {
  methodKind: "unary";
  input: infer I extends DescMessage;
  output: infer O extends DescMessage;
}
  ? (request: MessageInitShape<I>, options?: RequestOptions) => Promise<MessageShape<O>>
  : M extends { input: infer I extends DescMessage; output: infer O extends DescMessage }
    ? (request: MessageInitShape<I>, options?: RequestOptions) => AsyncIterable<MessageShape<O>>
    : never;

export type OperatorClient = { readonly [K in keyof Methods]: Called<Methods[K]> } & { close(): void };

const TIMEOUT = 10_000;

/** Nothing is connected before the first request. */
export function operatorClient(endpoint: string, { tls = {}, token }: OperatorOptions = {}): OperatorClient {
  const at = endpointOf("endpoint", endpoint);
  const client = new Client(at.authority, credentialsOf(at, tls), optionsOf(tls));
  const methods = Object.entries(OperatorService.method).map(([name, method]) => {
    const { path, write, read } = methodOf(method as never) as Untyped;
    const begin = (request: Fields, signal: AbortSignal | undefined) => {
      signal?.throwIfAborted();
      return [create(method.input as DescMessage, request), tokenMetadata(token)] as const;
    };
    const unary = (request: Fields, { timeout = TIMEOUT, signal }: RequestOptions = {}) =>
      new Promise((resolve, reject) => {
        const [message, metadata] = begin(request, signal);
        const settings = { deadline: Date.now() + timeout };
        const call = client.makeUnaryRequest(
          path,
          write,
          read,
          message,
          metadata,
          settings,
          (error, value) => {
            stopListening();
            if (error === null) resolve(value);
            else reject(error);
          },
        );
        const stopListening = onAbort(signal, () => call.cancel());
      });
    const stream = (request: Fields, { signal }: RequestOptions = {}) => {
      const [message, metadata] = begin(request, signal);
      const call = client.makeServerStreamRequest(path, write, read, message, metadata);
      call.once(
        "close",
        onAbort(signal, () => call.cancel()),
      );
      return call;
    };
    return [name, method.methodKind === "unary" ? unary : stream];
  });
  return { ...Object.fromEntries(methods), close: () => client.close() } as OperatorClient;
}

type Fields = Record<string, unknown>;

interface Untyped {
  readonly path: string;
  readonly write: (message: unknown) => Buffer;
  readonly read: (bytes: Buffer) => unknown;
}
