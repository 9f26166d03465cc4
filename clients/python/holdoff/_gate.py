"""The client's breaker on the service itself: one that is slow or fails must not cost each call
its timeout.

Three questions in a row without an answer shut it for a jittered 1 to 5 s, during which nothing
is asked. Then one question is the trial: answered, the gate opens; not, it is shut for twice as
long, up to 30 s. A denial is an answer. A service that is heard of meanwhile, by a stream that
it takes, gets its trial at once; but once only, since one that takes streams and answers nothing
must not be tried more often for it. An answer that comes too late does the same, and again after
each half second: that service does answer, and may only have been short of a processor.

Three in a row, and three at the same time: of the questions that are under way the first three
wait for as long as the caller says, the others only until the first of them has waited for half of
it (or twice as long as answers take lately, if that is more). So a burst that meets a silent
service costs three calls their timeout. After a question without an answer the others are not
asked at all until there is one.

Not the rules' breaker: there is one gate, and what trips it is time lost, not a rate of failures.
"""

from __future__ import annotations

import threading
from typing import Optional

from ._answer import Ask
from ._rules import clamp

FAILURES_TO_SHUT = 3
LATE_TRIAL_EVERY_NS = 500_000_000


class Pass:
    """Permission to ask one question, and to wait `wait_ns` for its answer. Given up unsaid, it
    says nothing.
    """

    __slots__ = ("ask", "asked_at", "is_trial", "is_whole", "wait_ns", "was_told")

    def __init__(self, asked_at: int, wait_ns: int, is_whole: bool, is_trial: bool = False) -> None:
        self.asked_at = asked_at
        self.wait_ns = wait_ns
        self.is_whole = is_whole
        """It waits the whole timeout, so that its lateness says something of the service."""
        self.is_trial = is_trial
        self.was_told = False
        self.ask: Optional[Ask] = None


class Gate:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self.until: Optional[int] = None
        """Nothing is asked before. None: it is open."""
        self._is_trying = False
        self._failed_trials = 0
        self._was_heard = False
        self._late_trial_at = 0
        self._waiting: set[Pass] = set()
        """Those that wait the whole timeout."""
        self._answered_at = 0
        self._usual_ns = 0
        """How long answers take lately: what the longest took, and an eighth less each time."""

    def enter(self, now: int, timeout_ns: int) -> Optional[Pass]:
        """None: decide without asking."""
        with self._lock:
            if self.until is not None:
                if self._is_trying or now < self.until:
                    return None
                self._is_trying = True
                return Pass(now, timeout_ns, True, is_trial=True)
            if len(self._waiting) + self._failures < FAILURES_TO_SHUT:
                passed = Pass(now, timeout_ns, True)
                self._waiting.add(passed)
                return passed
            if self._failures:
                return None
            first = min(waiting.asked_at for waiting in self._waiting)
            most = min(max(timeout_ns // 2, 2 * self._usual_ns), timeout_ns)
            left = max(first, self._answered_at) + most - now
            return Pass(now, left, False) if left > 0 else None

    def answered(self, passed: Pass, now: int) -> bool:
        """True: it was shut and is open again. An answer to a question of before it was shut
        proves as much as a trial.
        """
        passed.was_told = True
        with self._lock:
            self._waiting.discard(passed)
            was_shut = self.until is not None
            self._failures = 0
            self.until = None
            self._is_trying = False
            self._answered_at = now
            self._usual_ns = max(now - passed.asked_at, self._usual_ns - self._usual_ns // 8)
        return was_shut

    def unanswered(self, passed: Pass, now: int, unit: float) -> bool:
        """True: it has just been shut."""
        passed.was_told = True
        with self._lock:
            self._waiting.discard(passed)
            if self.until is None:
                self._failures += 1
                if self._failures < FAILURES_TO_SHUT:
                    return False
                self._failed_trials, self._was_heard, self._late_trial_at = 0, False, now
            elif passed.is_trial and self._is_trying:
                self._failed_trials += 1
                self._late_trial_at = now + LATE_TRIAL_EVERY_NS
            else:
                return False
            self._is_trying = False
            self.until = now + clamp.shut(self._failed_trials, unit)
        return True

    def gave_up(self, passed: Pass, now: int) -> None:
        """The caller never got to know: the next one may try."""
        if passed.was_told:
            return
        with self._lock:
            self._waiting.discard(passed)
            if passed.is_trial and self.until is not None and self._is_trying:
                self._is_trying, self.until = False, now

    def heard(self, now: int) -> None:
        """The service is heard of: the next question may be the trial."""
        with self._lock:
            if self.until is not None and not self._is_trying and not self._was_heard:
                self.until, self._was_heard = min(now, self.until), True

    def heard_late(self, now: int) -> None:
        """An answer came for which nobody waited any longer."""
        with self._lock:
            if self.until is not None and not self._is_trying:
                self.until = min(max(now, self._late_trial_at), self.until)

    def shut_until(self, now: int) -> Optional[int]:
        """None: a question may be asked now, or is the trial."""
        until = self.until
        return until if until is not None and now < until and not self._is_trying else None
