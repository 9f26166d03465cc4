"""What a client counts, and warnings that do not flood a log."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from . import _clock
from ._rules.arithmetic import NS

_WARN_EVERY_NS = 60 * NS


@dataclass
class Counters:
    """What a client has done since it was made.

    Plain integers: under threads a count may be lost now and then, which people who look at them
    do not mind, and no call pays for a lock.
    """

    asked: int = 0
    """Questions put to the connection, whether it stood or not."""
    answered: int = 0
    """Questions that the service decided, yes or no."""
    no_decision: int = 0
    """Questions that it did not decide: late, lost, failed or unreadable."""
    pushed_grants: int = 0
    """First attempts made on pushed state, without a question."""
    pushed_denials: int = 0
    """First attempts refused on pushed state, without a question."""
    local_grants: int = 0
    """Attempts granted without the service."""
    local_denials: int = 0
    """Attempts denied without the service."""
    reported: int = 0
    """Outcomes that the service took; a tally of many counts as one."""
    reports_dropped: int = 0
    """Outcomes lost since the queue was full or the service was away twice."""
    connections: int = 0
    """Streams and channels opened."""

    def copy(self) -> Counters:
        return dataclasses.replace(self)


class Seldom:
    """Lets one warning a minute through."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: int | None = None

    def is_due(self) -> bool:
        now = _clock.now_ns()
        if self._last is not None and now - self._last < _WARN_EVERY_NS:
            return False
        self._last = now
        return True
