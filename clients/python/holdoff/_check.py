"""Periodic health checks, for threads."""

from __future__ import annotations

import threading
from typing import Callable, Optional

from . import _clock
from ._checking import Check, Checked, Checking, Finding
from ._sync import Client
from .denial import Cancelled

PERIOD = 30.0
TIMEOUT = 2.0


def check(
    client: Client,
    dependency: str,
    function: Callable[[Check], Optional[bool]],
    *,
    period: float = PERIOD,
    timeout: float = TIMEOUT,
    runs: Optional[int] = None,
    told: Optional[Callable[[Finding], None]] = None,
    until: Optional[threading.Event] = None,
) -> Checked:
    """Runs `function` in this thread again and again, when the service says; without it, every
    `period`. It finds the dependency unhealthy where it returns False, raises, or takes longer
    than its `Check.timeout`. Returns after `runs` runs, or once `until` is set.
    """
    checking = Checking(client._core, dependency, period, timeout, runs, told)
    while until is None or not until.is_set():
        try:
            run = client._drive(checking.next_run(), until)
        except Cancelled:
            break
        if run is None:
            break
        begun = _clock.now_ns()
        try:
            healthy = function(run.check) is not False
        except Exception:
            healthy = False
        took = _clock.now_ns() - begun
        timed_out = took > run.timeout_ns
        checking.ran(run, healthy and not timed_out, timed_out, took)
    return checking.checked
