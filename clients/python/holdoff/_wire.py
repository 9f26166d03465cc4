"""Between the client's words and the wire's.

Reading is strict: an answer that says something unknown, or leaves out what it must say, is no
decision. It is never mended by a default, since protobuf's default of a delay is "now".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Union

from ._proto import coordinator_pb2 as pb
from ._proto.coordinator_pb2_grpc import CoordinatorServiceStub
from ._rules.arithmetic import NS, from_seconds
from ._rules.duration import LONGEST_SECONDS, read_duration
from ._rules.policy import DAY_NS
from .denial import REASONS, Reason
from .outcome import Outcome

PERMIT_BYTES_MAX = 1024
_STATES = frozenset(range(7))
NAME_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/:@-")


@dataclass(frozen=True)
class FleetGrant:
    """Yes, after `delay_ns`. The permit lives from the end of the delay."""

    permit: bytes
    delay_ns: int
    lives_ns: Optional[int]
    is_probe: bool
    confirm: bool
    attempt_timeout_ns: Optional[int]
    epoch: int


@dataclass(frozen=True)
class FleetDenial:
    reason: Reason
    retry_after_ns: Optional[int]
    detail: str


class Unreadable(Exception):
    """The answer decided nothing. `no_delay`: a grant that does not say when."""

    def __init__(self, why: str, no_delay: bool = False) -> None:
        super().__init__(why)
        self.no_delay = no_delay


def is_name(name: str) -> bool:
    """Whether it can be the name of a dependency."""
    return 1 <= len(name) <= 200 and NAME_LETTERS.issuperset(name)


def read_answer(response: Any) -> Union[FleetGrant, FleetDenial]:
    if response.state not in _STATES:
        raise Unreadable("the state of the breaker is unknown to this client")
    verdict = response.WhichOneof("verdict")
    if verdict == "grant":
        return _read_grant(response.grant, response.epoch)
    if verdict == "denial":
        return _read_denial(response.denial)
    raise Unreadable("the answer has no verdict")


def _read_grant(grant: Any, epoch: int) -> FleetGrant:
    delay_ns = duration(grant, "delay")
    if delay_ns is None:
        raise Unreadable("the grant does not say when", no_delay=True)
    if len(grant.permit) > PERMIT_BYTES_MAX:
        raise Unreadable("the permit is longer than any permit")
    return FleetGrant(
        permit=grant.permit,
        delay_ns=delay_ns,
        # A life of nothing cannot be meant: it would end before the attempt begins.
        lives_ns=duration(grant, "permit_ttl") or None,
        is_probe=grant.probe,
        confirm=grant.confirm,
        attempt_timeout_ns=duration(grant, "attempt_timeout") or None,
        epoch=epoch,
    )


def _read_denial(denial: Any) -> FleetDenial:
    reason = REASONS.get(denial.reason)
    if reason is None:
        raise Unreadable("the reason of the denial is unknown to this client")
    return FleetDenial(reason, duration(denial, "retry_after"), denial.detail)


def duration(message: Any, field: str) -> Optional[int]:
    """In ns; None where it is absent."""
    is_readable, span = read_duration(getattr(message, field) if message.HasField(field) else None)
    if not is_readable:
        raise Unreadable("a duration is negative or out of range")
    return span


def write_duration(target: Any, span_ns: int) -> None:
    seconds, nanos = divmod(span_ns, NS)
    if seconds >= LONGEST_SECONDS:
        seconds, nanos = LONGEST_SECONDS, 0
    target.seconds, target.nanos = seconds, nanos
    target.SetInParent()


def write_outcome(outcome: Outcome, target: Any) -> None:
    target.kind = outcome.kind.value
    if outcome.latency is not None:
        write_duration(target.latency, min(from_seconds(outcome.latency), DAY_NS))
    if outcome.pushback is not None:
        write_duration(target.pushback, from_seconds(outcome.pushback))
    target.do_not_retry = outcome.do_not_retry
    target.retried_below = outcome.retried_below
    target.status_code = min(max(outcome.status_code, 0), 2**32 - 1)
    target.pushback_restarts_backoff = outcome.pushback_restarts_backoff


def stub(channel: Any) -> Any:
    """The generated stub has no types."""
    return CoordinatorServiceStub(channel)  # type: ignore[no-untyped-call]


def permit_result(permit: bytes, outcome: Outcome) -> Any:
    entry = pb.ReportEntry()
    entry.result.permit = permit
    write_outcome(outcome, entry.result.outcome)
    return entry
