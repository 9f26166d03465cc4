"""One stream, without its input and output: what to send next, and what an answer means.

Whatever is queued when the writer pulls goes as one message, so that questions asked together
travel together; answers are handed out by the id of their message. Whoever moves the messages,
threads or tasks, holds `Link.lock` meanwhile.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Optional

from . import _clock, _entropy
from ._answer import BUSY, LOST, Ask, Lack, NoAnswer
from ._course import End, search_after
from ._proto import coordinator_pb2 as pb
from ._reports import BATCH_MAX, MESSAGE_BYTES_MAX, Batch
from ._rules.arithmetic import NS

if TYPE_CHECKING:
    from ._link import Link

ASKS_MAX = 10_000
NAMES_MAX = 200
LEFT_MAX = 10_000
LEAVE_EVERY_NS = 60 * NS
SEARCH_NS = NS
RETURN_TRIED_EVERY_NS = 60 * NS
POLL_NS = NS
UNIMPLEMENTED = 12


class Session:
    """`index` is that of its endpoint; the first one is preferred."""

    def __init__(self, link: Link, index: int) -> None:
        now = _clock.now_ns()
        self._link = link
        self._first: deque[Any] = deque(greeting(link))
        self._next_id = 0
        self._batches: dict[int, list[Ask]] = {}
        self._reports: dict[int, int] = {}
        self._questions = 0
        self._connecting: list[Ask] = []
        self._left: set[str] = set()
        self._leave_at = now + LEAVE_EVERY_NS
        self._unheard_at = now + SEARCH_NS
        self._look_home_at: Optional[int] = None if index == 0 else now + _return_after()
        self.is_open = False
        self.is_proven = False
        self.is_over = False
        self.ends_as: Optional[End] = None
        self._doubted_until: Optional[int] = None

    def pull(self) -> Optional[Any]:
        """The next message. None: there is nothing to send now."""
        if self._first:
            return self._first.popleft()
        inbox, reports = self._link.inbox, self._link.reports
        self._drop_those_gone()
        if inbox:
            if any(ask.request.HasField("previous") for ask in inbox):
                batch = reports.take()
                if batch is not None:
                    return self._report(batch)
            return self._resume() or self._ask()
        due, now = self._due_at(), _clock.now_ns()
        if due is not None and now >= due:
            batch = reports.take()
            return None if batch is None else self._report(batch)
        if now >= self._leave_at:
            self._leave_at = now + LEAVE_EVERY_NS
            self._first.extend(self._leave_idle())
            return self.pull() if self._first else None
        return None

    def patience(self) -> float:
        """Seconds until `pull` or `overdue` may say something else by itself."""
        due = self._due_at()
        now = _clock.now_ns()
        until = now + POLL_NS if due is None else min(due, now + POLL_NS)
        if self._doubted_until is not None:
            until = min(until, self._doubted_until)
        return max(until - now, 0) / NS

    def overdue(self) -> Optional[End]:
        """Why the stream is to be left now."""
        if self.ends_as is not None:
            return self.ends_as
        now = _clock.now_ns()
        # A service that is looked for at nobody's wait has not even taken the stream.
        if not self.is_open and now >= self._unheard_at and not self._link.is_awaited(now):
            return End.UNHEARD
        if self._doubted_until is not None and now >= self._doubted_until:
            return End.SILENT
        return None

    def is_doubted(self) -> None:
        """The service has stopped to answer. It is listened to for a while, since a late answer
        may still come; nothing else is sent meanwhile.
        """
        if self._doubted_until is None:
            self._doubted_until = _clock.now_ns() + search_after(_entropy.unit())

    def is_trusted(self) -> None:
        """It answers again."""
        self._doubted_until = None

    def wants_to_look_home(self) -> bool:
        """True once in a jittered minute or two: is the preferred endpoint back?"""
        now = _clock.now_ns()
        if self._look_home_at is None or now < self._look_home_at:
            return False
        self._look_home_at = now + _return_after()
        return True

    @property
    def is_idle(self) -> bool:
        return not self._batches and not self._reports

    def opened(self) -> None:
        self._link.is_open()
        self.is_open = True
        for ask in self._connecting:
            ask.slot.put(True)
        self._connecting.clear()

    def take(self, response: Any) -> None:
        what = response.WhichOneof("message")
        if what == "acquired":
            self._hand_out(response.id, response.acquired.items)
        elif what == "reported":
            self._reported(response.id, True)
        elif what == "update":
            self._link.pushed.store(response.update)
            if self._doubted_until is not None:
                self._link.gate.heard(_clock.now_ns())
        elif what == "status":
            self._refused(response.id, response.status)
        # Anything else is newer than this client.
        self.is_proven = True

    def end_of(self, code: int) -> End:
        """What the end of the stream with this gRPC code means."""
        if self._link.is_closed:
            return End.UNWANTED
        if self.ends_as is not None:
            return self.ends_as
        if code == UNIMPLEMENTED and not self.is_proven:
            return End.UNIMPLEMENTED
        return End.BROKEN if self.is_proven else End.BROKEN_UNHEARD

    def close(self, end: End) -> None:
        """Those who wait learn it at once; but where there is no such stream they are asked
        without one, and where that is not known, on the next one.
        """
        self.is_over = True
        asks = [ask for batch in self._batches.values() for ask in batch] + self._connecting
        self._batches, self._connecting = {}, []
        if end in (End.UNIMPLEMENTED, End.UNSAID):
            self._link.inbox.extendleft(reversed(asks))
            return
        for ask in asks:
            ask.slot.put(False if ask.request is None else LOST)

    def _due_at(self) -> Optional[int]:
        is_held = self._doubted_until is not None and not self._link.is_closed
        return None if is_held else self._link.reports.due_at()

    def _drop_those_gone(self) -> None:
        inbox = self._link.inbox
        kept = []
        while inbox:
            ask = inbox.popleft()
            if ask.request is None and self.is_open:
                ask.slot.put(True)
            elif ask.request is None:
                self._connecting.append(ask)
            elif not ask.slot.is_gone:
                kept.append(ask)
        inbox.extend(kept)

    def _ask(self) -> Optional[Any]:
        inbox = self._link.inbox
        message = pb.SessionRequest(id=self._id())
        asks: list[Ask] = []
        size = 0
        while inbox and len(asks) < BATCH_MAX:
            size += inbox[0].request.ByteSize() + 8
            if size > MESSAGE_BYTES_MAX and asks:
                break
            ask = inbox.popleft()
            if self._questions >= ASKS_MAX and not self._forget_those_gone():
                ask.slot.put(BUSY)
                continue
            self._questions += 1
            ask.is_sent = True
            asks.append(ask)
        if not asks:
            return None
        message.acquire.requests.extend(ask.request for ask in asks)
        self._batches[message.id] = asks
        return message

    def _report(self, batch: Batch) -> Any:
        message = pb.SessionRequest(id=self._id())
        self._link.fill_report(message.report, batch)
        self._reports[message.id] = batch.sequence
        return message

    def _resume(self) -> Optional[Any]:
        """Follows again what was left and is asked about."""
        if not self._left:
            return None
        names = {ask.request.dependency for ask in self._link.inbox} & self._left
        self._left -= names
        return subscribe(add=sorted(names)) if names else None

    def _leave_idle(self) -> list[Any]:
        idle = self._link.pushed.leave_idle()
        self._left.update(idle[: max(LEFT_MAX - len(self._left), 0)])
        return [subscribe(remove=names) for names in _chunks(idle)]

    def _hand_out(self, answer_id: int, items: Any) -> None:
        asks = self._batches.pop(answer_id, [])
        self._questions -= len(asks)
        for position, ask in enumerate(asks):
            item = items[position] if position < len(items) else None
            what = None if item is None else item.WhichOneof("result")
            if item is not None and what == "response":
                self._link.reply(ask, item.response)
            elif item is not None and what == "status":
                self._link.reply(ask, _failed(item.status))
            else:
                self._link.reply(ask, NoAnswer(Lack.FAILED, 13, "no answer in it"))

    def _reported(self, answer_id: int, was_taken: bool) -> None:
        sequence = self._reports.pop(answer_id, None)
        if sequence is not None:
            self._link.reports.answered(sequence, was_taken)

    def _refused(self, answer_id: int, status: Any) -> None:
        """A whole message was refused."""
        if answer_id == 0:
            self._link.warn_following(status.message)
        self._reported(answer_id, False)
        asks = self._batches.pop(answer_id, [])
        self._questions -= len(asks)
        for ask in asks:
            self._link.reply(ask, _failed(status))

    def _forget_those_gone(self) -> bool:
        """A message of which somebody still waits is kept whole, since answers have its order."""
        for key, asks in list(self._batches.items()):
            if all(ask.slot.is_gone for ask in asks):
                del self._batches[key]
        self._questions = sum(len(asks) for asks in self._batches.values())
        return self._questions < ASKS_MAX

    def _id(self) -> int:
        self._next_id += 1  # 0 is what is pushed.
        return self._next_id


def greeting(link: Link) -> list[Any]:
    """The first messages of a stream."""
    chunks = _chunks(link.pushed.followed())
    hello = pb.SessionRequest()
    hello.hello.caller.CopyFrom(link.caller)
    hello.hello.namespace = link.namespace
    hello.hello.subscribe.extend(chunks[0] if chunks else [])
    return [hello] + [subscribe(add=names) for names in chunks[1:]]


def subscribe(add: Optional[list[str]] = None, remove: Optional[list[str]] = None) -> Any:
    """Its answer, if any, is an error that nobody waits for."""
    message = pb.SessionRequest()
    message.subscribe.SetInParent()
    message.subscribe.add.extend(add or [])
    message.subscribe.remove.extend(remove or [])
    return message


def _chunks(names: list[str]) -> list[list[str]]:
    return [names[begin : begin + NAMES_MAX] for begin in range(0, len(names), NAMES_MAX)]


def _failed(status: Any) -> NoAnswer:
    return NoAnswer(Lack.FAILED, status.code, status.message)


def _return_after() -> int:
    return int(RETURN_TRIED_EVERY_NS * (1.0 + _entropy.unit()))
