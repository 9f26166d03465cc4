"""A loop of attempts, each of them a block: for code that is no function."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Optional

from . import _clock
from ._calling import Attempt, Calling, Returned, attempt_of
from ._flow import Flow
from ._permit import Permit
from .denial import Cancelled
from .outcome import Outcome, OutcomeKind


class Guard:
    """One attempt, as a block."""

    def __init__(self, guards: Guards, permit: Permit) -> None:
        self._guards = guards
        self._permit = permit
        self._begun = _clock.now_ns()
        self._result: Optional[tuple[Any]] = None
        self.attempt: Attempt = attempt_of(permit)
        """All that is known of it."""

    @property
    def number(self) -> int:
        """1 for the first call."""
        return self.attempt.number

    @property
    def limit(self) -> Optional[float]:
        """Seconds that it may take. None: nothing limits it."""
        return self.attempt.limit

    def result(self, value: Any) -> None:
        """What the attempt returned, to be read by the call's `classify`: a response with status
        503 is no error, and a failure all the same.
        """
        self._result = (value,)

    def __del__(self) -> None:
        """A loop that was left before its block."""
        self._permit.collected()

    def __enter__(self) -> Guard:
        self._begun = _clock.now_ns()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> bool:
        if error is None:
            value = self._result[0] if self._result else None
            took = _clock.now_ns() - self._begun
            self._guards.returned(self._permit, self._result is not None, value, took)
            return False
        if not isinstance(error, Exception) or isinstance(error, Cancelled):
            self._permit.cancel()
            return False
        self._guards.failed(self._permit, error, self._begun)
        return True


class Guards:
    """The loop, without its input and output."""

    def __init__(self, calling: Calling) -> None:
        self._calling = calling
        self.cancel = calling.cancel
        self._is_over = False
        self._is_in_block = False

    def next(self) -> Flow[Optional[Guard]]:
        """None: the loop is over. Raises the last real error where there is no next attempt."""
        if self._is_over:
            return None
        if self._is_in_block:
            raise RuntimeError("an attempt was not made as a block: use `with attempt:`")
        try:
            permit = yield from self._calling.permission()
        except Returned:
            self._is_over = True
            return None
        self._is_in_block = True
        return Guard(self, permit)

    def returned(self, permit: Permit, has_value: bool, value: Any, took: int) -> None:
        self._is_in_block = False
        if has_value:
            self._is_over = self._calling.returned(permit, value, took)
        else:
            self._is_over = True
            permit.report(Outcome(OutcomeKind.SUCCESS, took / 1e9))

    def failed(self, permit: Permit, error: Exception, begun_ns: int) -> None:
        self._is_in_block = False
        self._calling.failed(permit, error, begun_ns)
