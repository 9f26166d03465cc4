"""Decisions without the service: its own rules, over what this process alone knows."""

from __future__ import annotations

import threading
from typing import Optional, Union

from . import _clock, _entropy
from ._pushed import Heard
from ._rules.arithmetic import from_seconds, to_seconds
from ._rules.policy import Policy
from ._rules.record import Granted, LocalPermit, Record, Refused, Retry, Unknown
from .denial import Denied, DeniedBy
from .outcome import Outcome

DEPENDENCIES_MAX = 10_000
IDLE_NS = 600 * 1_000_000_000


class Local:
    """One record a dependency. `retries_only`: no breaker, and nothing that the service said."""

    def __init__(self, own: Policy, retries_only: bool) -> None:
        self.own = own
        self.retries_only = retries_only
        self._records: dict[str, Record] = {}
        self._lock = threading.Lock()

    def first(self, dependency: str, heard: Optional[Heard], left_ns: Optional[int]) -> Granted:
        now = _clock.now_ns()
        with self._lock:
            record, policy = self._of(dependency, heard, now)
            answer = record.first(policy, left_ns, now, _entropy.unit(), self.retries_only)
        return _granted(answer)

    def let_go_first(self, dependency: str, heard: Heard, left_ns: Optional[int]) -> Granted:
        """As `first`, of an attempt that the service lets go."""
        now = _clock.now_ns()
        with self._lock:
            record, policy = self._of(dependency, heard, now)
            answer = record.let_go_first(policy, left_ns, now, _entropy.unit())
        return _granted(answer)

    def retry(
        self,
        dependency: str,
        heard: Optional[Heard],
        asked: Retry,
        left_ns: Optional[int],
    ) -> Granted:
        now, draws = _clock.now_ns(), (_entropy.unit(), _entropy.unit())
        with self._lock:
            record, policy = self._of(dependency, heard, now)
            answer = record.retry(policy, asked, left_ns, now, draws, self.retries_only)
        return _granted(answer)

    def note(self, dependency: str, heard: Optional[Heard], asked: Retry) -> None:
        """Takes the outcome that a question tells, and answers nothing: the service has said
        before what the answer is.
        """
        now = _clock.now_ns()
        with self._lock:
            record, policy = self._of(dependency, heard, now)
            record.take_previous(policy, asked, now, self.retries_only)

    def ended(self, dependency: str, heard: Optional[Heard], outcome: Outcome) -> None:
        """Counts a first attempt that the service had let go."""
        self.note(dependency, heard, retry_of(2, Unknown(True), outcome, False))

    def confirm(
        self, dependency: str, heard: Optional[Heard], permit: LocalPermit, left_ns: Optional[int]
    ) -> Granted:
        now = _clock.now_ns()
        with self._lock:
            record, policy = self._of(dependency, heard, now)
            unit = _entropy.unit()
            answer = record.confirm(policy, permit, left_ns, now, unit, self.retries_only)
        return _granted(answer)

    def report(
        self, dependency: str, heard: Optional[Heard], permit: LocalPermit, outcome: Outcome
    ) -> None:
        now = _clock.now_ns()
        with self._lock:
            record, policy = self._of(dependency, heard, now)
            record.report(policy, permit, outcome, now, self.retries_only)

    def remember(self, dependency: str, denied: Denied) -> None:
        """What the service said, for the time when it no longer says anything."""
        now = _clock.now_ns()
        wait = None if denied.retry_after is None else from_seconds(denied.retry_after)
        with self._lock:
            self._of(dependency, None, now)[0].told(denied.reason, wait, now)

    def let_go(self, dependency: str) -> None:
        """The service grants again."""
        record = self._records.get(dependency)
        if record is not None:
            record.let_go(_clock.now_ns())

    def _of(self, dependency: str, heard: Optional[Heard], now: int) -> tuple[Record, Policy]:
        """Past the limit those not called for long go, and then those unknown share one record."""
        record = self._records.get(dependency)
        if record is None:
            if len(self._records) >= DEPENDENCIES_MAX:
                idle = [n for n, known in self._records.items() if now - known.used >= IDLE_NS]
                for name in idle:
                    del self._records[name]
            name = dependency if len(self._records) < DEPENDENCIES_MAX else ""
            record = self._records.setdefault(name, Record())
        record.used = now
        if heard is None:
            return record, self.own
        if heard.let_go_at is not None:
            record.let_go_at(heard.let_go_at, now)
        return record, heard.policy


def retry_of(
    attempt: int, made_under: Union[LocalPermit, Unknown], outcome: Outcome, is_unsafe: bool
) -> Retry:
    pushback = None if outcome.pushback is None else from_seconds(outcome.pushback)
    return Retry(attempt, made_under, outcome, pushback, is_unsafe)


def _granted(answer: Union[Granted, Refused]) -> Granted:
    if isinstance(answer, Granted):
        return answer
    wait = None if answer.retry_after_ns is None else to_seconds(answer.retry_after_ns)
    raise Denied(DeniedBy.LOCAL, answer.reason, "decided in this process alone", wait)
