// Asks holdoff before a call, retries when it says, and goes on without it when it is away.

export type { Attempt, CallOptions, OnDenied, Operation } from "./call.js";
export type { Checked, CheckOptions, CheckRun, Finding, Health, Verdict } from "./check.js";
export {
  type Classify,
  classifyError,
  classifyGrpc,
  classifyHttp,
  classifyPlain,
  classifyResult,
  type GrpcStatus,
  type HttpHeaders,
  type HttpStatus,
  type Result,
} from "./classify/index.js";
export { Client } from "./client.js";
export type { Counters } from "./counters.js";
export {
  type Denial,
  type DenialReason,
  type DeniedBy,
  DeniedError,
  type Stopped,
  stopped,
  TimedOutError,
} from "./denial.js";
export { type FetchOptions, holdoffFetch } from "./fetch.js";
export { holdoffInterceptor, type InterceptorOptions } from "./interceptor.js";
export type { TlsOptions, Token } from "./link/channel.js";
export type { AttemptEvent, DeniedEvent, Logger, ServiceEvent } from "./log.js";
export { type ClientOptions, type LocalPolicy, type OnNoDecision, SettingError } from "./options.js";
export type { Outcome, OutcomeKind } from "./outcome.js";
export type { Permit } from "./permit.js";
export type { QuestionOptions } from "./question.js";
export type { JitterKind, Strategy } from "./rules/policy.js";
export type { Start, SupervisorOptions, Task } from "./supervisor.js";
export type { Priority } from "./wire/write.js";
