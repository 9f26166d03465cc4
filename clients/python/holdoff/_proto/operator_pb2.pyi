from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from . import coordinator_pb2 as _coordinator_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OverrideKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OVERRIDE_KIND_UNSPECIFIED: _ClassVar[OverrideKind]
    OVERRIDE_KIND_FORCE_OPEN: _ClassVar[OverrideKind]
    OVERRIDE_KIND_FORCE_CLOSED: _ClassVar[OverrideKind]

class EventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVENT_KIND_UNSPECIFIED: _ClassVar[EventKind]
    EVENT_KIND_TRIPPED: _ClassVar[EventKind]
    EVENT_KIND_PROBING: _ClassVar[EventKind]
    EVENT_KIND_REOPENED: _ClassVar[EventKind]
    EVENT_KIND_RECOVERED: _ClassVar[EventKind]
    EVENT_KIND_OVERRIDE_SET: _ClassVar[EventKind]
    EVENT_KIND_OVERRIDE_CLEARED: _ClassVar[EventKind]
    EVENT_KIND_OVERRIDE_EXPIRED: _ClassVar[EventKind]
    EVENT_KIND_RESET: _ClassVar[EventKind]
    EVENT_KIND_HELD: _ClassVar[EventKind]
    EVENT_KIND_HOLD_CLEARED: _ClassVar[EventKind]
    EVENT_KIND_POLICY_PUT: _ClassVar[EventKind]
    EVENT_KIND_POLICY_DELETED: _ClassVar[EventKind]
    EVENT_KIND_POLICIES_RELOADED: _ClassVar[EventKind]
    EVENT_KIND_POLICIES_REFUSED: _ClassVar[EventKind]
    EVENT_KIND_SHADOW_TRIPPED: _ClassVar[EventKind]
    EVENT_KIND_STARTED: _ClassVar[EventKind]
    EVENT_KIND_CALLER_REFUSED: _ClassVar[EventKind]
    EVENT_KIND_CALLER_RECOVERED: _ClassVar[EventKind]
    EVENT_KIND_RAMP_ENDED: _ClassVar[EventKind]
    EVENT_KIND_CHECK_UNHEALTHY: _ClassVar[EventKind]
    EVENT_KIND_CHECK_HEALTHY: _ClassVar[EventKind]
    EVENT_KIND_CANDIDATE_PUT: _ClassVar[EventKind]
    EVENT_KIND_CANDIDATE_DROPPED: _ClassVar[EventKind]
    EVENT_KIND_CANDIDATE_PROMOTED: _ClassVar[EventKind]
    EVENT_KIND_CANDIDATE_TRIPPED: _ClassVar[EventKind]
    EVENT_KIND_STORE_AWAY: _ClassVar[EventKind]
    EVENT_KIND_STORE_BACK: _ClassVar[EventKind]

class PolicySource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    POLICY_SOURCE_UNSPECIFIED: _ClassVar[PolicySource]
    POLICY_SOURCE_BUILT_IN: _ClassVar[PolicySource]
    POLICY_SOURCE_FILE: _ClassVar[PolicySource]
    POLICY_SOURCE_API: _ClassVar[PolicySource]

class FindingSeverity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINDING_SEVERITY_UNSPECIFIED: _ClassVar[FindingSeverity]
    FINDING_SEVERITY_ERROR: _ClassVar[FindingSeverity]
    FINDING_SEVERITY_WARNING: _ClassVar[FindingSeverity]
    FINDING_SEVERITY_HINT: _ClassVar[FindingSeverity]
