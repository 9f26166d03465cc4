"""How the attempt before ended, and by what it is told.

With the question about the next attempt where there is one; else by a report of its permit, by a
tally of its epoch, or to this process's own record.
"""

from __future__ import annotations

from typing import Any, Optional, Union

from . import _clock, _entropy, _wire
from ._answer import Ask, Lack, NoAnswer
from ._core import Core, OnState
from ._proto import coordinator_pb2 as pb
from ._question import UNSAFE
from ._rules.record import LocalPermit, Unknown
from .outcome import Outcome, OutcomeKind

Made = Union[bytes, OnState, LocalPermit]


class Previous:
    """The attempt before. It is told once, at the latest when nobody asks any more.

    `is_late`: the service has pushed a later state, so that its tally is in no hurry.
    """

    __slots__ = (
        "_is_counted_here",
        "_is_told",
        "_was_held_back",
        "is_late",
        "made",
        "outcome",
    )

    def __init__(self, made: Made, outcome: Outcome) -> None:
        self.made = made
        self.outcome = outcome
        self._is_told = False
        self._is_counted_here = False
        self._was_held_back = False
        self.is_late = False

    def tell(self, core: Core, dependency: str) -> None:
        if self._is_told:
            return
        self._is_told = True
        made, outcome = self.made, self.outcome
        if self.is_late and isinstance(made, OnState) and outcome.pushback is None:
            core.count_late(dependency, made, outcome)
        else:
            tell(core, dependency, made, outcome)

    def give_up(self, core: Core, dependency: str) -> None:
        """No question tells it any more, and none is decided here that would count it."""
        if not self._is_told and isinstance(self.made, OnState):
            core.count_if_lost(dependency, self.outcome.kind)
        self.tell(core, dependency)

    def epoch_to_hold_back(self) -> Optional[int]:
        """That of the pushed state it was made on, once."""
        if not isinstance(self.made, OnState) or self._was_held_back:
            return None
        self._was_held_back = True
        return self.made.epoch

    def told_to_fleet(self, core: Core, dependency: str) -> None:
        """The service has taken it with a question. What was decided here is told here too."""
        if isinstance(self.made, LocalPermit):
            self.tell(core, dependency)
        self._is_told = True

    def may_be_told(self) -> None:
        """A question with it may have arrived. Nothing tells an outcome without a permit from
        another one, while a permit counts once whatever is said of it.
        """
        if isinstance(self.made, OnState):
            self._is_told = True

    def on_the_wire(self, target: Any) -> None:
        """An attempt without a permit of the service is told by an epoch: the one whose state it
        was made on, or the one last heard of when an attempt that was decided here began. So a
        call that has gone on alone is with the fleet again at its next question, and what failed
        before a transition does not count after it.
        """
        if isinstance(self.made, bytes):
            target.permit = self.made
        elif isinstance(self.made, OnState):
            target.epoch = self.made.epoch
        else:
            target.epoch = self.made.begun_in
        _wire.write_outcome(self.outcome, target.outcome)

    def here(self, attempt: int) -> Union[LocalPermit, Unknown]:
        """For this process's own record. A first attempt that the service let go is unknown
        there, and is counted once.
        """
        if isinstance(self.made, LocalPermit):
            return self.made
        counts = attempt == 2 and not self._is_counted_here
        self._is_counted_here = True
        return Unknown(counts)


def tell(core: Core, dependency: str, made: Made, outcome: Outcome) -> None:
    """Tells how an attempt ended that no question has told of. One on pushed state is tallied;
    but a tally has no place for a wait that the dependency asked for, and that may hold the whole
    fleet. Such an outcome goes with a question about a retry that is sure to be denied.
    """
    may_hold = outcome.pushback is not None and outcome.kind is not OutcomeKind.SUCCESS
    if isinstance(made, OnState) and may_hold and core.link is not None:
        _ask_in_vain(core, dependency, made, outcome)
    else:
        core.report(dependency, made, outcome)


def _ask_in_vain(core: Core, dependency: str, made: OnState, outcome: Outcome) -> None:
    link = core.link
    assert link is not None
    # Only what certainly was not sent could be granted, and that is given back.
    request: Any = pb.AcquireRequest(dependency=dependency, attempt=2, call_id=_entropy.name())
    request.safety = UNSAFE
    request.previous.epoch = made.epoch
    _wire.write_outcome(outcome, request.previous.outcome)
    link.reports.begin_telling()
    slot = _InVain(core, dependency, made, outcome)
    is_shut = link.gate.shut_until(_clock.now_ns()) is not None
    refused = NoAnswer(Lack.AWAY) if is_shut else link.submit(Ask(request, slot))
    if refused is not None:
        slot.put(refused)


class _InVain:
    """Nobody waits for the answer."""

    is_gone = False

    def __init__(self, core: Core, dependency: str, made: OnState, outcome: Outcome) -> None:
        self._told = (core, dependency, made, outcome)

    def put(self, reply: Any) -> bool:
        core, dependency, made, outcome = self._told
        assert core.link is not None
        if not isinstance(reply, NoAnswer):
            core.link.give_back(reply)
        elif not reply.may_have_arrived:
            core.report(dependency, made, outcome)
        core.link.reports.end_telling()
        return True
