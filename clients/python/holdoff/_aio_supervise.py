"""Restarts a task that failed, after a coordinated and jittered delay; for asyncio. See
`_supervise`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Callable, Optional, TypeVar

from . import _clock
from ._calling import Attempt
from ._chain import Chain
from ._supervise import HEALTHY_AFTER, given_up, proven_after, start_of, was_healthy
from .denial import Cancelled, Denied
from .outcome import Outcome

if TYPE_CHECKING:
    from .aio import Client

T = TypeVar("T")
log = logging.getLogger("holdoff")


async def supervise(
    client: Client,
    name: str,
    task: Callable[[Attempt], Awaitable[T]],
    *,
    healthy_after: float = HEALTHY_AFTER,
    stop_if: Optional[Callable[[Exception], bool]] = None,
) -> T:
    """Runs `task` until it returns, restarting it when it raises. Cancelled, it cancels it.

    `name` is that of a dependency: the task's own, or what it cannot do without. A run of
    `healthy_after` seconds ends a series of failures. An error for which `stop_if` is true is
    raised.
    """
    with Chain(client._core, name) as chain:
        last: Optional[Exception] = None
        while True:
            refused: Optional[Denied] = None
            try:
                permit = await client._drive(chain.permission())
            except Denied as why:
                refused = why
            if refused is not None:
                raise given_up(last, refused, chain)
            begun = _clock.now_ns()
            running = asyncio.ensure_future(task(start_of(permit, chain)))
            try:
                await asyncio.wait({running}, timeout=proven_after(permit, healthy_after))
                if not running.done():
                    permit.report(Outcome.success())
                value = await running
            except asyncio.CancelledError:
                running.cancel()
                permit.cancel()
                await asyncio.wait({running})
                raise
            except Cancelled:
                permit.cancel()
                raise
            except Exception as error:
                chain.fell(permit, was_healthy(begun, healthy_after))
                if stop_if is not None and stop_if(error):
                    raise
                log.warning("%s fell: %s; it is restarted", name, error)
                last = error
            else:
                permit.report(Outcome.success())
                return value