OVERRIDE_KIND_UNSPECIFIED: OverrideKind
OVERRIDE_KIND_FORCE_OPEN: OverrideKind
OVERRIDE_KIND_FORCE_CLOSED: OverrideKind
EVENT_KIND_UNSPECIFIED: EventKind
EVENT_KIND_TRIPPED: EventKind
EVENT_KIND_PROBING: EventKind
EVENT_KIND_REOPENED: EventKind
EVENT_KIND_RECOVERED: EventKind
EVENT_KIND_OVERRIDE_SET: EventKind
EVENT_KIND_OVERRIDE_CLEARED: EventKind
EVENT_KIND_OVERRIDE_EXPIRED: EventKind
EVENT_KIND_RESET: EventKind
EVENT_KIND_HELD: EventKind
EVENT_KIND_HOLD_CLEARED: EventKind
EVENT_KIND_POLICY_PUT: EventKind
EVENT_KIND_POLICY_DELETED: EventKind
EVENT_KIND_POLICIES_RELOADED: EventKind
EVENT_KIND_POLICIES_REFUSED: EventKind
EVENT_KIND_SHADOW_TRIPPED: EventKind
EVENT_KIND_STARTED: EventKind
EVENT_KIND_CALLER_REFUSED: EventKind
EVENT_KIND_CALLER_RECOVERED: EventKind
EVENT_KIND_RAMP_ENDED: EventKind
EVENT_KIND_CHECK_UNHEALTHY: EventKind
EVENT_KIND_CHECK_HEALTHY: EventKind
EVENT_KIND_CANDIDATE_PUT: EventKind
EVENT_KIND_CANDIDATE_DROPPED: EventKind
EVENT_KIND_CANDIDATE_PROMOTED: EventKind
EVENT_KIND_CANDIDATE_TRIPPED: EventKind
EVENT_KIND_STORE_AWAY: EventKind
EVENT_KIND_STORE_BACK: EventKind
POLICY_SOURCE_UNSPECIFIED: PolicySource
POLICY_SOURCE_BUILT_IN: PolicySource
POLICY_SOURCE_FILE: PolicySource
POLICY_SOURCE_API: PolicySource
FINDING_SEVERITY_UNSPECIFIED: FindingSeverity
FINDING_SEVERITY_ERROR: FindingSeverity
FINDING_SEVERITY_WARNING: FindingSeverity
FINDING_SEVERITY_HINT: FindingSeverity

class Override(_message.Message):
    __slots__ = ("kind", "owner", "reason", "set_time", "expires_in")
    KIND_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SET_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_FIELD_NUMBER: _ClassVar[int]
    kind: OverrideKind
    owner: str
    reason: str
    set_time: _timestamp_pb2.Timestamp
    expires_in: _duration_pb2.Duration
    def __init__(self, kind: _Optional[_Union[OverrideKind, str]] = ..., owner: _Optional[str] = ..., reason: _Optional[str] = ..., set_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., expires_in: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Dependency(_message.Message):
    __slots__ = ("namespace", "name", "state", "epoch", "in_state_for", "open_for", "detail", "override", "held_for", "probes_out", "permits_out", "budget_left", "first_attempts", "retries", "failure_ratio", "slow_ratio", "suspicion", "trips", "shadow_state", "live", "check", "active_instances", "calls_per_second", "usual_latency", "planned_retries", "next_planned_in", "budget_allowed", "denials", "refused_instances", "followed")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    IN_STATE_FOR_FIELD_NUMBER: _ClassVar[int]
    OPEN_FOR_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    OVERRIDE_FIELD_NUMBER: _ClassVar[int]
    HELD_FOR_FIELD_NUMBER: _ClassVar[int]
    PROBES_OUT_FIELD_NUMBER: _ClassVar[int]
    PERMITS_OUT_FIELD_NUMBER: _ClassVar[int]
    BUDGET_LEFT_FIELD_NUMBER: _ClassVar[int]
    FIRST_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    FAILURE_RATIO_FIELD_NUMBER: _ClassVar[int]
    SLOW_RATIO_FIELD_NUMBER: _ClassVar[int]
    SUSPICION_FIELD_NUMBER: _ClassVar[int]
    TRIPS_FIELD_NUMBER: _ClassVar[int]
    SHADOW_STATE_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_INSTANCES_FIELD_NUMBER: _ClassVar[int]
    CALLS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    USUAL_LATENCY_FIELD_NUMBER: _ClassVar[int]
    PLANNED_RETRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PLANNED_IN_FIELD_NUMBER: _ClassVar[int]
    BUDGET_ALLOWED_FIELD_NUMBER: _ClassVar[int]
    DENIALS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_INSTANCES_FIELD_NUMBER: _ClassVar[int]
    FOLLOWED_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    state: _coordinator_pb2.BreakerState
    epoch: int
    in_state_for: _duration_pb2.Duration
    open_for: _duration_pb2.Duration
    detail: str
    override: Override
    held_for: _duration_pb2.Duration
    probes_out: int
    permits_out: int
    budget_left: int
    first_attempts: int
    retries: int
    failure_ratio: float
    slow_ratio: float
    suspicion: float
    trips: int
    shadow_state: _coordinator_pb2.BreakerState
    live: bool
    check: CheckSummary
    active_instances: int
    calls_per_second: float
    usual_latency: _duration_pb2.Duration
    planned_retries: int
    next_planned_in: _duration_pb2.Duration
    budget_allowed: int
    denials: _containers.RepeatedCompositeFieldContainer[DenialCount]
    refused_instances: int
    followed: Followed
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[_Union[_coordinator_pb2.BreakerState, str]] = ..., epoch: _Optional[int] = ..., in_state_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., open_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., detail: _Optional[str] = ..., override: _Optional[_Union[Override, _Mapping]] = ..., held_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., probes_out: _Optional[int] = ..., permits_out: _Optional[int] = ..., budget_left: _Optional[int] = ..., first_attempts: _Optional[int] = ..., retries: _Optional[int] = ..., failure_ratio: _Optional[float] = ..., slow_ratio: _Optional[float] = ..., suspicion: _Optional[float] = ..., trips: _Optional[int] = ..., shadow_state: _Optional[_Union[_coordinator_pb2.BreakerState, str]] = ..., live: bool = ..., check: _Optional[_Union[CheckSummary, _Mapping]] = ..., active_instances: _Optional[int] = ..., calls_per_second: _Optional[float] = ..., usual_latency: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., planned_retries: _Optional[int] = ..., next_planned_in: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., budget_allowed: _Optional[int] = ..., denials: _Optional[_Iterable[_Union[DenialCount, _Mapping]]] = ..., refused_instances: _Optional[int] = ..., followed: _Optional[_Union[Followed, _Mapping]] = ...) -> None: ...

