from google.protobuf import duration_pb2 as _duration_pb2
from google.rpc import status_pb2 as _status_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Safety(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SAFETY_UNSPECIFIED: _ClassVar[Safety]
    SAFETY_UNSAFE: _ClassVar[Safety]
    SAFETY_IDEMPOTENT: _ClassVar[Safety]
    SAFETY_KEYED: _ClassVar[Safety]

class Priority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIORITY_UNSPECIFIED: _ClassVar[Priority]
    PRIORITY_LOW: _ClassVar[Priority]
    PRIORITY_NORMAL: _ClassVar[Priority]
    PRIORITY_HIGH: _ClassVar[Priority]

class OutcomeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_KIND_UNSPECIFIED: _ClassVar[OutcomeKind]
    OUTCOME_KIND_SUCCESS: _ClassVar[OutcomeKind]
    OUTCOME_KIND_FAILURE: _ClassVar[OutcomeKind]
    OUTCOME_KIND_TIMEOUT: _ClassVar[OutcomeKind]
    OUTCOME_KIND_NOT_SENT: _ClassVar[OutcomeKind]
    OUTCOME_KIND_THROTTLED: _ClassVar[OutcomeKind]
    OUTCOME_KIND_REJECTED: _ClassVar[OutcomeKind]
    OUTCOME_KIND_IGNORED: _ClassVar[OutcomeKind]
    OUTCOME_KIND_CANCELLED: _ClassVar[OutcomeKind]

class BreakerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BREAKER_STATE_UNSPECIFIED: _ClassVar[BreakerState]
    BREAKER_STATE_CLOSED: _ClassVar[BreakerState]
    BREAKER_STATE_OPEN: _ClassVar[BreakerState]
    BREAKER_STATE_HALF_OPEN: _ClassVar[BreakerState]
    BREAKER_STATE_RECOVERING: _ClassVar[BreakerState]
    BREAKER_STATE_FORCED_OPEN: _ClassVar[BreakerState]
    BREAKER_STATE_FORCED_CLOSED: _ClassVar[BreakerState]

class DenialReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DENIAL_REASON_UNSPECIFIED: _ClassVar[DenialReason]
    DENIAL_REASON_FORCED_OPEN: _ClassVar[DenialReason]
    DENIAL_REASON_PUSHBACK: _ClassVar[DenialReason]
    DENIAL_REASON_PUSHBACK_TOO_LONG: _ClassVar[DenialReason]
    DENIAL_REASON_NOT_RETRYABLE: _ClassVar[DenialReason]
    DENIAL_REASON_RETRIED_BELOW: _ClassVar[DenialReason]
    DENIAL_REASON_ATTEMPTS_EXHAUSTED: _ClassVar[DenialReason]
    DENIAL_REASON_RETRY_UNSAFE: _ClassVar[DenialReason]
    DENIAL_REASON_HEDGE_REFUSED: _ClassVar[DenialReason]
    DENIAL_REASON_HELD: _ClassVar[DenialReason]
    DENIAL_REASON_BREAKER_OPEN: _ClassVar[DenialReason]
    DENIAL_REASON_PROBE_IN_PROGRESS: _ClassVar[DenialReason]
    DENIAL_REASON_RECOVERING: _ClassVar[DenialReason]
    DENIAL_REASON_CALLER_FAULT: _ClassVar[DenialReason]
    DENIAL_REASON_CALENDAR_FULL: _ClassVar[DenialReason]
    DENIAL_REASON_RATE_LIMITED: _ClassVar[DenialReason]
    DENIAL_REASON_DEADLINE: _ClassVar[DenialReason]
    DENIAL_REASON_BUDGET_EXHAUSTED: _ClassVar[DenialReason]
    DENIAL_REASON_DUPLICATE: _ClassVar[DenialReason]
    DENIAL_REASON_PERMIT_VOID: _ClassVar[DenialReason]

class ReportReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPORT_REASON_UNSPECIFIED: _ClassVar[ReportReason]
    REPORT_REASON_OK: _ClassVar[ReportReason]
    REPORT_REASON_DUPLICATE: _ClassVar[ReportReason]
    REPORT_REASON_STALE_EPOCH: _ClassVar[ReportReason]
    REPORT_REASON_EXPIRED: _ClassVar[ReportReason]
    REPORT_REASON_UNKNOWN_PERMIT: _ClassVar[ReportReason]

class FirstAttempts(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FIRST_ATTEMPTS_UNSPECIFIED: _ClassVar[FirstAttempts]
    FIRST_ATTEMPTS_GO: _ClassVar[FirstAttempts]
    FIRST_ATTEMPTS_ASK: _ClassVar[FirstAttempts]
    FIRST_ATTEMPTS_REFUSE: _ClassVar[FirstAttempts]

class Strategy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STRATEGY_UNSPECIFIED: _ClassVar[Strategy]
    STRATEGY_FIXED: _ClassVar[Strategy]
    STRATEGY_LINEAR: _ClassVar[Strategy]
    STRATEGY_EXPONENTIAL: _ClassVar[Strategy]

class Jitter(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JITTER_UNSPECIFIED: _ClassVar[Jitter]
    JITTER_NONE: _ClassVar[Jitter]
    JITTER_FULL: _ClassVar[Jitter]
    JITTER_EQUAL: _ClassVar[Jitter]
    JITTER_PROPORTIONAL: _ClassVar[Jitter]
    JITTER_DECORRELATED: _ClassVar[Jitter]

class CheckVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHECK_VERDICT_UNSPECIFIED: _ClassVar[CheckVerdict]
    CHECK_VERDICT_HEALTHY: _ClassVar[CheckVerdict]
    CHECK_VERDICT_UNHEALTHY: _ClassVar[CheckVerdict]
    CHECK_VERDICT_UNKNOWN: _ClassVar[CheckVerdict]
SAFETY_UNSPECIFIED: Safety
SAFETY_UNSAFE: Safety
SAFETY_IDEMPOTENT: Safety
SAFETY_KEYED: Safety
PRIORITY_UNSPECIFIED: Priority
PRIORITY_LOW: Priority
PRIORITY_NORMAL: Priority
PRIORITY_HIGH: Priority
OUTCOME_KIND_UNSPECIFIED: OutcomeKind
OUTCOME_KIND_SUCCESS: OutcomeKind
OUTCOME_KIND_FAILURE: OutcomeKind
OUTCOME_KIND_TIMEOUT: OutcomeKind
OUTCOME_KIND_NOT_SENT: OutcomeKind
OUTCOME_KIND_THROTTLED: OutcomeKind
OUTCOME_KIND_REJECTED: OutcomeKind
OUTCOME_KIND_IGNORED: OutcomeKind
OUTCOME_KIND_CANCELLED: OutcomeKind
BREAKER_STATE_UNSPECIFIED: BreakerState
BREAKER_STATE_CLOSED: BreakerState
BREAKER_STATE_OPEN: BreakerState
BREAKER_STATE_HALF_OPEN: BreakerState
BREAKER_STATE_RECOVERING: BreakerState
BREAKER_STATE_FORCED_OPEN: BreakerState
BREAKER_STATE_FORCED_CLOSED: BreakerState
DENIAL_REASON_UNSPECIFIED: DenialReason
DENIAL_REASON_FORCED_OPEN: DenialReason
DENIAL_REASON_PUSHBACK: DenialReason
DENIAL_REASON_PUSHBACK_TOO_LONG: DenialReason
DENIAL_REASON_NOT_RETRYABLE: DenialReason
DENIAL_REASON_RETRIED_BELOW: DenialReason
DENIAL_REASON_ATTEMPTS_EXHAUSTED: DenialReason
DENIAL_REASON_RETRY_UNSAFE: DenialReason
DENIAL_REASON_HEDGE_REFUSED: DenialReason
DENIAL_REASON_HELD: DenialReason
DENIAL_REASON_BREAKER_OPEN: DenialReason
DENIAL_REASON_PROBE_IN_PROGRESS: DenialReason
DENIAL_REASON_RECOVERING: DenialReason
DENIAL_REASON_CALLER_FAULT: DenialReason
DENIAL_REASON_CALENDAR_FULL: DenialReason
DENIAL_REASON_RATE_LIMITED: DenialReason
DENIAL_REASON_DEADLINE: DenialReason
DENIAL_REASON_BUDGET_EXHAUSTED: DenialReason
DENIAL_REASON_DUPLICATE: DenialReason
DENIAL_REASON_PERMIT_VOID: DenialReason
REPORT_REASON_UNSPECIFIED: ReportReason
REPORT_REASON_OK: ReportReason
REPORT_REASON_DUPLICATE: ReportReason
REPORT_REASON_STALE_EPOCH: ReportReason
REPORT_REASON_EXPIRED: ReportReason
REPORT_REASON_UNKNOWN_PERMIT: ReportReason
FIRST_ATTEMPTS_UNSPECIFIED: FirstAttempts
FIRST_ATTEMPTS_GO: FirstAttempts
FIRST_ATTEMPTS_ASK: FirstAttempts
FIRST_ATTEMPTS_REFUSE: FirstAttempts
STRATEGY_UNSPECIFIED: Strategy
STRATEGY_FIXED: Strategy
STRATEGY_LINEAR: Strategy
STRATEGY_EXPONENTIAL: Strategy
JITTER_UNSPECIFIED: Jitter
JITTER_NONE: Jitter
JITTER_FULL: Jitter
JITTER_EQUAL: Jitter
JITTER_PROPORTIONAL: Jitter
JITTER_DECORRELATED: Jitter
CHECK_VERDICT_UNSPECIFIED: CheckVerdict
CHECK_VERDICT_HEALTHY: CheckVerdict
CHECK_VERDICT_UNHEALTHY: CheckVerdict
CHECK_VERDICT_UNKNOWN: CheckVerdict

class Caller(_message.Message):
    __slots__ = ("service", "instance")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    service: str
    instance: str
    def __init__(self, service: _Optional[str] = ..., instance: _Optional[str] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("kind", "latency", "pushback", "do_not_retry", "retried_below", "status_code", "pushback_restarts_backoff")
    KIND_FIELD_NUMBER: _ClassVar[int]
    LATENCY_FIELD_NUMBER: _ClassVar[int]
    PUSHBACK_FIELD_NUMBER: _ClassVar[int]
    DO_NOT_RETRY_FIELD_NUMBER: _ClassVar[int]
    RETRIED_BELOW_FIELD_NUMBER: _ClassVar[int]
    STATUS_CODE_FIELD_NUMBER: _ClassVar[int]
    PUSHBACK_RESTARTS_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    kind: OutcomeKind
    latency: _duration_pb2.Duration
    pushback: _duration_pb2.Duration
    do_not_retry: bool
    retried_below: bool
    status_code: int
    pushback_restarts_backoff: bool
    def __init__(self, kind: _Optional[_Union[OutcomeKind, str]] = ..., latency: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., pushback: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., do_not_retry: bool = ..., retried_below: bool = ..., status_code: _Optional[int] = ..., pushback_restarts_backoff: bool = ...) -> None: ...

class Previous(_message.Message):
    __slots__ = ("permit", "epoch", "outcome")
    PERMIT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    permit: bytes
    epoch: int
    outcome: Outcome
    def __init__(self, permit: _Optional[bytes] = ..., epoch: _Optional[int] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ...) -> None: ...

class AcquireRequest(_message.Message):
    __slots__ = ("namespace", "dependency", "caller", "attempt", "safety", "time_left", "previous", "confirm", "priority", "hedge", "cost", "call_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SAFETY_FIELD_NUMBER: _ClassVar[int]
    TIME_LEFT_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    HEDGE_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    dependency: str
    caller: Caller
    attempt: int
    safety: Safety
    time_left: _duration_pb2.Duration
    previous: Previous
    confirm: bytes
    priority: Priority
    hedge: bool
    cost: int
    call_id: str
    def __init__(self, namespace: _Optional[str] = ..., dependency: _Optional[str] = ..., caller: _Optional[_Union[Caller, _Mapping]] = ..., attempt: _Optional[int] = ..., safety: _Optional[_Union[Safety, str]] = ..., time_left: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., previous: _Optional[_Union[Previous, _Mapping]] = ..., confirm: _Optional[bytes] = ..., priority: _Optional[_Union[Priority, str]] = ..., hedge: bool = ..., cost: _Optional[int] = ..., call_id: _Optional[str] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("delay", "permit", "permit_ttl", "probe", "confirm", "attempt_timeout")
    DELAY_FIELD_NUMBER: _ClassVar[int]
    PERMIT_FIELD_NUMBER: _ClassVar[int]
    PERMIT_TTL_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    delay: _duration_pb2.Duration
    permit: bytes
    permit_ttl: _duration_pb2.Duration
    probe: bool
    confirm: bool
    attempt_timeout: _duration_pb2.Duration
    def __init__(self, delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., permit: _Optional[bytes] = ..., permit_ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., probe: bool = ..., confirm: bool = ..., attempt_timeout: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Denial(_message.Message):
    __slots__ = ("reason", "retry_after", "detail")
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    reason: DenialReason
    retry_after: _duration_pb2.Duration
    detail: str
    def __init__(self, reason: _Optional[_Union[DenialReason, str]] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., detail: _Optional[str] = ...) -> None: ...

class AcquireResponse(_message.Message):
    __slots__ = ("grant", "denial", "state", "epoch", "degraded", "previous_result")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    DENIAL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_RESULT_FIELD_NUMBER: _ClassVar[int]
    grant: Grant
    denial: Denial
    state: BreakerState
    epoch: int
    degraded: bool
    previous_result: ReportReason
    def __init__(self, grant: _Optional[_Union[Grant, _Mapping]] = ..., denial: _Optional[_Union[Denial, _Mapping]] = ..., state: _Optional[_Union[BreakerState, str]] = ..., epoch: _Optional[int] = ..., degraded: bool = ..., previous_result: _Optional[_Union[ReportReason, str]] = ...) -> None: ...

class PermitResult(_message.Message):
    __slots__ = ("permit", "outcome")
    PERMIT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    permit: bytes
    outcome: Outcome
    def __init__(self, permit: _Optional[bytes] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ...) -> None: ...

class Tally(_message.Message):
    __slots__ = ("dependency", "epoch", "first_attempts", "successes", "failures", "timeouts", "throttled", "rejected", "slow", "ignored", "latency_sum")
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    SUCCESSES_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    TIMEOUTS_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    SLOW_FIELD_NUMBER: _ClassVar[int]
    IGNORED_FIELD_NUMBER: _ClassVar[int]
    LATENCY_SUM_FIELD_NUMBER: _ClassVar[int]
    dependency: str
    epoch: int
    first_attempts: int
    successes: int
    failures: int
    timeouts: int
    throttled: int
    rejected: int
    slow: int
    ignored: int
    latency_sum: _duration_pb2.Duration
    def __init__(self, dependency: _Optional[str] = ..., epoch: _Optional[int] = ..., first_attempts: _Optional[int] = ..., successes: _Optional[int] = ..., failures: _Optional[int] = ..., timeouts: _Optional[int] = ..., throttled: _Optional[int] = ..., rejected: _Optional[int] = ..., slow: _Optional[int] = ..., ignored: _Optional[int] = ..., latency_sum: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ReportEntry(_message.Message):
    __slots__ = ("result", "tally")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    TALLY_FIELD_NUMBER: _ClassVar[int]
    result: PermitResult
    tally: Tally
    def __init__(self, result: _Optional[_Union[PermitResult, _Mapping]] = ..., tally: _Optional[_Union[Tally, _Mapping]] = ...) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ("namespace", "caller", "entries", "sequence")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    caller: Caller
    entries: _containers.RepeatedCompositeFieldContainer[ReportEntry]
    sequence: int
    def __init__(self, namespace: _Optional[str] = ..., caller: _Optional[_Union[Caller, _Mapping]] = ..., entries: _Optional[_Iterable[_Union[ReportEntry, _Mapping]]] = ..., sequence: _Optional[int] = ...) -> None: ...

class ReportResult(_message.Message):
    __slots__ = ("applied", "reason")
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    applied: bool
    reason: ReportReason
    def __init__(self, applied: bool = ..., reason: _Optional[_Union[ReportReason, str]] = ...) -> None: ...

class ReportResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ReportResult]
    def __init__(self, results: _Optional[_Iterable[_Union[ReportResult, _Mapping]]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("caller", "namespace", "subscribe")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    caller: Caller
    namespace: str
    subscribe: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., namespace: _Optional[str] = ..., subscribe: _Optional[_Iterable[str]] = ...) -> None: ...

class Subscribe(_message.Message):
    __slots__ = ("add", "remove")
    ADD_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    add: _containers.RepeatedScalarFieldContainer[str]
    remove: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, add: _Optional[_Iterable[str]] = ..., remove: _Optional[_Iterable[str]] = ...) -> None: ...

class AcquireBatch(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[AcquireRequest]
    def __init__(self, requests: _Optional[_Iterable[_Union[AcquireRequest, _Mapping]]] = ...) -> None: ...

class SessionRequest(_message.Message):
    __slots__ = ("id", "hello", "subscribe", "acquire", "report")
    ID_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    ACQUIRE_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    id: int
    hello: Hello
    subscribe: Subscribe
    acquire: AcquireBatch
    report: ReportRequest
    def __init__(self, id: _Optional[int] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., subscribe: _Optional[_Union[Subscribe, _Mapping]] = ..., acquire: _Optional[_Union[AcquireBatch, _Mapping]] = ..., report: _Optional[_Union[ReportRequest, _Mapping]] = ...) -> None: ...

class AcquireItem(_message.Message):
    __slots__ = ("response", "status")
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    response: AcquireResponse
    status: _status_pb2.Status
    def __init__(self, response: _Optional[_Union[AcquireResponse, _Mapping]] = ..., status: _Optional[_Union[_status_pb2.Status, _Mapping]] = ...) -> None: ...

class AcquireBatchResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[AcquireItem]
    def __init__(self, items: _Optional[_Iterable[_Union[AcquireItem, _Mapping]]] = ...) -> None: ...

class Update(_message.Message):
    __slots__ = ("dependency", "state", "epoch", "first_attempts", "valid_for", "policy", "offline_allowance")
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_ALLOWANCE_FIELD_NUMBER: _ClassVar[int]
    dependency: str
    state: BreakerState
    epoch: int
    first_attempts: FirstAttempts
    valid_for: _duration_pb2.Duration
    policy: ClientPolicy
    offline_allowance: OfflineAllowance
    def __init__(self, dependency: _Optional[str] = ..., state: _Optional[_Union[BreakerState, str]] = ..., epoch: _Optional[int] = ..., first_attempts: _Optional[_Union[FirstAttempts, str]] = ..., valid_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., policy: _Optional[_Union[ClientPolicy, _Mapping]] = ..., offline_allowance: _Optional[_Union[OfflineAllowance, _Mapping]] = ...) -> None: ...

class ClientPolicy(_message.Message):
    __slots__ = ("max_attempts", "strategy", "initial_delay", "multiplier", "max_delay", "min_delay", "jitter", "jitter_proportion", "min_attempt_time", "pushback_max", "pushback_spread", "budget_ratio", "budget_ttl", "open_for", "open_multiplier", "open_max", "slow_after", "breaker_off")
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    INITIAL_DELAY_FIELD_NUMBER: _ClassVar[int]
    MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    MAX_DELAY_FIELD_NUMBER: _ClassVar[int]
    MIN_DELAY_FIELD_NUMBER: _ClassVar[int]
    JITTER_FIELD_NUMBER: _ClassVar[int]
    JITTER_PROPORTION_FIELD_NUMBER: _ClassVar[int]
    MIN_ATTEMPT_TIME_FIELD_NUMBER: _ClassVar[int]
    PUSHBACK_MAX_FIELD_NUMBER: _ClassVar[int]
    PUSHBACK_SPREAD_FIELD_NUMBER: _ClassVar[int]
    BUDGET_RATIO_FIELD_NUMBER: _ClassVar[int]
    BUDGET_TTL_FIELD_NUMBER: _ClassVar[int]
    OPEN_FOR_FIELD_NUMBER: _ClassVar[int]
    OPEN_MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    OPEN_MAX_FIELD_NUMBER: _ClassVar[int]
    SLOW_AFTER_FIELD_NUMBER: _ClassVar[int]
    BREAKER_OFF_FIELD_NUMBER: _ClassVar[int]
    max_attempts: int
    strategy: Strategy
    initial_delay: _duration_pb2.Duration
    multiplier: float
    max_delay: _duration_pb2.Duration
    min_delay: _duration_pb2.Duration
    jitter: Jitter
    jitter_proportion: float
    min_attempt_time: _duration_pb2.Duration
    pushback_max: _duration_pb2.Duration
    pushback_spread: _duration_pb2.Duration
    budget_ratio: float
    budget_ttl: _duration_pb2.Duration
    open_for: _duration_pb2.Duration
    open_multiplier: float
    open_max: _duration_pb2.Duration
    slow_after: _duration_pb2.Duration
    breaker_off: bool
    def __init__(self, max_attempts: _Optional[int] = ..., strategy: _Optional[_Union[Strategy, str]] = ..., initial_delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., multiplier: _Optional[float] = ..., max_delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., min_delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., jitter: _Optional[_Union[Jitter, str]] = ..., jitter_proportion: _Optional[float] = ..., min_attempt_time: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., pushback_max: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., pushback_spread: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., budget_ratio: _Optional[float] = ..., budget_ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., open_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., open_multiplier: _Optional[float] = ..., open_max: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., slow_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., breaker_off: bool = ...) -> None: ...

class OfflineAllowance(_message.Message):
    __slots__ = ("retries_per_second", "known_clients")
    RETRIES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    KNOWN_CLIENTS_FIELD_NUMBER: _ClassVar[int]
    retries_per_second: float
    known_clients: int
    def __init__(self, retries_per_second: _Optional[float] = ..., known_clients: _Optional[int] = ...) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("id", "acquired", "reported", "update", "status")
    ID_FIELD_NUMBER: _ClassVar[int]
    ACQUIRED_FIELD_NUMBER: _ClassVar[int]
    REPORTED_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    id: int
    acquired: AcquireBatchResponse
    reported: ReportResponse
    update: Update
    status: _status_pb2.Status
    def __init__(self, id: _Optional[int] = ..., acquired: _Optional[_Union[AcquireBatchResponse, _Mapping]] = ..., reported: _Optional[_Union[ReportResponse, _Mapping]] = ..., update: _Optional[_Union[Update, _Mapping]] = ..., status: _Optional[_Union[_status_pb2.Status, _Mapping]] = ...) -> None: ...

class CheckResult(_message.Message):
    __slots__ = ("permit", "verdict")
    PERMIT_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    permit: bytes
    verdict: CheckVerdict
    def __init__(self, permit: _Optional[bytes] = ..., verdict: _Optional[_Union[CheckVerdict, str]] = ...) -> None: ...

class PlanCheckRequest(_message.Message):
    __slots__ = ("namespace", "dependency", "checker", "last_result")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    CHECKER_FIELD_NUMBER: _ClassVar[int]
    LAST_RESULT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    dependency: str
    checker: Caller
    last_result: CheckResult
    def __init__(self, namespace: _Optional[str] = ..., dependency: _Optional[str] = ..., checker: _Optional[_Union[Caller, _Mapping]] = ..., last_result: _Optional[_Union[CheckResult, _Mapping]] = ...) -> None: ...

class CheckRun(_message.Message):
    __slots__ = ("delay", "permit", "timeout")
    DELAY_FIELD_NUMBER: _ClassVar[int]
    PERMIT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    delay: _duration_pb2.Duration
    permit: bytes
    timeout: _duration_pb2.Duration
    def __init__(self, delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., permit: _Optional[bytes] = ..., timeout: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CheckShared(_message.Message):
    __slots__ = ("verdict", "age", "ask_again")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    ASK_AGAIN_FIELD_NUMBER: _ClassVar[int]
    verdict: CheckVerdict
    age: _duration_pb2.Duration
    ask_again: _duration_pb2.Duration
    def __init__(self, verdict: _Optional[_Union[CheckVerdict, str]] = ..., age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., ask_again: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class PlanCheckResponse(_message.Message):
    __slots__ = ("run", "shared", "verdict", "period")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    run: CheckRun
    shared: CheckShared
    verdict: CheckVerdict
    period: _duration_pb2.Duration
    def __init__(self, run: _Optional[_Union[CheckRun, _Mapping]] = ..., shared: _Optional[_Union[CheckShared, _Mapping]] = ..., verdict: _Optional[_Union[CheckVerdict, str]] = ..., period: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...
