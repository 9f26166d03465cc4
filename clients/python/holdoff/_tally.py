"""Attempts that were made on pushed state, counted by dependency and epoch, until the next
report takes them along.

An attempt is counted when it ends: its start and its end together. Counted when it starts, one
whose failure is told with a question, which counts the start again, would deposit twice in the
retry budget, just when everything fails.

Starts counted before the stream began that takes them along are told as none: a fleet that was
alone for a while had its own budgets of them, and told all at once they would be a lump of
retries just when the service is back.
"""

from __future__ import annotations

from typing import Any, Optional

from . import _wire
from ._proto import coordinator_pb2 as pb
from ._rules.policy import DAY_NS
from .outcome import OutcomeKind

COUNTERS_MAX = 10_000
_U32_MAX = 2**32 - 1

_ENDS = ("successes", "failures", "timeouts", "throttled", "rejected", "ignored")
_SLOW, _LATENCY_SUM = len(_ENDS), len(_ENDS) + 1
_BEFORE = _LATENCY_SUM + 1  # Of the ends, those of before the present stream began.
_COLUMNS = {
    OutcomeKind.SUCCESS: 0,
    OutcomeKind.FAILURE: 1,
    # The dependency could not be reached: for the breaker a failure like any.
    OutcomeKind.NOT_SENT: 1,
    OutcomeKind.TIMEOUT: 2,
    OutcomeKind.THROTTLED: 3,
    OutcomeKind.REJECTED: 4,
    OutcomeKind.IGNORED: 5,
    OutcomeKind.CANCELLED: 5,
}


class Tallies:
    """Plain integers until they are sent. Not safe for threads by itself."""

    __slots__ = ("_counters",)

    def __init__(self) -> None:
        self._counters: dict[tuple[str, int], list[int]] = {}

    def __len__(self) -> int:
        return len(self._counters)

    def note(
        self,
        dependency: str,
        epoch: int,
        kind: OutcomeKind,
        latency_ns: Optional[int],
        slow_after_ns: int,
    ) -> bool:
        """Counts an attempt that ended. False: there is no room."""
        key = (dependency, epoch)
        counter = self._counters.get(key)
        if counter is None:
            if len(self._counters) >= COUNTERS_MAX:
                return False
            counter = self._counters[key] = [0] * (_BEFORE + 1)
        counter[_COLUMNS[kind]] += 1
        if latency_ns is not None:
            if 0 < slow_after_ns <= latency_ns:
                counter[_SLOW] += 1
            counter[_LATENCY_SUM] += latency_ns if latency_ns < DAY_NS else DAY_NS
        return True

    def forget_starts(self) -> None:
        """A stream begins: what was counted before it deposits nothing."""
        for counter in self._counters.values():
            counter[_BEFORE] = sum(counter[:_SLOW])

    def take(self, count: int) -> list[Any]:
        """So many at most, as they go on the wire."""
        entries = []
        for _ in range(min(count, len(self._counters))):
            (dependency, epoch), counter = self._counters.popitem()
            entries.append(_entry(dependency, epoch, counter))
        return entries


def _entry(dependency: str, epoch: int, counter: list[int]) -> Any:
    entry = pb.ReportEntry()
    tally = entry.tally
    tally.dependency, tally.epoch = dependency, epoch
    tally.first_attempts = min(sum(counter[:_SLOW]) - counter[_BEFORE], _U32_MAX)
    for name, count in zip(_ENDS, counter):
        setattr(tally, name, min(count, _U32_MAX))
    tally.slow = min(counter[_SLOW], _U32_MAX)
    _wire.write_duration(tally.latency_sum, counter[_LATENCY_SUM])
    return entry
