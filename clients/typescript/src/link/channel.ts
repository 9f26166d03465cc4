// One connection to one endpoint, by grpc-js. Its own retries, service configuration, connection pool
// and proxies are switched off: when to come back is decided here, spread over the clients, and what
// coordinates calls is near.

import { connect, type Socket } from "node:net";
import {
  type DescMessage,
  type DescMethod,
  fromBinary,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
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
import { onAbort } from "../abort.js";
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
import { later, type Timer } from "../timers.js";
import type { Endpoint } from "./endpoint.js";

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

export type SessionStream = ClientDuplexStream<SessionRequest, SessionResponse>;

/** A request that was answered, or why it was not. */
export type Outcome<T> = { readonly ok: T } | { readonly error: ServiceError };

export class Channel {
  readonly #client: Client;
  readonly #metadata: Metadata;
  readonly #sockets: Set<Socket>;

  private constructor(client: Client, metadata: Metadata, sockets: Set<Socket>) {
    this.#client = client;
    this.#metadata = metadata;
    this.#sockets = sockets;
  }

  /**
   * A text: it cannot be reached now, and why.
   *
   * @throws A certificate or the token cannot be read.
   */
  static async open(
    endpoint: Endpoint,
    tls: TlsOptions,
    token: Token | undefined,
  ): Promise<Channel | string> {
    const metadata = tokenMetadata(token);
    const sockets = new Set<Socket>();
    const credentials = unobtrusive(credentialsOf(endpoint, tls), sockets);
    const why = await isListening(endpoint);
    if (why !== null) return why;
    const client = new Client(endpoint.authority, credentials, optionsOf(tls));
    const channel = new Channel(client, metadata, sockets);
    if (await isReady(client)) return channel;
    channel.close();
    return "it takes connections and does not speak HTTP/2";
  }

  session(): SessionStream {
    const { path, write, read } = methodOf(CoordinatorService.method.session);
    return this.#client.makeBidiStreamRequest(path, write, read, this.#metadata.clone());
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

  /** grpc-js leaves a connection open that waits for the other side's first word. */
  close(): void {
    this.#client.close();
    setImmediate(() => {
      for (const socket of this.#sockets) socket.destroy();
    });
  }

  #unary<I, O>({ path, write, read }: Method<I, O>, request: I, signal?: AbortSignal): Promise<Outcome<O>> {
    return new Promise((resolve) => {
      const call = this.#client.makeUnaryRequest(
        path,
        write,
        read,
        request,
        this.#metadata.clone(),
        (error, value) => {
          stopListening();
          if (error !== null || value === undefined) resolve({ error: error as ServiceError });
          else resolve({ ok: value });
        },
      );
      const stopListening = onAbort(signal, () => call.cancel());
    });
  }
}

export function tokenMetadata(token: Token | undefined): Metadata {
  const metadata = new Metadata();
  const text = typeof token === "function" ? token() : token;
  if (text !== undefined) metadata.set("authorization", `Bearer ${text}`);
  return metadata;
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

/**
 * Whether somebody takes connections there; a text says why not. grpc-js would wait for minutes for one that nobody
 * refuses, keep the process alive for it, and could not be told to stop.
 */
function isListening({ host, port }: Endpoint): Promise<string | null> {
  return new Promise((resolve) => {
    const end = (why: string | null) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(why);
    };
    const timer = afterConnecting(() => end("it does not take the connection"));
    const socket = connect({ host, port }, () => end(null)).unref();
    socket.on("error", ({ code, message }: NodeJS.ErrnoException) => end(code ?? message));
  });
}

function isReady(client: Client): Promise<boolean> {
  const channel = client.getChannel();
  return new Promise((resolve) => {
    const end = (isThere: boolean) => {
      clearTimeout(timer);
      resolve(isThere);
    };
    const timer = afterConnecting(() => end(false));
    const look = (gaveUp?: Error) => {
      const state = gaveUp === undefined ? channel.getConnectivityState(true) : connectivityState.SHUTDOWN;
      if (state === connectivityState.READY) end(true);
      else if (state === connectivityState.TRANSIENT_FAILURE || state === connectivityState.SHUTDOWN) {
        end(false);
      } else channel.watchConnectivityState(state, Number.POSITIVE_INFINITY, look);
    };
    look();
  });
}

/** What has come by then is read first, however long the event loop was blocked. */
function afterConnecting(run: () => void): Timer {
  return later(CONNECT_TIMEOUT, () => setImmediate(run));
}

export function optionsOf({ serverName }: TlsOptions): ChannelOptions {
  return {
    "grpc.enable_retries": 0,
    "grpc.enable_http_proxy": 0,
    "grpc.service_config_disable_resolution": 1,
    "grpc.use_local_subchannel_pool": 1,
    "grpc.initial_reconnect_backoff_ms": 1_000,
    "grpc.min_reconnect_backoff_ms": 1_000,
    "grpc.max_reconnect_backoff_ms": 5_000,
    "grpc.keepalive_time_ms": KEEP_ALIVE,
    "grpc.keepalive_timeout_ms": KEEP_ALIVE,
    "grpc.keepalive_permit_without_calls": 1,
    ...(serverName === undefined ? {} : { "grpc.ssl_target_name_override": serverName }),
  };
}

export function credentialsOf({ isEncrypted }: Endpoint, { ca, cert, key }: TlsOptions): ChannelCredentials {
  const pem = (text: Buffer | string | undefined) => (text === undefined ? null : Buffer.from(text));
  return isEncrypted ? credentials.createSsl(pem(ca), pem(key), pem(cert)) : credentials.createInsecure();
}

/**
 * grpc-js keeps the process alive for as long as a call is active, and a session always is. So its
 * socket may not: whoever waits for an answer has a timer of its own that does. Where a later
 * grpc-js makes sockets in another way, `client.close()` ends the process as before.
 */
function unobtrusive(of: ChannelCredentials, sockets: Set<Socket>): ChannelCredentials {
  const create = of._createSecureConnector?.bind(of);
  if (create === undefined) return of;
  of._createSecureConnector = (...args) => {
    const connector = create(...args);
    const connect = connector.connect.bind(connector);
    connector.connect = async (socket) => {
      sockets.add(socket);
      socket.once("close", () => sockets.delete(socket));
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
