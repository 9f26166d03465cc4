"""One question about one attempt: what needs no service, then what the service has pushed, then
the service, then what this process knows itself.

The service is not asked what follows from the caller's own words: its limit of attempts, its
deadline, an unsafe call that may have been executed, an outcome that a retry cannot mend. So a
wrong answer cannot make a caller do harm, either.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Callable, Optional

from . import _clock, _entropy, _wire
from ._answer import Lack, NoAnswer
from ._core import Core, Mode, OnState
from ._flow import AskFleet, Flow, Sleep
from ._local import retry_of
from ._permit import Permit, Terms
from ._previous import Made, Previous
from ._proto import coordinator_pb2 as pb
from ._pushed import GO, REFUSE
from ._question import UNSAFE, Question
from ._rules import clamp, own_words
from ._rules.arithmetic import to_seconds
from ._rules.record import Granted, LocalPermit, Retry
from .denial import Denied, DeniedBy, Reason
from .outcome import Outcome

if TYPE_CHECKING:
    from ._link import Link
    from ._pushed import Heard

log = logging.getLogger("holdoff")


class Asking:
    """A question that can be asked again."""

    __slots__ = ("_call_id", "attempt", "core", "deadline", "previous", "question")

    def __init__(self, core: Core, question: Question) -> None:
        core.check_name(question.dependency)
        self.core = core
        self.question = question
        left = question.deadline_ns
        self.deadline = None if left is None else _clock.now_ns() + left
        self.attempt = 1
        self.previous: Optional[Previous] = None
        self._call_id = question.call_id

    def next(self, made: Made, outcome: Outcome) -> Asking:
        """About the attempt after this one, which ended so."""
        asking = self._copy()
        asking.attempt = self.attempt + 1
        asking.previous = Previous(made, outcome)
        return asking

    def rename(self) -> None:
        """As a call of its own, unless the caller has named it."""
        self._call_id = self.question.call_id

    def time_left(self) -> Optional[int]:
        """In ns. None: there is no deadline."""
        return None if self.deadline is None else max(self.deadline - _clock.now_ns(), 0)

    def refused_by_own_words(self) -> Optional[Denied]:
        """What needs nobody's answer."""
        question = self.question
        reason = own_words.settled(
            self.attempt,
            question.max_attempts,
            question.safety == UNSAFE,
            self.previous.outcome if self.previous else None,
            self.time_left(),
        )
        return None if reason is None else Denied(DeniedBy.CALLER, reason)

    def at_once(self) -> Optional[Permit]:
        """Of a first attempt that needs no question: the pushed state lets it go, or refuses it.
        None: ask. Raises `Denied`.
        """
        core = self.core
        heard = core.pushed.get(self.question.dependency)
        if heard is None or self.attempt > 1 or core.link is None:
            return None
        now = _clock.now_ns()
        heard.used = now
        word = heard.word(now)
        if word == GO:
            if not core.link.is_asked() and core.on_no_decision == "local":
                return self._let_go_alone(core.link, heard, now)
            core.counters.pushed_grants += 1
            if heard.terms is None:
                heard.terms = Terms(OnState(heard.epoch, heard.slow_after_ns))
            return Permit(self, heard.terms, now)
        if word == REFUSE:
            core.counters.pushed_denials += 1
            raise heard.denied(now)
        return None

    def _let_go_alone(self, link: Link, heard: Heard, now: int) -> Permit:
        """The service is not at hand any more: this process decides about what fails, so that all
        that ends is to count here, and its record says whether the attempt is made. What the
        service denied besides does not bind it, as it would not with the service at hand. No
        question looks for the service where all goes well.
        """
        link.wish()
        local, dependency = self.core.local, self.question.dependency
        granted = self._counted(lambda: local.let_go_first(dependency, heard, self.time_left()))
        return Permit.fitting(self, Terms.of_local(granted), now)

    def ask(self) -> Flow[Permit]:
        """Raises `Denied`. Whoever does not ask again then says so with `give_up`."""
        self._heed_own_words()
        permit = self.at_once()
        if permit is None:
            held_ns = yield from self._hold_back()
            if held_ns:
                self._heed_own_words()
            permit = yield from self._ask(held_ns)
        return permit

    def ask_once(self) -> Flow[Permit]:
        """As `ask`, and gives up where it is denied."""
        try:
            return (yield from self.ask())
        except BaseException:
            self.give_up()
            raise

    def give_up(self) -> None:
        """Nobody asks again. How the attempt before ended was seen all the same, and is told
        unless a question has.
        """
        if self.previous is not None:
            self.previous.give_up(self.core, self.question.dependency)

    def _heed_own_words(self) -> None:
        denied = self.refused_by_own_words()
        if denied is not None:
            raise denied

    def _hold_back(self) -> Flow[int]:
        """A huge fleet that fails at one instant does not ask at one instant: the first question
        after a failure on pushed state is held back. For how long it was, in ns; the delay that
        is granted began with the failure. None is held back while the service is known to be
        away: nobody waits for whom nobody asks. Raises `Denied`, where the service has pushed
        meanwhile that nobody is let through.
        """
        core, previous, dependency = self.core, self.previous, self.question.dependency
        heard = core.pushed.get(dependency)
        if previous is None or heard is None or core.link is None:
            return 0
        clients = heard.known_clients
        if clients <= clamp.CLIENTS_AT_ONCE or not core.link.is_asked():
            return 0
        epoch = previous.epoch_to_hold_back()
        if epoch is None:
            return 0

        def refused() -> Optional[Denied]:
            heard = core.pushed.get(dependency)
            return heard.refuses_since(epoch, _clock.now_ns()) if heard else None

        begun = _clock.now_ns()
        until = begun + clamp.held_back(clients, self.time_left(), _entropy.unit())
        while True:
            denied = refused()
            if denied is not None:
                core.counters.pushed_denials += 1
                previous.is_late = True
                raise denied
            now = _clock.now_ns()
            if now >= until:
                return now - begun
            yield Sleep(to_seconds(until - now), core.pushed, lambda: refused() is not None)

    def _ask(self, held_ns: int) -> Flow[Permit]:
        asked_at = _clock.now_ns()
        dependency = self.question.dependency
        answer = yield from self._ask_fleet(None)
        if isinstance(answer, _wire.FleetGrant):
            self._told()
            self.core.local.let_go(dependency)
            return Permit.fitting(self, Terms.of_fleet(answer).less(held_ns), asked_at)
        if isinstance(answer, _wire.FleetDenial):
            self._told()
            raise self._denied(answer)
        if self.previous is not None:
            if answer.may_have_arrived:
                self.previous.may_be_told()
            # It counts here with the decision.
            self.previous.tell(self.core, dependency)
        if answer.code == _NO_DELAY and self.attempt > 1:
            raise Denied(DeniedBy.FLEET, Reason.UNREADABLE, answer.text)
        self._heed_pushed()
        return Permit.fitting(self, self._decide_here().less(held_ns), asked_at)

    def confirm(self, made: Made) -> Flow[Optional[Terms]]:
        """Whether a granted attempt may still be made, just before it is. None: nobody says that
        it may not. Raises `Denied`.
        """
        core, dependency = self.core, self.question.dependency
        if isinstance(made, LocalPermit):
            if core.on_no_decision == "deny" and core.mode is Mode.FLEET:
                raise _undecided()
            kept = core.kept(dependency)
            return Terms.of_local(core.local.confirm(dependency, kept, made, self.time_left()))
        if isinstance(made, OnState):
            return None  # It was granted no delay, so that there is nothing to confirm.
        answer = yield from self._ask_fleet(made)
        if isinstance(answer, _wire.FleetGrant):
            return Terms.of_fleet(answer)
        if isinstance(answer, _wire.FleetDenial):
            raise self._denied(answer)
        if answer.code == _NO_DELAY:
            raise Denied(DeniedBy.FLEET, Reason.UNREADABLE, answer.text)
        if core.on_no_decision == "deny":
            raise _undecided()
        return None

    def _ask_fleet(self, confirm: Optional[bytes]) -> Flow[Any]:
        """A grant, a denial, or why there is neither."""
        core = self.core
        if core.link is None:
            return NoAnswer(Lack.UNASKED)
        reply = yield AskFleet(self._request(confirm))
        answer: Any = reply
        if not isinstance(reply, NoAnswer):
            try:
                answer = _wire.read_answer(reply)
            except _wire.Unreadable as why:
                answer = NoAnswer(Lack.UNREADABLE, _NO_DELAY if why.no_delay else 0, str(why))
        if isinstance(answer, NoAnswer):
            core.counters.no_decision += 1
            log.debug("no decision about %s: %s", self.question.dependency, answer)
        else:
            core.counters.answered += 1
        return answer

    def _request(self, confirm: Optional[bytes]) -> Any:
        question = self.question
        request: Any = pb.AcquireRequest(
            dependency=question.dependency,
            attempt=self.attempt,
            cost=question.cost,
            call_id=self.call_id,
        )
        request.safety, request.priority = question.safety, question.priority
        left = self.time_left()
        if left is not None:
            _wire.write_duration(request.time_left, left)
        if confirm is not None:
            request.confirm = confirm
        elif self.previous is not None:
            self.previous.on_the_wire(request.previous)
        return request

    @property
    def call_id(self) -> str:
        """The same for all attempts of a call; most calls on pushed state never need it."""
        if self._call_id is None:
            self._call_id = _entropy.name()
        return self._call_id

    def _heed_pushed(self) -> None:
        """The service gives no answer, and does not need to where what it has pushed still
        stands. More attempts than the policy allows are refused for that, since it is final.
        """
        core, dependency = self.core, self.question.dependency
        heard = None if core.link is None else core.kept(dependency)
        if heard is None:
            return
        allowed = heard.policy.max_attempts
        denied = heard.refuses_alone(self.attempt, 0, _clock.now_ns())
        if denied is None or (self.attempt > 1 and allowed is not None and self.attempt > allowed):
            return
        core.counters.pushed_denials += 1
        # What the attempt before showed counts for this process, whoever has answered.
        if self.previous is not None and core.on_no_decision != "deny":
            core.local.note(dependency, heard, self._retry_here(self.previous))
        raise denied

    def _retry_here(self, previous: Previous) -> Retry:
        is_unsafe = self.question.safety == UNSAFE
        return retry_of(self.attempt, previous.here(self.attempt), previous.outcome, is_unsafe)

    def _decide_here(self) -> Terms:
        core, dependency = self.core, self.question.dependency
        if core.on_no_decision == "deny" and core.mode is Mode.FLEET:
            raise _undecided()
        kept, left, previous = core.kept(dependency), self.time_left(), self.previous
        if previous is None:
            granted = self._counted(lambda: core.local.first(dependency, kept, left))
        else:
            asked = self._retry_here(previous)
            granted = self._counted(lambda: core.local.retry(dependency, kept, asked, left))
        terms = Terms.of_local(granted)
        if core.mode is Mode.TESTING:
            terms.delay_ns, terms.confirm = 0, False
        return terms

    def _counted(self, decide: Callable[[], Granted]) -> Granted:
        try:
            granted = decide()
        except Denied:
            self.core.counters.local_denials += 1
            raise
        self.core.counters.local_grants += 1
        return granted

    def _denied(self, answer: _wire.FleetDenial) -> Denied:
        wait = None if answer.retry_after_ns is None else to_seconds(answer.retry_after_ns)
        denied = Denied(DeniedBy.FLEET, answer.reason, answer.detail, wait)
        self.core.local.remember(self.question.dependency, denied)
        return denied

    def _copy(self) -> Asking:
        copy = Asking.__new__(Asking)
        copy.core, copy.question, copy.deadline = self.core, self.question, self.deadline
        copy.attempt, copy.previous = self.attempt, self.previous
        copy._call_id = self.call_id
        return copy

    def _told(self) -> None:
        if self.previous is not None:
            self.previous.told_to_fleet(self.core, self.question.dependency)


_NO_DELAY = -1
"""The `code` of a `NoAnswer` for a grant that does not say when."""


def _undecided() -> Denied:
    detail = "the service did not decide, and on_no_decision is deny"
    return Denied(DeniedBy.LOCAL, Reason.NO_DECISION, detail)
