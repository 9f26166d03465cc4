"""Permission for one attempt: ask, then say how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from . import _clock
from ._core import OnState
from ._flow import Flow, Sleep
from ._previous import tell
from ._rules import clamp
from ._rules.arithmetic import NS, to_seconds
from ._rules.record import Granted, LocalPermit
from ._wire import FleetGrant
from .denial import Denied, DeniedBy, Reason
from .outcome import Outcome, OutcomeKind

if TYPE_CHECKING:
    from ._asking import Asking

ROUNDS_MAX = 100
LOCAL_LIFE_NS = 24 * 3600 * NS
LOCAL_LEASE_NS = 5 * NS


class Terms:
    """What was granted, by whomever. It lives from the end of its delay; None: without end."""

    __slots__ = (
        "attempt_timeout_ns",
        "confirm",
        "delay_ns",
        "epoch",
        "is_probe",
        "lives_ns",
        "made",
    )

    def __init__(self, made: Any) -> None:
        self.made = made
        self.delay_ns = 0
        self.lives_ns: Optional[int] = None
        self.is_probe = False
        self.confirm = False
        self.attempt_timeout_ns: Optional[int] = None
        self.epoch: Optional[int] = None  # In which the service granted it.

    @classmethod
    def of_fleet(cls, granted: FleetGrant) -> Terms:
        terms = cls(granted.permit)
        terms.delay_ns, terms.lives_ns = granted.delay_ns, granted.lives_ns
        terms.is_probe, terms.confirm = granted.is_probe, granted.confirm
        terms.attempt_timeout_ns, terms.epoch = granted.attempt_timeout_ns, granted.epoch
        return terms

    @classmethod
    def of_local(cls, granted: Granted) -> Terms:
        terms = cls(granted.permit)
        terms.delay_ns, terms.is_probe = granted.delay_ns, granted.is_probe
        terms.confirm = granted.confirm
        terms.lives_ns = LOCAL_LEASE_NS if granted.is_probe else LOCAL_LIFE_NS
        return terms

    def less(self, passed_ns: int) -> Terms:
        """So much of the delay has passed already."""
        self.delay_ns = max(self.delay_ns - passed_ns, 0)
        return self


class Permit:
    """Without input and output; the fronts' permits wrap it. `made` is None once it is reported."""

    __slots__ = ("asked_at", "asking", "made", "terms", "usable_at")

    def __init__(self, asking: Asking, terms: Terms, asked_at: int) -> None:
        self.asking = asking
        self.terms = terms
        self.made = terms.made
        # Before the question was sent, so that a lease never seems longer than it is.
        self.asked_at = asked_at
        self.usable_at = asked_at
        if terms.delay_ns:
            self.usable_at = _clock.now_ns() + min(terms.delay_ns, clamp.DELAY_MAX_NS)

    @classmethod
    def fitting(cls, asking: Asking, terms: Terms, asked_at: int) -> Permit:
        """A delay that does not fit the deadline is not shortened: the permit goes back."""
        permit = cls(asking, terms, asked_at)
        permit._fit(terms.delay_ns)
        permit._begins()
        return permit

    @property
    def attempt(self) -> int:
        return self.asking.attempt

    @property
    def is_local(self) -> bool:
        return isinstance(self.made, LocalPermit)

    @property
    def is_plain(self) -> bool:
        """A first attempt made on pushed state: the way without a hop."""
        return isinstance(self.made, OnState) and self.asking.attempt == 1

    def delay(self) -> int:
        """From now, in ns."""
        return max(self.usable_at - _clock.now_ns(), 0)

    def limit(self) -> Optional[int]:
        """How long the attempt may take from now, in ns: to the caller's deadline and limit, and
        for a probe to a margin before its lease ends. None: nothing limits it.
        """
        asking, terms = self.asking, self.terms
        own = asking.question.attempt_timeout_ns
        if asking.deadline is None and own is None and not terms.is_probe:
            return None
        limits = [own, asking.time_left()]
        if terms.is_probe and terms.lives_ns is not None:
            ends = self.asked_at + clamp.use_of_lease(terms.lives_ns)
            limits.append(max(ends - _clock.now_ns(), 0))
        return min((limit for limit in limits if limit is not None), default=None)

    def wait(self) -> Flow[Permit]:
        """Waits for the delay, and makes sure that the permit still holds then: drops it as soon
        as the service pushes that the breaker has tripped, and asks once more where the grant
        said so and no valid state is known. Raises `Denied`; the permit is then given back.
        """
        if self.usable_at == self.asked_at and isinstance(self.made, OnState):
            return self
        try:
            return (yield from self._wait())
        except BaseException:
            self.cancel()
            raise

    def succeeded(self, latency_ns: int) -> None:
        """As `report`, without an outcome where the end is only counted."""
        made = self.made
        if isinstance(made, OnState):
            self.made, core = None, self.asking.core
            core.count_success(self.asking.question.dependency, made, latency_ns)
        else:
            self.report(Outcome(OutcomeKind.SUCCESS, to_seconds(latency_ns)))

    def report(self, outcome: Outcome) -> None:
        """The call is over with it. Only the first report counts."""
        made, self.made = self.made, None
        if made is None:
            return
        core, dependency = self.asking.core, self.asking.question.dependency
        if isinstance(made, OnState):
            core.count_if_lost(dependency, outcome.kind)
        tell(core, dependency, made, outcome)

    def cancel(self) -> None:
        self.report(Outcome.cancelled())

    def collected(self) -> None:
        """Nobody holds it any more. Takes no lock, since a collector may run anywhere."""
        made, self.made = self.made, None
        link = self.asking.core.link
        if made is None or link is None:
            return
        if isinstance(made, bytes):
            link.reports.drop(made)

    def next(self, outcome: Outcome) -> Asking:
        """The question about the next attempt; the outcome goes with it."""
        made, self.made = self.made, None
        if made is None:
            raise Denied(DeniedBy.CALLER, Reason.PERMIT_VOID, "it was reported already")
        return self.asking.next(made, outcome)

    def _wait(self) -> Flow[Permit]:
        for _ in range(ROUNDS_MAX):
            yield from self._sleep()
            self._fit(0)
            if self._is_over():
                again = self.asking
                self.cancel()
                permit = yield from again.ask()
                return (yield from permit.wait())
            if not self.terms.confirm or self._is_known_to_hold():
                return self._begins()
            yield from self._confirm()
            if not self.terms.confirm and self.delay() == 0:
                return self._begins()
        detail = "the service went on to ask for confirmations"
        raise Denied(DeniedBy.CALLER, Reason.UNREADABLE, detail)

    def _begins(self) -> Permit:
        """The attempt is made now, as far as is known here: what was decided locally belongs to
        the epoch that the service has pushed by now.
        """
        if isinstance(self.made, LocalPermit):
            heard = self.asking.core.kept(self.asking.question.dependency)
            self.made.begun_in = heard.epoch if heard else 0
        return self

    def _sleep(self) -> Flow[None]:
        epoch, pushed = self.terms.epoch, self.asking.core.pushed
        while True:
            left = self.delay()
            if left == 0:
                return
            denied = self._dropped()
            if denied is not None:
                raise denied
            if epoch is None:
                yield Sleep(to_seconds(left))
            else:
                yield Sleep(to_seconds(left), pushed, lambda: self._dropped() is not None)

    def _dropped(self) -> Optional[Denied]:
        epoch = self.terms.epoch
        heard = self.asking.core.pushed.get(self.asking.question.dependency)
        if heard is None or epoch is None:
            return None
        return heard.drops(epoch, self.attempt, _clock.now_ns())

    def _is_known_to_hold(self) -> bool:
        """What the service pushes stands for a confirmation."""
        epoch = self.terms.epoch
        heard = self.asking.core.pushed.get(self.asking.question.dependency)
        if heard is None or epoch is None:
            return False
        return heard.stands_by(epoch, _clock.now_ns())

    def _confirm(self) -> Flow[None]:
        self.terms.confirm = False
        if isinstance(self.made, LocalPermit):
            self._heed_pushed()
        asked_at = _clock.now_ns()
        try:
            terms = yield from self.asking.confirm(self.made)
        except Denied as denied:
            # A denied confirmation has made the permit void; one that was not decided has left
            # it to be given back.
            if denied.reason not in (Reason.NO_DECISION, Reason.UNREADABLE):
                self.made = None
            raise
        if terms is None:
            self._heed_pushed()
            return
        before = self.terms
        if terms.made != b"":
            self.made = terms.made
        self.asked_at = asked_at
        self.usable_at = _clock.now_ns() + min(terms.delay_ns, clamp.DELAY_MAX_NS)
        terms.lives_ns = terms.lives_ns or before.lives_ns
        terms.epoch = before.epoch if terms.epoch is None else terms.epoch
        terms.attempt_timeout_ns = terms.attempt_timeout_ns or before.attempt_timeout_ns
        terms.confirm = terms.confirm and terms.delay_ns > 0
        self.terms = terms
        self._fit(terms.delay_ns)

    def _heed_pushed(self) -> None:
        """A confirmation that nobody answers: what is pushed may say no, but not where it is
        older than the grant.
        """
        heard = self.asking.core.pushed.get(self.asking.question.dependency)
        if heard is not None:
            since = self.terms.epoch or 0
            denied = heard.refuses_alone(self.attempt, since, _clock.now_ns())
            if denied is not None:
                raise denied

    def _fit(self, delay_ns: int) -> None:
        left = self.asking.time_left()
        if clamp.wait(delay_ns, left) is None:
            self.cancel()
            detail = f"it would begin in {to_seconds(delay_ns):.3f} s, and "
            detail += f"{to_seconds(left or 0):.3f} s are left"
            raise Denied(DeniedBy.CALLER, Reason.DEADLINE, detail)

    def _is_over(self) -> bool:
        lives = self.terms.lives_ns
        return lives is not None and _clock.now_ns() - self.usable_at >= lives
