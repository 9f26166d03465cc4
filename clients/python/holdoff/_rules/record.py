"""One dependency as one process knows it: breaker, probe, budget, and what the service last said.

There is no calendar, no ramp, no rate and no evidence of instances: these plan the calls of
many. What is left of the service's rules is the page "local" of `docs/vectors.md`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Optional, Union

from ..denial import Reason
from ..outcome import Outcome, OutcomeKind
from . import backoff, own_words
from .arithmetic import NS, part, truncated
from .budget import Budget
from .detector import Detector
from .policy import Policy

PROBE_LEASE_NS = 5 * NS
PROBE_SUCCESSES = 2
OPEN_SPREAD_NS = 2 * NS
HEALTHY_RESET_NS = 60 * NS
CONFIRM_ABOVE_NS = NS
TOLD_MAX_NS = 300 * NS
BINDS_ALL = frozenset((Reason.BREAKER_OPEN, Reason.FORCED_OPEN, Reason.HELD, Reason.CALLER_FAULT))
_BAD = frozenset((OutcomeKind.FAILURE, OutcomeKind.TIMEOUT, OutcomeKind.NOT_SENT))


class Phase(enum.Enum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class LocalPermit:
    """What was granted here, and when. Its outcome counts once. `epoch` is this record's;
    `begun_in` is the one that the service had pushed when the attempt began, 0 where none was.
    """

    __slots__ = ("begun_in", "delay_ns", "epoch", "granted_at", "is_probe", "is_taken", "retry")

    def __init__(self, epoch: int, granted_at: int, delay_ns: int, retry: int, probe: bool) -> None:
        self.epoch = epoch
        self.granted_at = granted_at
        self.delay_ns = delay_ns
        self.retry = retry
        self.is_probe = probe
        self.is_taken = False
        self.begun_in = 0


class Unknown:
    """An attempt that the service let go; with attempt 2 it is counted here as a first one."""

    __slots__ = ("counts",)

    def __init__(self, counts: bool) -> None:
        self.counts = counts


@dataclass(frozen=True)
class Retry:
    """The attempt before, with the question about the next one."""

    attempt: int
    made_under: Union[LocalPermit, Unknown]
    outcome: Outcome
    pushback_ns: Optional[int]
    is_unsafe: bool


@dataclass(frozen=True)
class Granted:
    permit: LocalPermit
    delay_ns: int
    is_probe: bool
    confirm: bool


@dataclass(frozen=True)
class Refused:
    reason: Reason
    retry_after_ns: Optional[int] = None


class Record:
    """One dependency. `binds_retries_only` leaves out the breaker and what the service said."""

    def __init__(self) -> None:
        self.used = 0
        self.epoch = 1
        self._phase = Phase.CLOSED
        self._since = 0
        self._level = 0
        self._open_until = 0
        self._good = 0
        self._lease: Optional[tuple[LocalPermit, int]] = None
        self._detector = Detector()
        self._budget = Budget()
        self._told: Optional[tuple[Reason, int]] = None
        self._told_at = 0

    def told(self, reason: Reason, retry_after_ns: Optional[int], now: int) -> None:
        """The service denied so. What binds all is kept to its own end."""
        if reason in BINDS_ALL:
            lasts = TOLD_MAX_NS if retry_after_ns is None else min(retry_after_ns, TOLD_MAX_NS)
            self._told, self._told_at = (reason, now + lasts), now

    def let_go(self, now: int) -> None:
        """The service grants again."""
        self.let_go_at(None, now)

    def let_go_at(self, at: Optional[int], now: int) -> None:
        """The service let first attempts go at that time, `None`: right now. What it denied before
        is over, and so is what this process's own breaker, which knew less, made of it."""
        if at is None or at > self._told_at:
            self._told = None
        if self._phase is not Phase.CLOSED and (at is None or at > self._since):
            self._level = 0
            self._enter(Phase.CLOSED, now)

    def first(
        self, policy: Policy, left_ns: Optional[int], now: int, spread: float, retries_only: bool
    ) -> Union[Granted, Refused]:
        refused = self._heed(now, retries_only)
        if refused:
            return refused
        return self._decide(policy, None, left_ns, now, (0.0, spread), retries_only)

    def let_go_first(
        self, policy: Policy, left_ns: Optional[int], now: int, spread: float
    ) -> Union[Granted, Refused]:
        """As `first`, and nothing that the service has denied binds it."""
        return self._decide(policy, None, left_ns, now, (0.0, spread), False)

    def retry(
        self,
        policy: Policy,
        asked: Retry,
        left_ns: Optional[int],
        now: int,
        draws: tuple[float, float],
        retries_only: bool,
    ) -> Union[Granted, Refused]:
        """The outcome of the attempt before counts whatever the answer is."""
        self.take_previous(policy, asked, now, retries_only)
        refused = self._heed(now, retries_only)
        if refused:
            return refused
        why = own_words.refusal(asked.attempt, policy.max_attempts, asked.is_unsafe, asked.outcome)
        if why:
            return Refused(why)
        return self._decide(policy, asked, left_ns, now, draws, retries_only)

    def confirm(
        self,
        policy: Policy,
        permit: LocalPermit,
        left_ns: Optional[int],
        now: int,
        spread: float,
        retries_only: bool,
    ) -> Union[Granted, Refused]:
        """Asked again at the end of a delay. Denied, the permit is void and its token returns."""
        if permit.is_taken:
            return Refused(Reason.PERMIT_VOID)
        is_probe, refused = permit.is_probe, None
        if not self._holds_live_lease(permit, now) and not retries_only:
            is_probe, refused = self._breaker(policy, now, spread)
        if refused is None and left_ns is not None and policy.min_attempt_time_ns >= left_ns:
            refused = Refused(Reason.DEADLINE)
        if refused:
            permit.is_taken = True
            if permit.retry > 0:
                self._budget.refund(policy, permit.granted_at, now)
            return refused
        if is_probe and not self._holds_live_lease(permit, now):
            self._lend(permit, now)
        permit.epoch, permit.is_probe = self.epoch, is_probe
        return Granted(permit, 0, is_probe, False)

    def report(
        self, policy: Policy, permit: LocalPermit, outcome: Outcome, now: int, retries_only: bool
    ) -> None:
        """Once, however often it is said; an outcome of another epoch says nothing of this one."""
        if permit.is_taken:
            return
        permit.is_taken = True
        lease, was_live = self._lease, self._holds_live_lease(permit, now)
        if lease and lease[0] is permit:
            self._lease = None
        if retries_only or permit.epoch != self.epoch or (permit.is_probe and not was_live):
            return
        self._take(policy, outcome.kind, was_live, now)

    def take_previous(self, policy: Policy, asked: Retry, now: int, retries_only: bool) -> None:
        """The outcome that a question tells counts whatever the answer is."""
        before = asked.made_under
        if isinstance(before, LocalPermit):
            self.report(policy, before, asked.outcome, now, retries_only)
        elif before.counts:
            self._budget.deposit(policy, 1, now)
            if not retries_only:
                self._take(policy, asked.outcome.kind, False, now)

    def _take(self, policy: Policy, kind: OutcomeKind, had_lease: bool, now: int) -> None:
        if policy.breaker_off:
            return
        is_bad, is_good = kind in _BAD, kind is OutcomeKind.SUCCESS
        if had_lease and self._phase is Phase.HALF_OPEN:
            if is_bad:
                self._open(policy, now)
            elif is_good:
                self._good += 1
                if self._good >= PROBE_SUCCESSES:
                    self._enter(Phase.CLOSED, now)
        elif self._phase is Phase.CLOSED and (is_bad or is_good):
            self._weigh(policy, is_good, now)

    def _weigh(self, policy: Policy, is_good: bool, now: int) -> None:
        if self._detector.record(int(is_good), int(not is_good), now):
            if now - self._since >= HEALTHY_RESET_NS:
                self._level = 0
            self._open(policy, now)

    def _open(self, policy: Policy, now: int) -> None:
        period = float(policy.open_for_ns)
        for _ in range(min(self._level, 64)):
            period *= policy.open_multiplier
        self._enter(Phase.OPEN, now)
        self._open_until = now + min(truncated(period), policy.open_max_ns)
        self._level += 1

    def _enter(self, phase: Phase, now: int) -> None:
        self._phase, self._since = phase, now
        self.epoch += 1
        self._good = 0
        self._detector.clear()

    def _heed(self, now: int, retries_only: bool) -> Optional[Refused]:
        """What the service said last binds until its end."""
        if retries_only or self._told is None:
            return None
        reason, until = self._told
        if now < until:
            return Refused(reason, until - now)
        self._told = None
        return None

    def _breaker(self, policy: Policy, now: int, spread: float) -> tuple[bool, Optional[Refused]]:
        """Whether the attempt is a probe, and why it may not be made."""
        if policy.breaker_off or self._phase is Phase.CLOSED:
            return False, None
        if self._phase is Phase.OPEN and now < self._open_until:
            wait = self._open_until - now + part(OPEN_SPREAD_NS, spread)
            return False, Refused(Reason.BREAKER_OPEN, wait)
        if self._lease and now < self._lease[1]:
            wait = max(part(self._lease[1] - now + OPEN_SPREAD_NS, spread), 1_000_000)
            return False, Refused(Reason.PROBE_IN_PROGRESS, wait)
        return True, None

    def _decide(
        self,
        policy: Policy,
        asked: Optional[Retry],
        left_ns: Optional[int],
        now: int,
        draws: tuple[float, float],
        retries_only: bool,
    ) -> Union[Granted, Refused]:
        jitter, spread = draws
        is_probe, refused = (False, None) if retries_only else self._breaker(policy, now, spread)
        if refused:
            return refused
        pushback = (asked.pushback_ns if asked else None) or 0
        pushed = pushback + part(policy.pushback_spread_ns, spread)
        if pushback > policy.pushback_max_ns:
            return Refused(Reason.PUSHBACK_TOO_LONG, pushed)
        if is_probe and pushback:
            return Refused(Reason.HELD, pushed)
        retry = _retry_number(asked)
        delay = 0
        if asked and not is_probe:
            before = asked.made_under
            previous = before.delay_ns if isinstance(before, LocalPermit) else 0
            delay = backoff.delay(policy, retry, previous, jitter)
            if pushback and pushback >= delay:
                delay = pushed
        if left_ns is not None and delay + policy.min_attempt_time_ns >= left_ns:
            return Refused(Reason.DEADLINE)
        if asked:
            _, retries, allowed = self._budget.level(policy, now)
            if retries >= allowed:
                return Refused(Reason.BUDGET_EXHAUSTED)
            self._budget.withdraw(policy, now)
        else:
            self._budget.deposit(policy, 1, now)
        permit = LocalPermit(self.epoch, now, delay, retry, is_probe)
        if is_probe:
            self._lend(permit, now)
            permit.epoch = self.epoch
        return Granted(permit, delay, is_probe, delay > CONFIRM_ABOVE_NS)

    def _lend(self, permit: LocalPermit, now: int) -> None:
        if self._phase is Phase.OPEN:
            self._enter(Phase.HALF_OPEN, now)
        self._lease = (permit, now + PROBE_LEASE_NS)

    def _holds_live_lease(self, permit: LocalPermit, now: int) -> bool:
        lease = self._lease
        return lease is not None and lease[0] is permit and now < lease[1]


def _retry_number(asked: Optional[Retry]) -> int:
    """Of the attempt that is asked for; the first one is 0."""
    if asked is None:
        return 0
    if asked.pushback_ns is not None and asked.outcome.pushback_restarts_backoff:
        return 1
    before = asked.made_under
    if isinstance(before, LocalPermit):
        return before.retry + 1
    return max(asked.attempt - 2, 0) + 1
