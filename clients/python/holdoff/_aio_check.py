"""Periodic health checks, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Callable, Optional

from . import _clock
from ._check import PERIOD, TIMEOUT
from ._checking import Check, Checked, Checking, Finding

if TYPE_CHECKING:
    from .aio import Client


async def check(
    client: Client,
    dependency: str,
    function: Callable[[Check], Awaitable[Optional[bool]]],
    *,
    period: float = PERIOD,
    timeout: float = TIMEOUT,
    runs: Optional[int] = None,
    told: Optional[Callable[[Finding], None]] = None,
) -> Checked:
    """Runs `function` again and again, when the service says; without it, every `period`. It finds
    the dependency unhealthy where it returns False, raises, or takes longer than its
    `Check.timeout`. Returns after `runs` runs; otherwise it is for a task that is cancelled.
    """
    checking = Checking(client._core, dependency, period, timeout, runs, told)
    while True:
        run = await client._drive(checking.next_run())
        if run is None:
            return checking.checked
        begun, timed_out = _clock.now_ns(), False
        try:
            seconds = run.check.timeout
            healthy = await asyncio.wait_for(function(run.check), seconds) is not False
        except asyncio.TimeoutError:
            healthy, timed_out = False, True
        except Exception:
            healthy = False
        checking.ran(run, healthy, timed_out, _clock.now_ns() - begun)
