"""The only place where clocks are read.

One clock for all that is decided: it only rises, and where the system has one it runs on while
the machine is suspended, so that a permit does not look younger than it is after a resume. The
wall clock is for numbering reports alone.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Callable


def _best() -> Callable[[], int]:
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    if boottime is not None:
        try:
            time.clock_gettime_ns(boottime)
        except OSError:
            pass
        else:
            return partial(time.clock_gettime_ns, boottime)
    return time.monotonic_ns


now_ns: Callable[[], int] = _best()
"""Nanoseconds from an arbitrary origin."""


def wall_micros() -> int:
    """Microseconds since 1970: a number that rises over restarts of a process."""
    return time.time_ns() // 1_000
