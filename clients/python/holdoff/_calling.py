"""A guarded call, but for running the function: asks, waits, reads how an attempt ended, and
says what comes of it. The fronts run the function, blocking or awaiting.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Optional

from . import _clock
from . import classify as _classify
from ._asking import Asking
from ._core import Core, Mode
from ._flow import Flow, Sleep
from ._permit import Permit
from ._question import Question
from ._rules import clamp
from ._rules.arithmetic import from_seconds, to_seconds
from .denial import Denied, TimedOut, attach, forget_stops, stopped
from .outcome import Outcome, OutcomeKind

log = logging.getLogger("holdoff")


@dataclass(frozen=True)
class Attempt:
    """What a function is told about its attempt. Times are seconds."""

    number: int = 1
    """1 for the first call."""
    limit: Optional[float] = None
    """How long it may take: to the deadline, the attempt's own limit, and for a probe to a margin
    before its lease ends. A blocking function must keep to it itself, as its timeout. None:
    nothing limits it."""
    suggested_timeout: Optional[float] = None
    """A limit that the service finds sensible; it does not bind."""
    is_probe: bool = False
    """It tests a dependency that is thought broken."""
    is_local: bool = False
    """It was granted without the service."""


_FIRST = Attempt()
current: ContextVar[Attempt] = ContextVar("holdoff_attempt", default=_FIRST)


def attempt_of(permit: Permit) -> Attempt:
    limit, suggested = permit.limit(), permit.terms.attempt_timeout_ns
    if permit.is_plain and limit is None:
        return _FIRST
    return Attempt(
        permit.attempt,
        None if limit is None else to_seconds(limit),
        None if suggested is None else to_seconds(suggested),
        permit.terms.is_probe,
        permit.is_local,
    )


class Calling:
    """One call. `value` is set where the last attempt returned one, `error` is the last real
    error, and `begun` attempts were made.
    """

    __slots__ = (
        "_asking",
        "_classify",
        "_fallback",
        "_on_denied",
        "begun",
        "cancel",
        "error",
        "value",
    )

    def __init__(self, core: Core, dependency: str, settings: Mapping[str, Any]) -> None:
        said = settings.get
        self._on_denied = said("on_denied", "fail")
        self._classify: _classify.Classify = said("classify", _classify.default)
        self._fallback = said("fallback")
        self.cancel = said("cancel")
        if self._on_denied not in ("fail", "wait"):
            raise ValueError(f"on_denied {self._on_denied!r}: it must be 'fail' or 'wait'")
        self._asking = Asking(core, Question(dependency, settings))
        self.begun = 0
        self.error: Optional[BaseException] = None
        self.value: Optional[tuple[Any]] = None

    def at_once(self) -> Optional[Permit]:
        """A permit that needs no question and no waiting, for the way without a hop. Raises
        `Denied`.
        """
        asking = self._asking
        if asking.attempt > 1 or asking.deadline is not None or self._on_denied == "wait":
            return None
        return asking.at_once()

    def permission(self) -> Flow[Permit]:
        """Raises the last real error, or `Denied` where no attempt was made."""
        try:
            return (yield from obtain(self._asking, self._on_denied))
        except Denied as denied:
            why = denied
        if self.value is not None:
            raise _Returned
        # Without `from`: the error's own cause is the user's.
        error = self._stopped(why)
        if isinstance(error, StopIteration):
            raise Unraisable("an attempt raised StopIteration") from error
        raise error

    def returned(self, permit: Permit, value: Any, latency_ns: int) -> bool:
        """True: the call is over with this value."""
        if self._classify is _classify.default:
            permit.succeeded(latency_ns)
            return True
        outcome = self._read(permit, value, None, latency_ns)
        self.begun += 1
        self.value = (value,)
        if outcome.kind is OutcomeKind.SUCCESS:
            permit.report(outcome)
            return True
        self._asking = permit.next(outcome)
        return False

    def failed(self, permit: Permit, error: Exception, begun_ns: int) -> None:
        latency_ns = _clock.now_ns() - begun_ns
        self.begun += 1
        self.error, self.value = error, None
        forget_stops(error, begun_ns)
        self._asking = permit.next(self._read(permit, None, error, latency_ns))

    def timed_out(self, permit: Permit, latency_ns: int) -> None:
        """It was cut off at its limit."""
        self.begun += 1
        self._asking = permit.next(Outcome.timeout(to_seconds(latency_ns)))

    def returned_value(self) -> Any:
        """Of the last attempt, where it counts as a failure and there is no further one."""
        assert self.value is not None
        return self.value[0]

    def _read(
        self, permit: Permit, value: Any, error: Optional[Exception], latency_ns: int
    ) -> Outcome:
        """A classifier that fails says nothing, and hides nothing."""
        try:
            return _timed(self._classify(value, error), latency_ns)
        except Exception:
            core, dependency = self._asking.core, self._asking.question.dependency
            if core.warned_classifier.is_due():
                text = "the classifier of %s failed; its attempts count as ignored"
                log.warning(text, dependency, exc_info=True)
            return Outcome(OutcomeKind.IGNORED, to_seconds(latency_ns))
        except BaseException:
            permit.cancel()
            raise

    def _stopped(self, why: Denied) -> BaseException:
        if self.begun == 0:
            return why
        if self.error is None:
            self.error = TimedOut(self.begun, why)
        log.debug(
            "gave %s up after attempt %d: %s", self._asking.question.dependency, self.begun, why
        )
        attach(self.error, why, self.begun)
        return self.error

    def fall_back(self, error: BaseException) -> Any:
        """The fallback's value, or the error."""
        why = stopped(error)
        if self._fallback is None or why is None:
            raise error
        return self._fallback(why, None if error is why else error)


class _Returned(Exception):
    """A value that counts as a failure is returned as it is where there is no further attempt."""


Returned = _Returned


class Unraisable(RuntimeError):
    """The last real error, `Calling.error`, is one that no generator or coroutine may raise."""


def obtain(asking: Asking, on_denied: str) -> Flow[Permit]:
    """A permit that may be used now. One that was granted and did not hold is given back; the same
    question would be answered by the same, void grant, so that a first attempt is asked for under
    another name, and a retry ends the call. Raises `Denied`.
    """
    try:
        while True:
            was_granted = False
            try:
                permit = yield from asking.ask()
                was_granted = True
                return (yield from permit.wait())
            except Denied as denied:
                wait = _time_to_ask_again(asking, on_denied, denied)
                if wait is None or (was_granted and asking.attempt > 1):
                    raise
            yield Sleep(to_seconds(wait))
            if was_granted:
                asking.rename()
    except BaseException:
        asking.give_up()
        raise


def _time_to_ask_again(asking: Asking, on_denied: str, denied: Denied) -> Optional[int]:
    """In ns. None: the denial stands. Nothing is waited for in tests."""
    if on_denied != "wait" or asking.core.mode is Mode.TESTING or denied.retry_after is None:
        return None
    return clamp.ask_again(
        clamp.is_worth_asking_again(denied.reason),
        from_seconds(denied.retry_after),
        asking.time_left(),
    )


def _timed(outcome: Outcome, latency_ns: int) -> Outcome:
    if outcome.latency is not None:
        return outcome
    return replace(outcome, latency=to_seconds(latency_ns))
