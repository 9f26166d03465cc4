"""How an attempt ended, as the caller tells it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Optional


class OutcomeKind(enum.IntEnum):
    """How an attempt ended; the numbers are those of the wire."""

    SUCCESS = 1
    """It worked."""
    FAILURE = 2
    """It failed, and a later attempt may work."""
    TIMEOUT = 3
    """No answer came in time; it may have been executed."""
    NOT_SENT = 4
    """The dependency certainly never began it."""
    THROTTLED = 5
    """The dependency asked for less."""
    REJECTED = 6
    """The request itself was wrong; trying again changes nothing."""
    IGNORED = 7
    """It says nothing about the dependency."""
    CANCELLED = 8
    """The caller gave it up."""


URGENT = frozenset(
    (OutcomeKind.FAILURE, OutcomeKind.TIMEOUT, OutcomeKind.NOT_SENT, OutcomeKind.THROTTLED)
)
"""What a retry may mend, and what the service should hear of at once."""


@dataclass(frozen=True)
class Outcome:
    """What is known of an attempt that ended. Times are seconds."""

    kind: OutcomeKind
    latency: Optional[float] = None
    """How long it took; measured where it is absent."""
    pushback: Optional[float] = None
    """The wait that the dependency itself asked for: a floor under the next delay."""
    do_not_retry: bool = False
    """The dependency said that there must be no retry."""
    retried_below: bool = False
    """A layer between the caller and the fault has retried already."""
    status_code: int = 0
    """The HTTP status or gRPC code, for people."""
    pushback_restarts_backoff: bool = False
    """The pushback came by gRPC, after which the backoff starts at its first delay again."""

    @classmethod
    def success(cls, latency: Optional[float] = None) -> Outcome:
        return cls(OutcomeKind.SUCCESS, latency)

    @classmethod
    def failure(cls, latency: Optional[float] = None) -> Outcome:
        return cls(OutcomeKind.FAILURE, latency)

    @classmethod
    def timeout(cls, latency: Optional[float] = None) -> Outcome:
        return cls(OutcomeKind.TIMEOUT, latency)

    @classmethod
    def not_sent(cls) -> Outcome:
        return cls(OutcomeKind.NOT_SENT)

    @classmethod
    def cancelled(cls) -> Outcome:
        return cls(OutcomeKind.CANCELLED)