class DenialCount(_message.Message):
    __slots__ = ("reason", "count")
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    reason: _coordinator_pb2.DenialReason
    count: int
    def __init__(self, reason: _Optional[_Union[_coordinator_pb2.DenialReason, str]] = ..., count: _Optional[int] = ...) -> None: ...

class Followed(_message.Message):
    __slots__ = ("followed_for", "calendar_part", "calendar", "reporters")
    FOLLOWED_FOR_FIELD_NUMBER: _ClassVar[int]
    CALENDAR_PART_FIELD_NUMBER: _ClassVar[int]
    CALENDAR_FIELD_NUMBER: _ClassVar[int]
    REPORTERS_FIELD_NUMBER: _ClassVar[int]
    followed_for: _duration_pb2.Duration
    calendar_part: _duration_pb2.Duration
    calendar: _containers.RepeatedScalarFieldContainer[int]
    reporters: _containers.RepeatedCompositeFieldContainer[Reporter]
    def __init__(self, followed_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., calendar_part: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., calendar: _Optional[_Iterable[int]] = ..., reporters: _Optional[_Iterable[_Union[Reporter, _Mapping]]] = ...) -> None: ...

class Reporter(_message.Message):
    __slots__ = ("service", "instance", "heard_ago", "granted", "denied", "succeeded", "failed")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    HEARD_AGO_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    DENIED_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    service: str
    instance: str
    heard_ago: _duration_pb2.Duration
    granted: int
    denied: int
    succeeded: int
    failed: int
    def __init__(self, service: _Optional[str] = ..., instance: _Optional[str] = ..., heard_ago: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., granted: _Optional[int] = ..., denied: _Optional[int] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ...) -> None: ...

