// One connection to one endpoint, by grpc-js. Its own retries, service configuration and connection
// pool are switched off: when to come back is decided here, spread over the clients. Proxies of the
// environment never catch a service on this machine.

import { type DescMessage, type DescMethod, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import {
  type ChannelCredentials,
  type ChannelOptions,
  Client,
  type ClientDuplexStream,
  connectivityState,
  credentials,
  Metadata,
  type ServiceError,
} from "@grpc/grpc-js";
import {
  type AcquireRequest,
  type AcquireResponse,
  CoordinatorService,
  type PlanCheckRequest,
  type PlanCheckResponse,
  type ReportRequest,
  type ReportResponse,
  type SessionRequest,
  type SessionResponse,
} from "../gen/holdoff/v1/coordinator_pb.js";

const CONNECT_TIMEOUT = 1_000;
const KEEP_ALIVE = 20_000;

/** How connections are encrypted. */
export interface TlsOptions {
  /** Certificates of those who sign for the service, as PEM; the well-known ones unless said. */
  readonly ca?: Buffer | string;
  /** The client's own certificate and key, as PEM, where the service asks for them. */
  readonly cert?: Buffer | string;
  readonly key?: Buffer | string;
  /** The name in the service's certificate, where the endpoint's host is another one. */
  readonly serverName?: string;
}

/** A token, or what reads it each time, since tokens are rotated. */
export type Token = string | (() => string);

export interface Endpoint {
  /** `host:port`. */
  readonly authority: string;
  readonly isEncrypted: boolean;
  readonly isLoopback: boolean;
}

export type SessionStream = ClientDuplexStream<SessionRequest, SessionResponse>;

/** A request that was answered, or why it was not. */
export type Outcome<T> = { readonly ok: T } | { readonly error: ServiceError };

export class Channel {
  readonly #client: Client;
  readonly #token: Token | undefined;

  private constructor(client: Client, token: Token | undefined) {
    this.#client = client;
    this.#token = token;
  }

  /** `null`: it cannot be reached now. */
  static async open(endpoint: Endpoint, tls: TlsOptions, token: Token | undefined): Promise<Channel | null> {
    const client = new Client(endpoint.authority, credentialsOf(endpoint, tls), optionsOf(endpoint, tls));
    if (await isReady(client)) return new Channel(client, token);
    client.close();
    return null;
  }

  session(): SessionStream {
    const { path, write, read } = methodOf(CoordinatorService.method.session);
    return this.#client.makeBidiStreamRequest(path, write, read, this.#metadata());
  }

  acquire(request: AcquireRequest, signal?: AbortSignal): Promise<Outcome<AcquireResponse>> {
    return this.#unary(methodOf(CoordinatorService.method.acquire), request, signal);
  }

  report(request: ReportRequest, signal?: AbortSignal): Promise<Outcome<ReportResponse>> {
    return this.#unary(methodOf(CoordinatorService.method.report), request, signal);
  }

  planCheck(request: PlanCheckRequest, signal?: AbortSignal): Promise<Outcome<PlanCheckResponse>> {
    return this.#unary(methodOf(CoordinatorService.method.planCheck), request, signal);
  }

  close(): void {
    this.#client.close();
  }

  #unary<I, O>({ path, write, read }: Method<I, O>, request: I, signal?: AbortSignal): Promise<Outcome<O>> {
    return new Promise((resolve) => {
      const call = this.#client.makeUnaryRequest(path, write, read, request, this.#metadata(), (error, value) => {
        signal?.removeEventListener("abort", cancel);
        if (error !== null || value === undefined) resolve({ error: error as ServiceError });
        else resolve({ ok: value });
      });
      const cancel = () => call.cancel();
      signal?.addEventListener("abort", cancel, { once: true });
    });
  }

  #metadata(): Metadata {
    const metadata = new Metadata();
    const token = typeof this.#token === "function" ? this.#token() : this.#token;
    if (token !== undefined) metadata.set("authorization", `Bearer ${token}`);
    return metadata;
  }
}

interface Method<I, O> {
  readonly path: string;
  readonly write: (message: I) => Buffer;
  readonly read: (bytes: Buffer) => O;
}

/** A method of a described service, as grpc-js wants it. */
export function methodOf<I extends DescMessage, O extends DescMessage>(
  method: DescMethod & { readonly input: I; readonly output: O },
): Method<MessageShape<I>, MessageShape<O>> {
  return {
    path: `/${method.parent.typeName}/${method.name}`,
    write: (message) => Buffer.from(toBinary(method.input, message)),
    read: (bytes) => fromBinary(method.output, bytes),
  };
}

function isReady(client: Client): Promise<boolean> {
  const channel = client.getChannel();
  const deadline = Date.now() + CONNECT_TIMEOUT;
  return new Promise((resolve) => {
    const look = () => {
      const state = channel.getConnectivityState(true);
      if (state === connectivityState.READY) resolve(true);
      else if (state === connectivityState.TRANSIENT_FAILURE || state === connectivityState.SHUTDOWN) {
        resolve(false);
      } else channel.watchConnectivityState(state, deadline, (late) => (late ? resolve(false) : look()));
    };
    look();
  });
}

function optionsOf({ isLoopback }: Endpoint, { serverName }: TlsOptions): ChannelOptions {
  return {
    "grpc.enable_retries": 0,
    "grpc.service_config_disable_resolution": 1,
    "grpc.use_local_subchannel_pool": 1,
    "grpc.initial_reconnect_backoff_ms": 1_000,
    "grpc.min_reconnect_backoff_ms": 1_000,
    "grpc.max_reconnect_backoff_ms": 5_000,
    "grpc.keepalive_time_ms": KEEP_ALIVE,
    "grpc.keepalive_timeout_ms": KEEP_ALIVE,
    "grpc.keepalive_permit_without_calls": 1,
    ...(isLoopback ? { "grpc.enable_http_proxy": 0 } : {}),
    ...(serverName === undefined ? {} : { "grpc.ssl_target_name_override": serverName }),
  };
}

function credentialsOf({ isEncrypted }: Endpoint, { ca, cert, key }: TlsOptions): ChannelCredentials {
  const pem = (text: Buffer | string | undefined) => (text === undefined ? null : Buffer.from(text));
  const plain = isEncrypted
    ? credentials.createSsl(pem(ca), pem(key), pem(cert))
    : credentials.createInsecure();
  return unobtrusive(plain);
}

/**
 * grpc-js keeps the process alive for as long as a call is active, and a session always is. So its
 * socket may not: whoever waits for an answer has a timer of its own that does. Where a later
 * grpc-js makes sockets in another way, `client.close()` ends the process as before.
 */
function unobtrusive(of: ChannelCredentials): ChannelCredentials {
  const create = of._createSecureConnector?.bind(of);
  if (create === undefined) return of;
  of._createSecureConnector = (...args) => {
    const connector = create(...args);
    const connect = connector.connect.bind(connector);
    connector.connect = async (socket) => {
      socket.ref = () => socket;
      const connected = await connect(socket);
      connected.socket.ref = () => connected.socket;
      connected.socket.unref();
      return connected;
    };
    return connector;
  };
  return of;
}
