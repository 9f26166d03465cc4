"""The same without a stream, for a service or a proxy that has no `Session`: one request a
question. After a while a stream is tried again. Input and output are the front's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional

from . import _clock, _entropy
from ._answer import LOST, Ask, Lack, NoAnswer
from ._course import End, search_after
from ._proto import coordinator_pb2 as pb
from ._reports import Batch
from ._rules.arithmetic import NS

if TYPE_CHECKING:
    from ._link import Link

CALLS_MAX = 256
CALL_SECONDS = 5.0
TRY_A_STREAM_AFTER_NS = 600 * NS
_CANCELLED = 1
_UNAVAILABLE = 14


class Request(NamedTuple):
    """`done` is told the response, or a `NoAnswer`; it takes the link's lock itself."""

    method: str
    message: Any
    done: Callable[[Any], None]


class Unary:
    """`is_connected` says whether an UNAVAILABLE is the service's own word."""

    def __init__(self, link: Link, is_connected: Callable[[], bool]) -> None:
        self._link = link
        self._is_connected = is_connected
        self._under_way = 0
        self._is_reporting = False
        self._was_answered = False
        self._again_at = _clock.now_ns() + TRY_A_STREAM_AFTER_NS
        self.ends_as: Optional[End] = None
        self._doubted_until: Optional[int] = None

    def is_doubted(self) -> None:
        """The service has stopped to answer. A late answer may still come."""
        if self._doubted_until is None:
            self._doubted_until = _clock.now_ns() + search_after(_entropy.unit())

    def is_trusted(self) -> None:
        """It answers again."""
        self._doubted_until = None

    def overdue(self) -> Optional[End]:
        """Why the connection is to be left now."""
        link = self._link
        is_busy = self._under_way > 0 or not link.reports.is_empty()
        if self.ends_as is None and link.is_closed and not is_busy:
            self.ends_as = End.UNWANTED
        if self.ends_as is None and _clock.now_ns() >= self._again_at:
            self.ends_as = End.AGAIN
        if self._doubted_until is not None and _clock.now_ns() >= self._doubted_until:
            self.ends_as = self.ends_as or End.SILENT
        return self.ends_as

    def next(self) -> Optional[Request]:
        link = self._link
        while link.inbox and self._under_way < CALLS_MAX:
            ask = link.inbox.popleft()
            if ask.request is None:
                ask.slot.put(True)
            elif not ask.slot.is_gone:
                ask.is_sent = True
                return self._begin("Acquire", link.fill_unary(ask.request), self._asked(ask))
        due = None if self._doubted_until is not None else link.reports.due_at()
        is_due = due is not None and (_clock.now_ns() >= due or link.is_closed)
        # One at a time: sequence numbers must arrive in their order.
        batch = link.reports.take() if is_due and not self._is_reporting else None
        if batch is None:
            return None
        self._is_reporting = True
        report = pb.ReportRequest()
        link.fill_report(report, batch)
        return self._begin("Report", report, self._reported(batch))

    def patience(self) -> float:
        """Seconds until `next` may say something else by itself."""
        is_held = self._is_reporting or self._doubted_until is not None
        due = None if is_held else self._link.reports.due_at()
        wait = 1.0 if due is None else (due - _clock.now_ns()) / NS
        return min(max(wait, 0.001), 1.0)

    def _begin(self, method: str, message: Any, done: Callable[[Any], None]) -> Request:
        self._under_way += 1
        return Request(method, message, done)

    def _asked(self, ask: Ask) -> Callable[[Any], None]:
        def done(reply: Any) -> None:
            with self._link.lock:
                self._under_way -= 1
                self._link.reply(ask, self._judged(reply))
            self._link.wake()

        return done

    def _reported(self, batch: Batch) -> Callable[[Any], None]:
        def done(reply: Any) -> None:
            with self._link.lock:
                self._under_way -= 1
                self._is_reporting = False
                judged = self._judged(reply)
            # One that was lost with its connection goes once more.
            if judged is not LOST:
                self._link.reports.answered(batch.sequence, not isinstance(judged, NoAnswer))
            self._link.wake()

        return done

    def _judged(self, reply: Any) -> Any:
        if not isinstance(reply, NoAnswer):
            self._was_answered = True
        elif reply.code == _UNAVAILABLE and not self._is_connected():
            ended = End.BROKEN if self._was_answered else End.BROKEN_UNHEARD
            self.ends_as = self.ends_as or ended
            return LOST
        elif reply.lack is not Lack.FAILED:
            return LOST
        elif reply.code == _CANCELLED and self.ends_as is not None:
            return LOST  # By this client, which has left the connection.
        return reply
