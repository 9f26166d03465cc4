"""Reading `google.protobuf.Duration`, strictly: some messages of that type are no duration."""

from __future__ import annotations

from typing import Any, Optional

from .arithmetic import MAX_NS, NS

LONGEST_SECONDS = 315_576_000_000


def read_duration(duration: Any) -> tuple[bool, Optional[int]]:
    """Whether it can be read, and how long it is in ns; absent is readable and None."""
    if duration is None:
        return True, None
    seconds, nanos = duration.seconds, duration.nanos
    if not (0 <= seconds <= LONGEST_SECONDS and 0 <= nanos < NS):
        return False, None
    return True, min(seconds * NS + nanos, MAX_NS)