class CheckSummary(_message.Message):
    __slots__ = ("period", "checkers", "running", "verdict", "age", "failures_in_a_row", "next_in")
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    CHECKERS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    FAILURES_IN_A_ROW_FIELD_NUMBER: _ClassVar[int]
    NEXT_IN_FIELD_NUMBER: _ClassVar[int]
    period: _duration_pb2.Duration
    checkers: int
    running: int
    verdict: _coordinator_pb2.CheckVerdict
    age: _duration_pb2.Duration
    failures_in_a_row: int
    next_in: _duration_pb2.Duration
    def __init__(self, period: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., checkers: _Optional[int] = ..., running: _Optional[int] = ..., verdict: _Optional[_Union[_coordinator_pb2.CheckVerdict, str]] = ..., age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., failures_in_a_row: _Optional[int] = ..., next_in: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ListDependenciesRequest(_message.Message):
    __slots__ = ("namespace", "page_size", "page_token", "name_prefix", "states")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    NAME_PREFIX_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    page_size: int
    page_token: str
    name_prefix: str
    states: _containers.RepeatedScalarFieldContainer[_coordinator_pb2.BreakerState]
    def __init__(self, namespace: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., name_prefix: _Optional[str] = ..., states: _Optional[_Iterable[_Union[_coordinator_pb2.BreakerState, str]]] = ...) -> None: ...

class ListDependenciesResponse(_message.Message):
    __slots__ = ("dependencies", "next_page_token")
    DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    dependencies: _containers.RepeatedCompositeFieldContainer[Dependency]
    next_page_token: str
    def __init__(self, dependencies: _Optional[_Iterable[_Union[Dependency, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetDependencyRequest(_message.Message):
    __slots__ = ("namespace", "dependency", "follow")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    dependency: str
    follow: bool
    def __init__(self, namespace: _Optional[str] = ..., dependency: _Optional[str] = ..., follow: bool = ...) -> None: ...

class GetDependencyResponse(_message.Message):
    __slots__ = ("dependency",)
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    dependency: Dependency
    def __init__(self, dependency: _Optional[_Union[Dependency, _Mapping]] = ...) -> None: ...

class WatchDependenciesRequest(_message.Message):
    __slots__ = ("namespace", "name_prefix")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_PREFIX_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name_prefix: str
    def __init__(self, namespace: _Optional[str] = ..., name_prefix: _Optional[str] = ...) -> None: ...

class WatchDependenciesResponse(_message.Message):
    __slots__ = ("dependency", "removed", "synced")
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    SYNCED_FIELD_NUMBER: _ClassVar[int]
    dependency: Dependency
    removed: str
    synced: bool
    def __init__(self, dependency: _Optional[_Union[Dependency, _Mapping]] = ..., removed: _Optional[str] = ..., synced: bool = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("sequence", "time", "kind", "namespace", "dependency", "to", "epoch", "detail", "owner", "replica", "pending")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    time: _timestamp_pb2.Timestamp
    kind: EventKind
    namespace: str
    dependency: str
    to: _coordinator_pb2.BreakerState
    epoch: int
    detail: str
    owner: str
    replica: int
    pending: bool
    def __init__(self, sequence: _Optional[int] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., kind: _Optional[_Union[EventKind, str]] = ..., namespace: _Optional[str] = ..., dependency: _Optional[str] = ..., to: _Optional[_Union[_coordinator_pb2.BreakerState, str]] = ..., epoch: _Optional[int] = ..., detail: _Optional[str] = ..., owner: _Optional[str] = ..., replica: _Optional[int] = ..., pending: bool = ..., **kwargs) -> None: ...

class WatchEventsRequest(_message.Message):
    __slots__ = ("namespace", "dependency", "since")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    dependency: str
    since: _duration_pb2.Duration
    def __init__(self, namespace: _Optional[str] = ..., dependency: _Optional[str] = ..., since: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WatchEventsResponse(_message.Message):
    __slots__ = ("event", "missed")
    EVENT_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    event: Event
    missed: int
    def __init__(self, event: _Optional[_Union[Event, _Mapping]] = ..., missed: _Optional[int] = ...) -> None: ...

class ListEventsRequest(_message.Message):
    __slots__ = ("namespace", "dependency", "since", "page_size")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    dependency: str
    since: _duration_pb2.Duration
    page_size: int
    def __init__(self, namespace: _Optional[str] = ..., dependency: _Optional[str] = ..., since: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., page_size: _Optional[int] = ...) -> None: ...

class ListEventsResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ...) -> None: ...

class SetOverrideRequest(_message.Message):
    __slots__ = ("namespace", "dependency", "kind", "owner", "reason", "expires_in")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    dependency: str
    kind: OverrideKind
    owner: str
    reason: str
    expires_in: _duration_pb2.Duration
    def __init__(self, namespace: _Optional[str] = ..., dependency: _Optional[str] = ..., kind: _Optional[_Union[OverrideKind, str]] = ..., owner: _Optional[str] = ..., reason: _Optional[str] = ..., expires_in: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class SetOverrideResponse(_message.Message):
    __slots__ = ("dependency",)
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    dependency: Dependency
    def __init__(self, dependency: _Optional[_Union[Dependency, _Mapping]] = ...) -> None: ...

class ClearOverrideRequest(_message.Message):
    __slots__ = ("namespace", "dependency", "owner", "reason")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    dependency: str
    owner: str
    reason: str
    def __init__(self, namespace: _Optional[str] = ..., dependency: _Optional[str] = ..., owner: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ClearOverrideResponse(_message.Message):
    __slots__ = ("dependency",)
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    dependency: Dependency
    def __init__(self, dependency: _Optional[_Union[Dependency, _Mapping]] = ...) -> None: ...

class ResetDependencyRequest(_message.Message):
    __slots__ = ("namespace", "dependency", "owner", "reason")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    dependency: str
    owner: str
    reason: str
    def __init__(self, namespace: _Optional[str] = ..., dependency: _Optional[str] = ..., owner: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ResetDependencyResponse(_message.Message):
    __slots__ = ("dependency",)
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    dependency: Dependency
    def __init__(self, dependency: _Optional[_Union[Dependency, _Mapping]] = ...) -> None: ...

class ClearHoldRequest(_message.Message):
    __slots__ = ("namespace", "dependency", "owner", "reason")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    dependency: str
    owner: str
    reason: str
    def __init__(self, namespace: _Optional[str] = ..., dependency: _Optional[str] = ..., owner: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ClearHoldResponse(_message.Message):
    __slots__ = ("dependency",)
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    dependency: Dependency
    def __init__(self, dependency: _Optional[_Union[Dependency, _Mapping]] = ...) -> None: ...

class AuditRecord(_message.Message):
    __slots__ = ("sequence", "time", "owner", "action", "namespace", "dependency", "detail", "hash", "hash_before")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    HASH_BEFORE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    time: _timestamp_pb2.Timestamp
    owner: str
    action: str
    namespace: str
    dependency: str
    detail: str
    hash: str
    hash_before: str
    def __init__(self, sequence: _Optional[int] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., owner: _Optional[str] = ..., action: _Optional[str] = ..., namespace: _Optional[str] = ..., dependency: _Optional[str] = ..., detail: _Optional[str] = ..., hash: _Optional[str] = ..., hash_before: _Optional[str] = ...) -> None: ...

class ListAuditRequest(_message.Message):
    __slots__ = ("namespace", "page_size", "page_token", "verify")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    VERIFY_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    page_size: int
    page_token: str
    verify: bool
    def __init__(self, namespace: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., verify: bool = ...) -> None: ...

class ListAuditResponse(_message.Message):
    __slots__ = ("records", "next_page_token", "chain")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[AuditRecord]
    next_page_token: str
    chain: AuditChain
    def __init__(self, records: _Optional[_Iterable[_Union[AuditRecord, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., chain: _Optional[_Union[AuditChain, _Mapping]] = ...) -> None: ...

class AuditChain(_message.Message):
    __slots__ = ("intact", "intact_of_namespace", "head_sequence", "head_hash", "broken")
    INTACT_FIELD_NUMBER: _ClassVar[int]
    INTACT_OF_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    HEAD_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    HEAD_HASH_FIELD_NUMBER: _ClassVar[int]
    BROKEN_FIELD_NUMBER: _ClassVar[int]
    intact: int
    intact_of_namespace: int
    head_sequence: int
    head_hash: str
    broken: str
    def __init__(self, intact: _Optional[int] = ..., intact_of_namespace: _Optional[int] = ..., head_sequence: _Optional[int] = ..., head_hash: _Optional[str] = ..., broken: _Optional[str] = ...) -> None: ...

class Policy(_message.Message):
    __slots__ = ("namespace", "name", "document", "source")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    document: str
    source: PolicySource
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., document: _Optional[str] = ..., source: _Optional[_Union[PolicySource, str]] = ...) -> None: ...

class ListPoliciesRequest(_message.Message):
    __slots__ = ("namespace", "page_size", "page_token")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    page_size: int
    page_token: str
    def __init__(self, namespace: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListPoliciesResponse(_message.Message):
    __slots__ = ("policies", "next_page_token")
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    policies: _containers.RepeatedCompositeFieldContainer[Policy]
    next_page_token: str
    def __init__(self, policies: _Optional[_Iterable[_Union[Policy, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetPolicyRequest(_message.Message):
    __slots__ = ("namespace", "dependency")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    dependency: str
    def __init__(self, namespace: _Optional[str] = ..., dependency: _Optional[str] = ...) -> None: ...

class PolicyValue(_message.Message):
    __slots__ = ("field", "value", "origin")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    field: str
    value: str
    origin: str
    def __init__(self, field: _Optional[str] = ..., value: _Optional[str] = ..., origin: _Optional[str] = ...) -> None: ...

class GetPolicyResponse(_message.Message):
    __slots__ = ("document", "values")
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    document: str
    values: _containers.RepeatedCompositeFieldContainer[PolicyValue]
    def __init__(self, document: _Optional[str] = ..., values: _Optional[_Iterable[_Union[PolicyValue, _Mapping]]] = ...) -> None: ...

class PutPolicyRequest(_message.Message):
    __slots__ = ("namespace", "name", "document", "owner", "reason")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    document: str
    owner: str
    reason: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., document: _Optional[str] = ..., owner: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class PutPolicyResponse(_message.Message):
    __slots__ = ("policy",)
    POLICY_FIELD_NUMBER: _ClassVar[int]
    policy: Policy
    def __init__(self, policy: _Optional[_Union[Policy, _Mapping]] = ...) -> None: ...

class DeletePolicyRequest(_message.Message):
    __slots__ = ("namespace", "name", "owner", "reason")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    owner: str
    reason: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., owner: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class DeletePolicyResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CheckPolicyRequest(_message.Message):
    __slots__ = ("document", "traffic", "everywhere")
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_FIELD_NUMBER: _ClassVar[int]
    EVERYWHERE_FIELD_NUMBER: _ClassVar[int]
    document: str
    traffic: _containers.RepeatedCompositeFieldContainer[TrafficFacts]
    everywhere: TrafficFacts
    def __init__(self, document: _Optional[str] = ..., traffic: _Optional[_Iterable[_Union[TrafficFacts, _Mapping]]] = ..., everywhere: _Optional[_Union[TrafficFacts, _Mapping]] = ...) -> None: ...

class TrafficFacts(_message.Message):
    __slots__ = ("namespace", "dependency", "calls_per_second", "clients", "capacity", "deadline", "attempt_time", "attempt_timeout", "recovery_goal", "failure_ratio", "checkers", "layers")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    CALLS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_TIME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_GOAL_FIELD_NUMBER: _ClassVar[int]
    FAILURE_RATIO_FIELD_NUMBER: _ClassVar[int]
    CHECKERS_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    dependency: str
    calls_per_second: float
    clients: int
    capacity: float
    deadline: _duration_pb2.Duration
    attempt_time: _duration_pb2.Duration
    attempt_timeout: _duration_pb2.Duration
    recovery_goal: _duration_pb2.Duration
    failure_ratio: float
    checkers: int
    layers: int
    def __init__(self, namespace: _Optional[str] = ..., dependency: _Optional[str] = ..., calls_per_second: _Optional[float] = ..., clients: _Optional[int] = ..., capacity: _Optional[float] = ..., deadline: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., attempt_time: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., attempt_timeout: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., recovery_goal: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., failure_ratio: _Optional[float] = ..., checkers: _Optional[int] = ..., layers: _Optional[int] = ...) -> None: ...

class PolicyChange(_message.Message):
    __slots__ = ("field", "value")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    field: str
    value: str
    def __init__(self, field: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class Finding(_message.Message):
    __slots__ = ("severity", "field", "message", "line", "column", "code", "numbers", "proposal", "dependency", "file")
    class NumbersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    PROPOSAL_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    severity: FindingSeverity
    field: str
    message: str
    line: int
    column: int
    code: str
    numbers: _containers.ScalarMap[str, float]
    proposal: _containers.RepeatedCompositeFieldContainer[PolicyChange]
    dependency: str
    file: str
    def __init__(self, severity: _Optional[_Union[FindingSeverity, str]] = ..., field: _Optional[str] = ..., message: _Optional[str] = ..., line: _Optional[int] = ..., column: _Optional[int] = ..., code: _Optional[str] = ..., numbers: _Optional[_Mapping[str, float]] = ..., proposal: _Optional[_Iterable[_Union[PolicyChange, _Mapping]]] = ..., dependency: _Optional[str] = ..., file: _Optional[str] = ...) -> None: ...

class CheckPolicyResponse(_message.Message):
    __slots__ = ("findings",)
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    findings: _containers.RepeatedCompositeFieldContainer[Finding]
    def __init__(self, findings: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ...) -> None: ...

class Candidate(_message.Message):
    __slots__ = ("namespace", "name", "document", "owner", "put_time", "dependencies", "left_out", "problem", "comparison")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PUT_TIME_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    COMPARISON_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    document: str
    owner: str
    put_time: _timestamp_pb2.Timestamp
    dependencies: int
    left_out: int
    problem: str
    comparison: Comparison
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., document: _Optional[str] = ..., owner: _Optional[str] = ..., put_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., dependencies: _Optional[int] = ..., left_out: _Optional[int] = ..., problem: _Optional[str] = ..., comparison: _Optional[_Union[Comparison, _Mapping]] = ...) -> None: ...

class Comparison(_message.Message):
    __slots__ = ("since", "until", "live", "candidate", "refused", "let_through", "later", "later_by", "sooner", "sooner_by", "other_reason", "unknown_ends")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    LET_THROUGH_FIELD_NUMBER: _ClassVar[int]
    LATER_FIELD_NUMBER: _ClassVar[int]
    LATER_BY_FIELD_NUMBER: _ClassVar[int]
    SOONER_FIELD_NUMBER: _ClassVar[int]
    SOONER_BY_FIELD_NUMBER: _ClassVar[int]
    OTHER_REASON_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_ENDS_FIELD_NUMBER: _ClassVar[int]
    since: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    live: ComparedSide
    candidate: ComparedSide
    refused: _containers.RepeatedCompositeFieldContainer[DifferingAttempts]
    let_through: _containers.RepeatedCompositeFieldContainer[DifferingAttempts]
    later: int
    later_by: _duration_pb2.Duration
    sooner: int
    sooner_by: _duration_pb2.Duration
    other_reason: int
    unknown_ends: int
    def __init__(self, since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., live: _Optional[_Union[ComparedSide, _Mapping]] = ..., candidate: _Optional[_Union[ComparedSide, _Mapping]] = ..., refused: _Optional[_Iterable[_Union[DifferingAttempts, _Mapping]]] = ..., let_through: _Optional[_Iterable[_Union[DifferingAttempts, _Mapping]]] = ..., later: _Optional[int] = ..., later_by: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., sooner: _Optional[int] = ..., sooner_by: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., other_reason: _Optional[int] = ..., unknown_ends: _Optional[int] = ...) -> None: ...

class ComparedSide(_message.Message):
    __slots__ = ("first_attempts", "first_attempts_refused", "retries", "retries_refused", "succeeded", "failed", "opened", "reopened", "openings")
    FIRST_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    FIRST_ATTEMPTS_REFUSED_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    RETRIES_REFUSED_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    REOPENED_FIELD_NUMBER: _ClassVar[int]
    OPENINGS_FIELD_NUMBER: _ClassVar[int]
    first_attempts: int
    first_attempts_refused: int
    retries: int
    retries_refused: int
    succeeded: int
    failed: int
    opened: int
    reopened: int
    openings: _containers.RepeatedCompositeFieldContainer[Opening]
    def __init__(self, first_attempts: _Optional[int] = ..., first_attempts_refused: _Optional[int] = ..., retries: _Optional[int] = ..., retries_refused: _Optional[int] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ..., opened: _Optional[int] = ..., reopened: _Optional[int] = ..., openings: _Optional[_Iterable[_Union[Opening, _Mapping]]] = ...) -> None: ...

class Opening(_message.Message):
    __slots__ = ("time", "detail", "again")
    TIME_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    time: _timestamp_pb2.Timestamp
    detail: str
    again: bool
    def __init__(self, time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., detail: _Optional[str] = ..., again: bool = ...) -> None: ...

class DifferingAttempts(_message.Message):
    __slots__ = ("reason", "first_attempts", "retries", "succeeded", "failed")
    REASON_FIELD_NUMBER: _ClassVar[int]
    FIRST_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    reason: _coordinator_pb2.DenialReason
    first_attempts: int
    retries: int
    succeeded: int
    failed: int
    def __init__(self, reason: _Optional[_Union[_coordinator_pb2.DenialReason, str]] = ..., first_attempts: _Optional[int] = ..., retries: _Optional[int] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ...) -> None: ...

class ComparedDependency(_message.Message):
    __slots__ = ("dependency", "candidate_state", "comparison")
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_STATE_FIELD_NUMBER: _ClassVar[int]
    COMPARISON_FIELD_NUMBER: _ClassVar[int]
    dependency: str
    candidate_state: _coordinator_pb2.BreakerState
    comparison: Comparison
    def __init__(self, dependency: _Optional[str] = ..., candidate_state: _Optional[_Union[_coordinator_pb2.BreakerState, str]] = ..., comparison: _Optional[_Union[Comparison, _Mapping]] = ...) -> None: ...

class PutCandidateRequest(_message.Message):
    __slots__ = ("namespace", "name", "document", "owner", "reason")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    document: str
    owner: str
    reason: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., document: _Optional[str] = ..., owner: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class PutCandidateResponse(_message.Message):
    __slots__ = ("candidate",)
    CANDIDATE_FIELD_NUMBER: _ClassVar[int]
    candidate: Candidate
    def __init__(self, candidate: _Optional[_Union[Candidate, _Mapping]] = ...) -> None: ...

class ListCandidatesRequest(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    def __init__(self, namespace: _Optional[str] = ...) -> None: ...

class ListCandidatesResponse(_message.Message):
    __slots__ = ("candidates",)
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    candidates: _containers.RepeatedCompositeFieldContainer[Candidate]
    def __init__(self, candidates: _Optional[_Iterable[_Union[Candidate, _Mapping]]] = ...) -> None: ...

class GetCandidateRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetCandidateResponse(_message.Message):
    __slots__ = ("candidate", "dependencies")
    CANDIDATE_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
    candidate: Candidate
    dependencies: _containers.RepeatedCompositeFieldContainer[ComparedDependency]
    def __init__(self, candidate: _Optional[_Union[Candidate, _Mapping]] = ..., dependencies: _Optional[_Iterable[_Union[ComparedDependency, _Mapping]]] = ...) -> None: ...

class PromoteCandidateRequest(_message.Message):
    __slots__ = ("namespace", "name", "owner", "reason")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    owner: str
    reason: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., owner: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class PromoteCandidateResponse(_message.Message):
    __slots__ = ("policy", "candidate")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_FIELD_NUMBER: _ClassVar[int]
    policy: Policy
    candidate: Candidate
    def __init__(self, policy: _Optional[_Union[Policy, _Mapping]] = ..., candidate: _Optional[_Union[Candidate, _Mapping]] = ...) -> None: ...

class DeleteCandidateRequest(_message.Message):
    __slots__ = ("namespace", "name", "owner", "reason")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    owner: str
    reason: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., owner: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class DeleteCandidateResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListReplicasRequest(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    def __init__(self, namespace: _Optional[str] = ...) -> None: ...

class ListReplicasResponse(_message.Message):
    __slots__ = ("replicas",)
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    replicas: _containers.RepeatedCompositeFieldContainer[Replica]
    def __init__(self, replicas: _Optional[_Iterable[_Union[Replica, _Mapping]]] = ...) -> None: ...

class Replica(_message.Message):
    __slots__ = ("number", "name", "address", "http_address", "version", "since", "seen_ago", "troubles", "decisions", "policies_revision", "here")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HTTP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    SEEN_AGO_FIELD_NUMBER: _ClassVar[int]
    TROUBLES_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    POLICIES_REVISION_FIELD_NUMBER: _ClassVar[int]
    HERE_FIELD_NUMBER: _ClassVar[int]
    number: int
    name: str
    address: str
    http_address: str
    version: str
    since: _timestamp_pb2.Timestamp
    seen_ago: _duration_pb2.Duration
    troubles: _containers.RepeatedScalarFieldContainer[str]
    decisions: str
    policies_revision: int
    here: bool
    def __init__(self, number: _Optional[int] = ..., name: _Optional[str] = ..., address: _Optional[str] = ..., http_address: _Optional[str] = ..., version: _Optional[str] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., seen_ago: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., troubles: _Optional[_Iterable[str]] = ..., decisions: _Optional[str] = ..., policies_revision: _Optional[int] = ..., here: bool = ...) -> None: ...
