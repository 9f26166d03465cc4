"""The answer no, and how a caller learns why retrying stopped."""

from __future__ import annotations

import contextlib
import enum
import sys
from typing import NamedTuple, Optional

from . import _clock
from ._cause import all_below

_DETAIL_LETTERS = 1024
_ATTRIBUTE = "__holdoff_stopped__"
_NOTE = "holdoff: "


class Reason(enum.Enum):
    """Why an attempt may not be made. Names and numbers are the service's; the last two are the
    client's own.
    """

    FORCED_OPEN = 1, "forced open by an operator"
    PUSHBACK = 2, "the dependency said: do not retry"
    PUSHBACK_TOO_LONG = 3, "the dependency asked for too long a wait"
    NOT_RETRYABLE = 4, "a retry cannot mend it"
    RETRIED_BELOW = 5, "a layer below retried already"
    ATTEMPTS_EXHAUSTED = 6, "no attempt left"
    RETRY_UNSAFE = 7, "a retry may do harm"
    HEDGE_REFUSED = 8, "hedge refused"
    HELD = 9, "the dependency asked the fleet to wait"
    BREAKER_OPEN = 10, "breaker open"
    PROBE_IN_PROGRESS = 11, "breaker half-open, all probes are out"
    RECOVERING = 12, "recovering, the admitted share is taken"
    CALLER_FAULT = 13, "this instance fails while others do not"
    CALENDAR_FULL = 14, "calendar full"
    RATE_LIMITED = 15, "rate limited"
    DEADLINE = 16, "no time left"
    BUDGET_EXHAUSTED = 17, "retry budget exhausted"
    DUPLICATE = 18, "the permit was used already"
    PERMIT_VOID = 19, "the permit is void"
    NO_DECISION = 101, "nothing was decided"
    UNREADABLE = 102, "unreadable answer"

    def __init__(self, number: int, words: str) -> None:
        self.number = number
        self.words = words

    def __str__(self) -> str:
        return self.words


REASONS = {reason.number: reason for reason in Reason if reason.number < 100}


class DeniedBy(enum.Enum):
    """Who said no."""

    FLEET = "fleet"
    """The service, for the whole fleet."""
    LOCAL = "local"
    """This process, by the same rules over what it knows itself."""
    CALLER = "caller"
    """The caller's own limits, or what it said about the call."""


class Denied(Exception):
    """No. Raised where no attempt was made; otherwise attached to the last real error.

    Attributes:
        reason: why.
        retry_after: seconds until asking again makes sense. None: the answer is final.
        detail: one sentence with the numbers, for people.
        by: who said it.
    """

    def __init__(
        self,
        by: DeniedBy,
        reason: Reason,
        detail: str = "",
        retry_after: Optional[float] = None,
    ) -> None:
        self.by = by
        self.reason = reason
        self.detail = detail[:_DETAIL_LETTERS]
        self.retry_after = retry_after
        # Not `super()`: an adapter's denial is also an error of its library.
        Exception.__init__(self, by, reason, self.detail, retry_after)

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else str(self.reason)


class Stop(NamedTuple):
    """What an error that ended a guarded call carries beside it."""

    why: Denied
    was_retried: bool
    """By this call or by one below it."""
    at: int


class TimedOut(TimeoutError):
    """All attempts were cut off at a limit of time, so that none had an error of its own.

    Attributes:
        attempts: how many were made.
        reason: why there was no further one; `stopped` tells more.
    """

    def __init__(self, attempts: int, why: Denied, was_retried: bool = False) -> None:
        plural = "attempt was" if attempts == 1 else "attempts were all"
        TimeoutError.__init__(self, f"{attempts} {plural} cut off at the limit of time ({why})")
        self.attempts = attempts
        self.reason = why.reason
        setattr(self, _ATTRIBUTE, Stop(why, was_retried or attempts > 1, _clock.now_ns()))

    @property
    def stop(self) -> Stop:
        known: Stop = getattr(self, _ATTRIBUTE)
        return known


class Cancelled(Exception):
    """The caller gave the call up. A function may raise it, too."""


def stopped(error: BaseException) -> Optional[Denied]:
    """Why there was no further attempt after this error. None: it did not end a guarded call."""
    if isinstance(error, Denied):
        return error
    stop = stop_of(error)
    return None if stop is None else stop.why


def stop_of(error: BaseException) -> Optional[Stop]:
    found = getattr(error, _ATTRIBUTE, None)
    return found if isinstance(found, Stop) else None


def was_retried_below(error: BaseException) -> bool:
    """By a guarded call that this error tells of, if only one of several at a time."""
    stops = map(stop_of, all_below(error))
    return any(stop is not None and stop.was_retried for stop in stops)


def forget_stops(error: BaseException, before: int) -> None:
    """One object may be raised again and again: what ended an earlier call with it says nothing
    of an attempt that began later.
    """
    for below in all_below(error):
        stop = stop_of(below)
        if stop is not None and stop.at < before and not isinstance(below, TimedOut):
            with contextlib.suppress(AttributeError):
                delattr(below, _ATTRIBUTE)


def attach(error: BaseException, why: Denied, attempts: int) -> None:
    """Leaves the error as it is, but for what `stopped` reads and a note in its traceback."""
    was_retried = attempts > 1 or was_retried_below(error)
    try:
        setattr(error, _ATTRIBUTE, Stop(why, was_retried, _clock.now_ns()))
    except AttributeError:  # An extension type without a dictionary.
        return
    if sys.version_info >= (3, 11):
        # An error that is raised again and again has the newest reason alone.
        notes = getattr(error, "__notes__", None)
        if notes:
            notes[:] = [note for note in notes if not str(note).startswith(_NOTE)]
        error.add_note(f"{_NOTE}gave up after attempt {attempts}: {why}")
