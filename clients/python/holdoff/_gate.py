"""The client's breaker on the service itself: one that is slow or fails must not cost each call
its timeout.

Three questions in a row without an answer shut it for a jittered 1 to 5 s, during which nothing
is asked. Then one question is the trial: answered, the gate opens; not, it is shut for twice as
long, up to 30 s. A denial is an answer. A service that is heard of meanwhile, by a stream that
it takes, gets its trial at once; but once only, since one that takes streams and answers nothing
must not be tried more often for it.

Not the rules' breaker: there is one gate, and what trips it is time lost, not a rate of failures.
"""

from __future__ import annotations

import threading
from typing import Optional

from ._rules import clamp

FAILURES_TO_SHUT = 3


class Pass:
    """Permission to ask one question. Given up unsaid, it says nothing."""

    __slots__ = ("is_trial", "was_told")

    def __init__(self, is_trial: bool) -> None:
        self.is_trial = is_trial
        self.was_told = False


class Gate:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self._until: Optional[int] = None  # None: it is open
        self._is_trying = False
        self._failed_trials = 0
        self._was_heard = False

    def enter(self, now: int) -> Optional[Pass]:
        """None: decide without asking."""
        if self._until is None:
            return Pass(False)
        with self._lock:
            if self._until is None:
                return Pass(False)
            if self._is_trying or now < self._until:
                return None
            self._is_trying = True
            return Pass(True)

    def answered(self, passed: Pass) -> bool:
        """True: it was shut and is open again. A late answer proves as much as a trial."""
        passed.was_told = True
        with self._lock:
            was_shut = self._until is not None
            self._failures = 0
            self._until = None
            self._is_trying = False
        return was_shut

    def unanswered(self, passed: Pass, now: int, unit: float) -> bool:
        """True: it has just been shut."""
        passed.was_told = True
        with self._lock:
            if self._until is None:
                self._failures += 1
                if self._failures < FAILURES_TO_SHUT:
                    return False
                self._failed_trials, self._was_heard = 0, False
            elif passed.is_trial and self._is_trying:
                self._failed_trials += 1
            else:
                return False
            self._is_trying = False
            self._until = now + clamp.shut(self._failed_trials, unit)
        return True

    def gave_up(self, passed: Pass, now: int) -> None:
        """The caller never got to know: the next one may try."""
        if passed.was_told or not passed.is_trial:
            return
        with self._lock:
            if self._until is not None and self._is_trying:
                self._is_trying, self._until = False, now

    def heard(self, now: int) -> None:
        """The service is heard of: the next question may be the trial."""
        with self._lock:
            if self._until is not None and not self._is_trying and not self._was_heard:
                self._until, self._was_heard = min(now, self._until), True

    def shut_until(self, now: int) -> Optional[int]:
        """None: a question may be asked now, or is the trial."""
        until = self._until
        return until if until is not None and now < until and not self._is_trying else None
