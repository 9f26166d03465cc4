"""Tells a failing dependency from a healthy one by a cumulative sum of evidence (Page's CUSUM).

    failure: sum += ln(p1 / p0)          success: sum -= ln((1 - p0) / (1 - p1)), at least 0
    trip:    sum >= 13.3
    p0 = clamp(2 * baseline, 2 %, 20 %)  p1 = clamp(5 * p0, 50 %, 90 %)

Five straight failures trip it, half failures after about eleven calls. It needs no minimum of
calls: the sum is the volume. Old evidence decays by half in 30 s. The baseline is learned only
from stretches that ended healthy, so that an outage never teaches that failing is normal.
"""

from __future__ import annotations

import math

from .arithmetic import NS

THRESHOLD = 13.3
HALF_LIFE_NS = 30 * NS
LESSON = 256
LEARNING = 64
STRETCH_MAX = 65_535


class Detector:
    """The evidence against one dependency."""

    __slots__ = ("_at", "_baseline", "_calls", "_failures", "sum")

    def __init__(self) -> None:
        self.sum = 0.0
        self._baseline = 0.01
        self._at = 0
        self._calls = 0
        self._failures = 0

    def record(self, successes: int, failures: int, now: int) -> bool:
        """Adds outcomes that ended now. True: it trips."""
        if self.sum > 0.0 or failures:
            up, down = self._weights()
            half_lives = max(now - self._at, 0) / HALF_LIFE_NS
            decayed = self.sum * 2.0 ** -min(half_lives, 1_000.0)
            self.sum = max(0.0, decayed + failures * up - successes * down)
        self._at = max(self._at, now)
        self._learn(successes, failures)
        return self.sum >= THRESHOLD

    def clear(self) -> None:
        """Forgets the evidence and keeps the baseline."""
        self.sum, self._calls, self._failures = 0.0, 0, 0

    def _weights(self) -> tuple[float, float]:
        p0 = min(max(2.0 * self._baseline, 0.02), 0.2)
        p1 = min(max(5.0 * p0, 0.5), 0.9)
        return math.log(p1 / p0), math.log((1.0 - p0) / (1.0 - p1))

    def _learn(self, successes: int, failures: int) -> None:
        calls = self._calls + successes + failures
        failed = self._failures + failures
        if calls > STRETCH_MAX:
            calls, failed = STRETCH_MAX, failed * STRETCH_MAX // calls
        self._calls, self._failures = calls, failed
        if self.sum > 0.0 or calls < LESSON:
            return
        share = min(failed / calls, 1.0)
        self._baseline += (share - self._baseline) / LEARNING * min(LEARNING, calls // LESSON)
        self._calls, self._failures = 0, 0
