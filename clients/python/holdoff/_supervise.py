"""Restarts a task that failed, after a coordinated and jittered delay; for threads.

A start is reported as a success once it has run for long enough, not when it ends: a permit does
not live for hours, and silence would count against the dependency. A task that falls after that
is told as a first attempt on the state last pushed.
"""

from __future__ import annotations

import logging
import threading
from typing import Callable, Optional, TypeVar

from . import _clock
from ._calling import Attempt, attempt_of
from ._chain import Chain
from ._permit import Permit
from ._rules.arithmetic import NS, to_seconds
from ._sync import Client
from .denial import Cancelled, Denied, attach
from .outcome import Outcome

T = TypeVar("T")
log = logging.getLogger("holdoff")

HEALTHY_AFTER = 60.0


def supervise(
    client: Client,
    name: str,
    task: Callable[[Attempt], T],
    *,
    healthy_after: float = HEALTHY_AFTER,
    stop_if: Optional[Callable[[Exception], bool]] = None,
    until: Optional[threading.Event] = None,
) -> T:
    """Runs `task` in this thread until it returns, restarting it when it raises.

    `name` is that of a dependency: the task's own, or what it cannot do without. A run of
    `healthy_after` seconds ends a series of failures. An error for which `stop_if` is true is
    raised. Once `until` is set, no restart is waited for any longer, and `Cancelled` is raised; a
    task that runs has to look at it itself.
    """
    with Chain(client._core, name) as chain:
        last: Optional[Exception] = None
        while True:
            refused: Optional[Denied] = None
            try:
                permit = client._drive(chain.permission(), until)
            except Denied as why:
                refused = why
            if refused is not None:
                raise given_up(last, refused, chain)
            attempt = start_of(permit, chain)
            start, begun = Start(permit, healthy_after), _clock.now_ns()
            try:
                value = task(attempt)
            except (Cancelled, BaseException) as error:
                unproven = start.ended()
                if not isinstance(error, Exception) or isinstance(error, Cancelled):
                    if unproven is not None:
                        unproven.cancel()
                    raise
                chain.fell(unproven, was_healthy(begun, healthy_after))
                if stop_if is not None and stop_if(error):
                    raise
                log.warning("%s fell: %s; it is restarted", name, error)
                last = error
            else:
                unproven = start.ended()
                if unproven is not None:
                    unproven.report(Outcome.success())
                return value
            if until is not None and until.is_set():
                raise Cancelled


class Start:
    """One run. It is proven after so long, by a timer, and then its permit is reported."""

    def __init__(self, permit: Permit, healthy_after: float) -> None:
        self._lock = threading.Lock()
        self._permit: Optional[Permit] = permit
        self._timer = threading.Timer(proven_after(permit, healthy_after), self._prove)
        self._timer.daemon = True
        self._timer.start()

    def ended(self) -> Optional[Permit]:
        """The permit, where it was not reported yet."""
        self._timer.cancel()
        with self._lock:
            permit, self._permit = self._permit, None
        return permit

    def _prove(self) -> None:
        permit = self.ended()
        if permit is not None:
            permit.report(Outcome.success())


def given_up(last: Optional[Exception], why: Denied, chain: Chain) -> Exception:
    """The last real error, where there was one. Only in tests does a supervisor give up."""
    if last is None:
        return why
    attach(last, why, chain.number - 1)
    return last


def start_of(permit: Permit, chain: Chain) -> Attempt:
    known = attempt_of(permit)
    return Attempt(chain.number, None, known.suggested_timeout, known.is_probe, known.is_local)


def proven_after(permit: Permit, healthy_after: float) -> float:
    """Well before the permit's life ends."""
    lives = permit.terms.lives_ns
    return healthy_after if lives is None else min(healthy_after, to_seconds(lives - lives // 10))


def was_healthy(begun: int, healthy_after: float) -> bool:
    return _clock.now_ns() - begun >= healthy_after * NS
