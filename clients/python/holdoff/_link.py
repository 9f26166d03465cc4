"""The way to the service: a queue of questions, and what is common to threads and tasks.

A caller waits for an answer at most as long as it says, and not at all while the service is known
to be away. One thread or task owns the connection; it begins with the first question and ends
with the client.

| part | |
|---|---|
| `_course` | which endpoint is tried next, and when |
| `_session` | one stream: batches out, answers in |
| `_gate` | the breaker on the service |
| `_patience` | who waits for a service that was not heard of yet |
| `_reports` | outcomes on their way |
| `_threads`, `_tasks` | moving bytes |
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _clock, _entropy
from ._answer import AWAY, BUSY, LATE, LOST, Ask, Lack, NoAnswer, Nobody, Reply, Slot
from ._channel import Endpoint
from ._counters import Counters, Seldom
from ._course import Course, End
from ._gate import Gate, Pass
from ._patience import Patience
from ._proto import coordinator_pb2 as pb
from ._pushed import Pushed
from ._reports import Batch, Reports
from ._rules.arithmetic import NS
from .outcome import Outcome

if TYPE_CHECKING:
    from ._session import Session
    from ._unary import Request, Unary

log = logging.getLogger("holdoff")

DIAL_MAX = 2.0
FAREWELL = 1.0


class Link:
    """What threads and tasks share. Theirs are `wake`, `begin` and `leave`."""

    def __init__(
        self,
        endpoints: list[Endpoint],
        caller: tuple[str, str],
        namespace: str,
        pushed: Pushed,
        counters: Counters,
    ) -> None:
        self.endpoints = endpoints
        self.caller = pb.Caller(service=caller[0], instance=caller[1])
        self.namespace = namespace
        self.pushed = pushed
        self.counters = counters
        self.lock = threading.RLock()
        self.inbox: deque[Ask] = deque()
        self.gate = Gate()
        self.waiting = Patience()
        self.reports = Reports(counters, self.wake)
        self.course = Course(_clock.now_ns())
        self.is_waiting = True
        """No connection is tried before `course.not_before`."""
        self.is_closed = False
        self.is_between = False
        """The connection was left to be made anew at once: until it is, nobody waits for it."""
        self._channel: Optional[tuple[int, Any]] = None
        """That stands, and the index of its endpoint."""
        self._current: Union[Session, Unary, None] = None
        self._has_said_farewell = False
        self._warned_away = Seldom()
        self._is_said_to_be_away = False
        self._cause = ""
        """Why the last stream ended, in words."""
        self._warned_configuration = Seldom()

    def wake(self) -> None:
        """Something is to be done sooner than was thought."""
        raise NotImplementedError

    def begin(self) -> bool:
        """Whoever owns the connection begins, unless it runs. False: it cannot."""
        raise NotImplementedError

    def leave(self, end: End) -> None:
        """The stream that stands is left."""
        raise NotImplementedError

    def submit(self, ask: Ask) -> Optional[NoAnswer]:
        """Queues it. Otherwise why not."""
        with self.lock:
            is_early = self.is_waiting and _clock.now_ns() < self.course.not_before
            if self.is_closed or is_early:
                return AWAY
            if len(self.inbox) >= 10_000:
                return BUSY
            self.inbox.append(ask)
        self._look_at_inbox()
        return None

    def enter(self, request: Any, slot: Slot, seconds: float) -> Union[Pass, NoAnswer]:
        """Asks, unless the service is known to be away. How long is waited says the pass."""
        passed = self.gate.enter(_clock.now_ns(), int(seconds * NS))
        if passed is None:
            return AWAY
        if self.is_between or not self.waiting.enter(passed):
            self.gate.gave_up(passed, _clock.now_ns())
            self.wish()
            return AWAY
        passed.ask = Ask(request, slot)
        refused = self.submit(passed.ask)
        if refused is not None:
            self.give_up(passed)
            return refused
        self.counters.asked += 1
        return passed

    def wish(self) -> None:
        """A connection is made when its time comes, unless one stands, and nobody waits for it."""
        with self.lock:
            if self._channel is not None or self.inbox or self.is_closed:
                return
            self.inbox.append(Ask(None, Nobody()))
        self._look_at_inbox()

    def is_awaited(self, now: int) -> bool:
        """Somebody would wait for its answer now."""
        return self.gate.shut_until(now) is None and not self.waiting.is_over

    def is_asked(self) -> bool:
        """It is at hand: a connection stands, and the service has not been silent on it. Looked at
        twice by each call, and cheap where all is well.
        """
        if self._channel is None:
            return False
        return self.gate.until is None or self.gate.shut_until(_clock.now_ns()) is None

    def give_up(self, passed: Pass) -> None:
        """Nobody waits for the answer any longer."""
        self.waiting.leave(passed)
        self.gate.gave_up(passed, _clock.now_ns())

    def settle(self, passed: Pass, reply: Reply) -> Reply:
        """What the reply, or its absence, says about the service."""
        self.waiting.leave(passed, reply is LATE)
        if not isinstance(reply, NoAnswer) or reply.is_configuration:
            if self.gate.answered(passed, _clock.now_ns()):
                self.is_back()
            if isinstance(reply, NoAnswer):
                self.warn_configuration(f"holdoff refuses the question ({reply})")
        elif reply.lack is Lack.FAILED or (reply.lack is Lack.LATE and _says_something(passed)):
            if self.gate.unanswered(passed, _clock.now_ns(), _entropy.unit()):
                self._went_away(reply)
        else:
            # No time was lost, and the connection waits by itself before it is tried again; or it
            # was not enough to say anything.
            self.gate.gave_up(passed, _clock.now_ns())
        return reply

    def reply(self, ask: Ask, reply: Reply) -> None:
        if not ask.slot.put(reply) and not isinstance(reply, NoAnswer):
            self.gate.heard_late(_clock.now_ns())
            self.give_back(reply)

    def give_back(self, response: Any) -> None:
        """Nobody waits for this answer any longer; it may carry the lease of a probe."""
        if response.WhichOneof("verdict") == "grant":
            self.reports.push(response.grant.permit, Outcome.cancelled())

    def has_ended(self, index: int, end: End) -> None:
        """The connection to this endpoint is over. Where the next one is not tried at once, who
        has not been asked about yet is not kept waiting for it.
        """
        now = _clock.now_ns()
        self.course.ended(index, end, now, _entropy.unit())
        self.waiting.lost()
        self.is_waiting = True
        if end in (End.BROKEN, End.BROKEN_UNHEARD):
            where, cause = self.endpoints[index].target, self._cause or "it was closed"
            self._say_away(f"the connection to holdoff at {where} broke ({cause[:200]})")
        self._cause = ""
        if now < self.course.not_before:
            self.refuse_inbox()
        self.reports.broken()

    def nothing_reachable(self) -> None:
        """None of the endpoints took a connection. Who waits for one learns it at once."""
        self.course.nothing_reachable(_clock.now_ns(), _entropy.unit())
        self.is_waiting = True
        self.refuse_inbox()
        self._say_away(f"holdoff cannot be reached at {self._everywhere()}")

    def is_open(self) -> None:
        """The service has taken a stream, or an endpoint without streams a connection."""
        self.is_between = False
        self.gate.heard(_clock.now_ns())
        self.waiting.heard()
        if self.gate.shut_until(_clock.now_ns()) is None:
            self._say_back()

    def is_back(self) -> None:
        """It answers in time, after it did not."""
        with self.lock:
            if self._current is not None:
                self._current.is_trusted()
        self.wake()
        self._say_back()

    def is_ill(self) -> None:
        """Something failed that no service should be able to make fail: a token's source, or this
        client. It is tried again as after any other failure; calls are decided locally.
        """
        self.course.ended(self.course.start, End.BROKEN_UNHEARD, _clock.now_ns(), _entropy.unit())
        self.is_waiting = True
        self.refuse_inbox()
        self.reports.broken()
        self._say_ill()

    def metadata(self, index: int) -> Optional[tuple[tuple[str, str], ...]]:
        """Of a request to this endpoint. None: the token's source failed, which no caller is told
        as an error.
        """
        try:
            return self.endpoints[index].metadata()
        except Exception:
            self._say_ill()
            return None

    def without_token(self, request: Request) -> End:
        """The request is not sent, and the connection is left until a token may be there."""
        request.done(LOST)
        self._cause = "the source of its token failed"
        return End.BROKEN_UNHEARD

    def refuse_inbox(self) -> None:
        with self.lock:
            asks, self.inbox = list(self.inbox), deque()
        for ask in asks:
            ask.slot.put(False if ask.request is None else AWAY)

    def patience(self) -> Optional[float]:
        """While there is no connection: seconds until one is to be tried. None: a wish for one
        is waited for. While the gate is shut the service is looked for without a question, so
        that no caller pays for it.
        """
        now, at = _clock.now_ns(), None
        not_before = self.course.not_before
        if self.inbox:
            at = not_before
        due = self.reports.due_at()
        if due is not None:
            at = max(due, not_before)
        shut_until = self.gate.shut_until(now)
        if shut_until is not None and not_before < shut_until:
            at = not_before if at is None else min(at, not_before)
        return None if at is None else max(at - now, 0) / NS

    def says_farewell(self) -> bool:
        """The last outcomes of a client that is closed are worth one connection."""
        has_time_come = self.course.not_before <= _clock.now_ns()
        if self._has_said_farewell or self.reports.is_empty() or not has_time_come:
            return False
        self._has_said_farewell = True
        return True

    def fill_check(self, request: Any) -> Any:
        request.namespace = self.namespace
        request.checker.CopyFrom(self.caller)
        return request

    def fill_report(self, report: Any, batch: Batch) -> None:
        report.namespace = self.namespace
        report.caller.CopyFrom(self.caller)
        report.entries.extend(batch.entries)
        report.sequence = batch.sequence

    def fill_unary(self, request: Any) -> Any:
        """Without a stream each question says who asks."""
        request.namespace = self.namespace
        request.caller.CopyFrom(self.caller)
        return request

    def warn_configuration(self, text: str) -> None:
        if self._warned_configuration.is_due():
            log.warning("%s; deciding locally", text)

    def warn_following(self, text: str) -> None:
        if self._warned_configuration.is_due():
            log.warning("holdoff refuses to push the state of a dependency: %s", text[:200])

    def _look_at_inbox(self) -> None:
        if not self.begin():
            self.refuse_inbox()
        self.wake()

    def _went_away(self, why: NoAnswer) -> None:
        if why is LATE:
            with self.lock:
                if self._current is not None:
                    self._current.is_doubted()
            self.wake()
        standing = self._channel
        where = self._everywhere() if standing is None else self.endpoints[standing[0]].target
        self._say_away(f"holdoff at {where} does not answer ({why})")

    def _everywhere(self) -> str:
        return ", ".join(endpoint.target for endpoint in self.endpoints)

    def _say_ill(self) -> None:
        if self._warned_configuration.is_due():
            log.exception("no connection to holdoff could be made; deciding locally")

    def _say_away(self, text: str) -> None:
        """Once, until it is back; and once a minute at most where it comes and goes."""
        if not self._is_said_to_be_away and not self.is_closed and self._warned_away.is_due():
            self._is_said_to_be_away = True
            log.warning("%s; deciding locally until it is back", text)

    def _say_back(self) -> None:
        if self._is_said_to_be_away:
            self._is_said_to_be_away = False
            standing = self._channel
            where = self._everywhere() if standing is None else self.endpoints[standing[0]].target
            log.info("holdoff at %s answers again", where)


def _says_something(passed: Pass) -> bool:
    """A question that was not sent says nothing of the service, unless it is the trial."""
    is_sent = passed.ask is not None and passed.ask.is_sent
    return passed.is_whole and (is_sent or passed.is_trial)
