"""Which endpoint is tried next, and when.

A fleet that loses its service together must not come back together: each return is drawn from a
range. It grows where the service is there but ill. Where nobody listens it does not: looking
costs nobody anything, and the fleet is back within the first range of a restart.
"""

from __future__ import annotations

import enum

from ._rules.arithmetic import NS

SPREAD_NS = 4_500_000_000
"""With its connecting and asking a client is back within 5 s of the service's return."""
SPREAD_MAX_NS = 30 * NS
SEARCH_AFTER_NS = NS


class End(enum.Enum):
    """How the time with one connection ended."""

    UNWANTED = enum.auto()
    """The client is closed."""
    BROKEN = enum.auto()
    BROKEN_UNHEARD = enum.auto()
    """Nothing was ever said on it."""
    SILENT = enum.auto()
    """The service has stopped to answer, and nothing was heard of it for a while."""
    UNHEARD = enum.auto()
    """It was looked for after that, and did not even take the stream."""
    UNIMPLEMENTED = enum.auto()
    """There is no such stream here."""
    UNSAID = enum.auto()
    """It ended before anything was said on it, and why was lost."""
    AGAIN = enum.auto()
    """It is time for another connection: a stream, or the preferred endpoint."""


class Course:
    def __init__(self, now: int) -> None:
        self.start = 0
        self.not_before = now
        self._failures = 0
        self._unary: set[int] = set()

    def is_unary(self, index: int) -> bool:
        return index in self._unary

    def note_unary(self, index: int) -> None:
        self._unary.add(index)

    def nothing_reachable(self, now: int, unit: float) -> None:
        self.start = self._failures = 0
        self._wait(now, unit)

    def ended(self, index: int, end: End, now: int, unit: float) -> None:
        if end is End.BROKEN:
            self.start = self._failures = 0
            self._wait(now, unit)
        elif end is End.BROKEN_UNHEARD:
            self.start = index + 1
            self._wait(now, unit)
        elif end is End.SILENT:  # Another endpoint may answer.
            self.start, self.not_before = index + 1, now
        elif end is End.UNHEARD:
            self.start, self.not_before = index + 1, now + search_after(unit)
        elif end is End.AGAIN:
            self._unary.discard(index)
            self.start = 0

    def _wait(self, now: int, unit: float) -> None:
        spread = min(SPREAD_NS << min(self._failures, 3), SPREAD_MAX_NS)
        self._failures += 1
        self.not_before = now + int(spread * unit)


def search_after(unit: float) -> int:
    """For how long a silent service is left alone before a stream is tried: 1 to 4.5 s."""
    return SEARCH_AFTER_NS + int((SPREAD_NS - SEARCH_AFTER_NS) * unit)
