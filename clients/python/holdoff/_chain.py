"""When a supervised task may be started again.

A restart is a retry: it is asked for like one, with the attempts counted since the task was last
healthy, so that breaker, budget and calendar hold for a fleet of tasks that fall together. Such a
chain ends where the service allows no further attempt, and where a start was reported as a
success before it fell. The supervisor counts on: while its own count is higher than that of the
chain, its own delay is a floor under the granted one.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Optional

from . import _entropy
from ._asking import Asking
from ._core import Core, Mode, OnState
from ._flow import Flow, Sleep
from ._permit import Permit
from ._question import UNLIMITED, Question
from ._rules import backoff, clamp
from ._rules.arithmetic import from_seconds, to_seconds
from ._rules.policy import Policy
from .denial import Denied, Reason
from .outcome import Outcome

log = logging.getLogger("holdoff")

FIRST_CEILING_NS = 100_000_000


class Chain:
    def __init__(self, core: Core, name: str) -> None:
        self._core = core
        core.check_name(name)
        self._question = Question(name, {"idempotent": True, "max_attempts": UNLIMITED})
        self._asking = self._first()
        self._failures = 0

    @property
    def number(self) -> int:
        """Of the start that is to come, since the task was last healthy."""
        return self._failures + 1

    def fell(self, permit: Optional[Permit], was_healthy: bool) -> None:
        """`permit` is None where the start was reported already."""
        self._failures = 1 if was_healthy else self._failures + 1
        if permit is not None and permit.made is not None:
            self._asking = permit.next(Outcome.failure())
            return
        heard = self._core.kept(self._question.dependency)
        on = OnState(heard.epoch, heard.slow_after_ns) if heard else OnState(0, 0)
        self._asking = self._first().next(on, Outcome.failure())

    def __enter__(self) -> Chain:
        return self

    def __exit__(self, *_: object) -> None:
        """Nobody asks for a restart any more. The last failure is told all the same."""
        self._asking.give_up()

    def permission(self) -> Flow[Permit]:
        """Raises `Denied` in tests alone: a supervisor does not give up."""
        try:
            return (yield from self._permission())
        except BaseException:
            self._asking.give_up()
            raise

    def _permission(self) -> Flow[Permit]:
        is_waiting = self._core.mode is not Mode.TESTING
        is_owed = is_waiting and self._asking.attempt <= self._failures
        while True:
            was_granted = False
            try:
                permit = yield from self._asking.ask()
                was_granted = True
                if is_owed:
                    yield from self._pay(permit)
                return (yield from permit.wait())
            except Denied as denied:
                if not is_waiting:
                    raise
                log.debug("%s is not restarted yet: %s", self._question.dependency, denied)
                if denied.retry_after is None:
                    wait, is_owed = self._own_delay(), False
                else:
                    wait = max(from_seconds(denied.retry_after), clamp.ASK_AGAIN_MIN_NS)
                may_be_granted_later = denied.retry_after is not None or denied.reason in (
                    Reason.BUDGET_EXHAUSTED,
                    Reason.NO_DECISION,
                )
            yield Sleep(to_seconds(min(wait, clamp.DELAY_MAX_NS)))
            # A grant that was given back would be granted again, void.
            if was_granted or not may_be_granted_later:
                self._asking.give_up()
                self._asking = self._first()

    def _pay(self, permit: Permit) -> Flow[None]:
        try:
            yield Sleep(to_seconds(self._own_delay()))
        except BaseException:
            permit.cancel()
            raise

    def _first(self) -> Asking:
        return Asking(self._core, self._question)

    def _own_delay(self) -> int:
        heard = self._core.kept(self._question.dependency)
        policy = heard.policy if heard else self._core.local.own
        return own_delay(policy, self._failures, _entropy.unit())


def own_delay(policy: Policy, failures: int, unit: float) -> int:
    """Uniform below the policy's ceiling, which is at least 100 ms: a task must not spin."""
    policy = replace(
        policy,
        jitter="full",
        min_delay_ns=0,
        initial_delay_ns=max(policy.initial_delay_ns, FIRST_CEILING_NS),
        max_delay_ns=max(policy.max_delay_ns, FIRST_CEILING_NS),
    )
    return min(backoff.delay(policy, failures, 0, unit), clamp.DELAY_MAX_NS)
