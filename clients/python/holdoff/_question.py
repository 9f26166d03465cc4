"""What a caller says about a call before it makes it."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, Literal, Optional, TypedDict

from . import classify as _classify
from ._rules.arithmetic import from_seconds

if TYPE_CHECKING:
    from .denial import Denied

Priority = Literal["low", "normal", "high"]
OnDenied = Literal["fail", "wait"]

ATTEMPTS = 10
UNLIMITED = 2**32 - 1
_PRIORITIES = {"low": 1, "normal": 2, "high": 3}
UNSAFE, IDEMPOTENT, KEYED = 1, 2, 3


class Asked(TypedDict, total=False):
    """What belongs to the question. Times are seconds."""

    idempotent: bool
    """Executing it twice is the same as once. Otherwise it is retried only where the attempt
    before certainly was not sent."""
    keyed: bool
    """It carries a key by which the dependency tells a repetition; as idempotent."""
    deadline: Optional[float]
    """How long the caller waits in all, delays and attempts together."""
    max_attempts: int
    """The caller's own limit, the first call included; 10 unless said."""
    attempt_timeout: Optional[float]
    """One attempt is given up, as timed out, after so long."""
    priority: Priority
    """Who goes first."""
    cost: int
    """What it takes from a rate limit; 1 unless said."""
    call_id: Optional[str]
    """The name of this call, at most 128 bytes; drawn at random unless said."""


class Settings(Asked, total=False):
    """What belongs to a whole call."""

    on_denied: OnDenied
    """`wait`: where a denial says when asking again makes sense, waits so long and asks again."""
    classify: _classify.Classify
    """How a value or an error is read; `holdoff.classify.default` unless said."""
    cancel: Optional[threading.Event]
    """For threads: once it is set, the call is given up with `Cancelled`, at the latest when the
    function returns. Tasks are cancelled as ever."""
    fallback: Optional[Callable[[Denied, Optional[BaseException]], Any]]
    """Makes a value in place of the error where the call is given up; gets the reason and the
    last real error."""


class Question:
    """Checked settings. Cheap to make: one is made for each call."""

    __slots__ = (
        "attempt_timeout_ns",
        "call_id",
        "cost",
        "deadline_ns",
        "dependency",
        "max_attempts",
        "priority",
        "safety",
    )

    def __init__(self, dependency: str, said: Mapping[str, Any]) -> None:
        self.dependency = dependency
        self.safety = UNSAFE
        self.priority = 0
        self.cost = 0
        self.max_attempts = ATTEMPTS
        self.call_id: Optional[str] = None
        self.deadline_ns: Optional[int] = None
        self.attempt_timeout_ns: Optional[int] = None
        for name, value in said.items():
            read = _READERS.get(name)
            if read is None:
                raise TypeError(f"unknown setting {name!r}")
            read(self, value)


def _idempotent(question: Question, value: bool) -> None:
    if value and question.safety == UNSAFE:
        question.safety = IDEMPOTENT


def _keyed(question: Question, value: bool) -> None:
    if value:
        question.safety = KEYED


def _deadline(question: Question, value: Optional[float]) -> None:
    question.deadline_ns = None if value is None else _time("deadline", value)


def _attempt_timeout(question: Question, value: Optional[float]) -> None:
    question.attempt_timeout_ns = None if value is None else _time("attempt_timeout", value)


def _max_attempts(question: Question, value: int) -> None:
    question.max_attempts = _count("max_attempts", value, 1, UNLIMITED)


def _cost(question: Question, value: int) -> None:
    question.cost = _count("cost", value, 0, 1_000_000)


def _priority(question: Question, value: Priority) -> None:
    if value not in _PRIORITIES:
        raise ValueError(f"priority {value!r}: it must be 'low', 'normal' or 'high'")
    question.priority = _PRIORITIES[value]


def _call_id(question: Question, value: Optional[str]) -> None:
    if value is not None and len(value.encode()) > 128:
        raise ValueError(f"call_id {value[:20]!r}…: it must be at most 128 bytes")
    question.call_id = value


def _time(name: str, value: float) -> int:
    if not math.isfinite(value):
        raise ValueError(f"{name} {value!r}: it must be a finite number of seconds")
    return from_seconds(value)


def _count(name: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise ValueError(f"{name} {value!r}: it must be {low} to {high}")
    return value


def _of_the_call(question: Question, value: Any) -> None:
    """The call's, not the question's."""


_READERS: dict[str, Callable[[Question, Any], None]] = {
    **dict.fromkeys(("on_denied", "classify", "cancel", "fallback"), _of_the_call),
    "idempotent": _idempotent,
    "keyed": _keyed,
    "deadline": _deadline,
    "attempt_timeout": _attempt_timeout,
    "max_attempts": _max_attempts,
    "cost": _cost,
    "priority": _priority,
    "call_id": _call_id,
}
