"""The link on threads: one that dials and reads, beside the one in which gRPC pulls what is sent.

Both are daemons and hold no reference to the client, so that a client which is collected, or a
process that ends, ends them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, Callable, Optional

import grpc

from . import _clock, _wire
from ._answer import LATE, LOST, Ask, Lack, NoAnswer, Reply
from ._course import End
from ._link import DIAL_MAX, FAREWELL, Link, log
from ._rules.arithmetic import NS
from ._session import Session
from ._unary import CALL_SECONDS, Request, Unary

_GAP_SECONDS = 0.1
PARK_SECONDS = 0.5
POLLED_NS = 200_000_000
"""How often gRPC looks whether the state of a channel is still wanted."""
_LOOK_SECONDS = 0.05


class ThreadSlot:
    """Where one thread waits for a reply and another puts it."""

    __slots__ = ("_is_gone", "_mutex", "_ready", "_reply")

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._ready = threading.Lock()
        self._ready.acquire()
        self._is_gone = False
        self._reply: Reply = None

    @property
    def is_gone(self) -> bool:
        return self._is_gone

    def put(self, reply: Reply) -> bool:
        with self._mutex:
            if self._is_gone:
                return False
            if self._reply is None:
                self._reply = reply
                self._ready.release()
        return True

    def wait(self, seconds: float) -> Reply:
        """`LATE` where nothing came; what comes afterwards is refused."""
        if not self._ready.acquire(timeout=seconds):
            with self._mutex:
                if self._reply is None:
                    self._is_gone = True
                    return LATE
        return self._reply

    def give_up(self) -> Optional[Any]:
        """An answer that has come and is not wanted."""
        with self._mutex:
            self._is_gone = True
            return self._reply


class ThreadLink(Link):
    def __init__(self, *settings: Any) -> None:
        self._changed: Optional[threading.Condition] = None
        super().__init__(*settings)
        self._changed = threading.Condition(self.lock)
        self._thread: Optional[threading.Thread] = None
        self._is_parked = False
        self._is_inside = False
        self._failed: deque[tuple[int, grpc.Channel]] = deque()
        self._call: Any = None

    def wake(self) -> None:
        if self._changed is not None:
            with self._changed:
                self._changed.notify_all()

    def begin(self) -> bool:
        with self.lock:
            if self._thread is not None and self._thread.is_alive():
                return True
            thread = threading.Thread(target=self._run, name="holdoff", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # There are too many, or the interpreter ends.
                return False
            self._thread = thread
            return True

    def leave(self, end: End) -> None:
        with self.lock:
            current, call = self._current, self._call
            if current is None:
                return
            current.ends_as = end
        if call is not None:
            call.cancel()
        self.wake()

    def ask(self, request: Any, seconds: float) -> Reply:
        """Asks, and waits for so long at most."""
        slot = ThreadSlot()
        passed = self.enter(request, slot, seconds)
        if isinstance(passed, NoAnswer):
            return passed
        try:
            return self.settle(passed, slot.wait(passed.wait_ns / NS))
        except BaseException:
            self.give_up(passed)
            unwanted = slot.give_up()
            if unwanted is not None and not isinstance(unwanted, NoAnswer):
                self.give_back(unwanted)
            raise

    def connect(self, seconds: float) -> bool:
        """Connects now. False: it could not."""
        slot = ThreadSlot()
        if self.submit(Ask(None, slot)) is not None:
            return False
        return slot.wait(seconds) is True

    def until_heard(self, seconds: float) -> None:
        """Waits for the state of what is followed."""
        assert self._changed is not None
        with self._changed:
            self._changed.wait_for(self.pushed.has_heard_all_wished, seconds)

    def flush(self, seconds: float) -> bool:
        """Returns when all outcomes have been taken or lost, or the time is over."""
        if self.reports.is_empty():
            return True
        assert self._changed is not None
        self.begin()
        self.reports.hurry()
        with self._changed:
            return self._changed.wait_for(self.reports.is_empty, seconds)

    def plan_check(self, request: Any, seconds: float) -> Any:
        """One unary request on the connection that stands. It touches no gate: nobody waits for
        a plan, and a service that answers calls may have no plans.
        """
        if self.gate.shut_until(_clock.now_ns()) is not None or not self.connect(seconds):
            return NoAnswer(Lack.AWAY)
        with self.lock:
            standing = self._channel
        if standing is None:
            return NoAnswer(Lack.AWAY)
        index, channel = standing
        metadata = self.metadata(index)
        if metadata is None:
            return NoAnswer(Lack.AWAY)
        try:
            return _wire.stub(channel).PlanCheck(
                self.fill_check(request), timeout=seconds, metadata=metadata
            )
        except grpc.RpcError as error:
            return _no_answer(error)
        except ValueError:  # The channel was closed meanwhile.
            return LOST

    @property
    def has_begun(self) -> bool:
        return self._thread is not None

    def park(self) -> None:
        """Leaves gRPC before a `fork`, for a moment at most. What was pushed holds meanwhile, and
        nobody waits for what is asked until the next stream is taken.
        """
        with self.lock:
            thread, self._is_parked = self._thread, True
            self.is_between = self.is_between or self._channel is not None
        if thread is None or not thread.is_alive():
            return
        if self.is_between:
            self.refuse_inbox()
        self.leave(End.AGAIN)
        self.wake()
        assert self._changed is not None
        with self._changed:
            self._changed.wait_for(lambda: not self._is_inside, PARK_SECONDS)

    def unpark(self) -> None:
        """Goes on, in the parent."""
        self._is_parked = False
        self.wake()

    def close(self) -> None:
        """Sends what is left, for a second at most, and ends the thread."""
        with self.lock:
            self.is_closed = True
            thread = self._thread
        self.wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join(FAREWELL)
        self.leave(End.UNWANTED)

    def _run(self) -> None:
        while self._until_wanted():
            try:
                self._connect_once()
            except Exception:
                self.is_ill()
        self.refuse_inbox()

    def _until_wanted(self) -> bool:
        assert self._changed is not None
        with self._changed:
            self.is_waiting = True
            self._is_inside = False
            self._changed.notify_all()
            while not self.is_closed or self._is_parked:
                wait = self.patience()
                if self._is_parked:
                    wait = None
                elif wait is not None and wait <= 0.0:
                    self.is_waiting, self._is_inside = False, True
                    return True
                self._changed.wait(wait)
            self._is_inside = True
        return self.says_farewell()

    def _connect_once(self) -> None:
        dialled = self._dial()
        if dialled is None:
            self.nothing_reachable()
            self._close_failed(0)
            return
        index, channel = dialled
        self.counters.connections += 1
        with self.lock:
            self._channel = dialled
        self.reports.stream_begins()
        try:
            end = End.UNIMPLEMENTED if self.course.is_unary(index) else self._stream(index, channel)
            if end is End.UNIMPLEMENTED:
                self.course.note_unary(index)
                end = self._requests(index, channel)
        finally:
            with self.lock:
                self._channel = self._current = self._call = None
            channel.close()
            self._close_failed(0)
        self.has_ended(index, end)

    def _dial(self) -> Optional[tuple[int, grpc.Channel]]:
        """Each endpoint once, in order. None: none could be reached."""
        count = len(self.endpoints)
        for step in range(count):
            index = (self.course.start + step) % count
            channel = self._dial_one(index)
            if channel is not None:
                return index, channel
        return None

    def _dial_one(self, index: int) -> Optional[grpc.Channel]:
        channel = self.endpoints[index].connect()
        if self._is_ready(channel):
            return channel
        log.debug("holdoff is not reachable at %s", self.endpoints[index].target)
        # To close it takes gRPC a fifth of a second, for which nobody is kept waiting.
        self._failed.append((_clock.now_ns(), channel))
        return None

    def _is_ready(self, channel: grpc.Channel) -> bool:
        return _is_ready(channel, DIAL_MAX, lambda: self._is_parked)

    def _close_failed(self, age_ns: int) -> None:
        """Channels that could not connect, and are so old."""
        while self._failed and _clock.now_ns() - self._failed[0][0] >= age_ns:
            self._failed.popleft()[1].close()

    def _stream(self, index: int, channel: grpc.Channel) -> End:
        session = Session(self, index)
        stub = _wire.stub(channel)
        call = stub.Session(self._outgoing(session), metadata=self.endpoints[index].metadata())
        with self.lock:
            self._current, self._call = session, call
            if self._is_parked:
                session.ends_as = End.AGAIN
        if session.ends_as is not None:
            call.cancel()
        end = End.BROKEN
        try:
            call.initial_metadata()
            with self.lock:
                if call.is_active():
                    session.opened()
            for response in call:
                with self.lock:
                    session.take(response)
                    assert self._changed is not None
                    self._changed.notify_all()
            end = session.end_of(0)
        except grpc.RpcError as error:
            self._cause = error.details() or ""
            end = session.end_of(error.code().value[0])
        finally:
            with self.lock:
                session.close(end)
            self.wake()
        return end

    def _outgoing(self, session: Session) -> Iterator[Any]:
        """gRPC pulls these in a thread of its own."""
        assert self._changed is not None
        leave_by: Optional[int] = None
        while not session.is_over:
            self._close_failed(2 * POLLED_NS)
            if session.wants_to_look_home():
                threading.Thread(target=self._look_home, args=(session,), daemon=True).start()
            with self._changed:
                if self.is_closed:
                    self.reports.hurry()
                message = session.pull()
                if message is None:
                    if self.is_closed:
                        leave_by = leave_by or _clock.now_ns() + int(FAREWELL * NS)
                        is_said = session.is_idle and self.reports.is_empty()
                        if is_said or _clock.now_ns() >= leave_by:
                            return
                        self._changed.wait(0.01)
                    elif session.overdue() is None:
                        self._changed.wait(session.patience())
            end = session.overdue()
            if end is not None:
                self.leave(end)
                return
            if message is not None:
                yield message

    def _look_home(self, session: Session) -> None:
        """Leaves for the preferred endpoint where it is back, between questions if they leave a
        gap.
        """
        channel = self.endpoints[0].connect()
        is_back = self._is_ready(channel)
        channel.close()
        if not is_back:
            return
        assert self._changed is not None
        with self._changed:
            self._changed.wait_for(lambda: session.is_idle, _GAP_SECONDS)
            session.ends_as = session.ends_as or End.AGAIN
            self._changed.notify_all()

    def _requests(self, index: int, channel: grpc.Channel) -> End:
        """The same without a stream."""
        states = [grpc.ChannelConnectivity.READY]
        channel.subscribe(states.append)
        unary = Unary(self, lambda: states[-1] is grpc.ChannelConnectivity.READY)
        stub = _wire.stub(channel)
        assert self._changed is not None
        with self.lock:
            self._current = unary
        self.is_open()
        while True:
            with self._changed:
                end = End.AGAIN if self._is_parked else unary.overdue()
                if end is not None:
                    return end
                request = unary.next()
                if request is None:
                    self._changed.wait(unary.patience())
                    continue
            metadata = self.metadata(index)
            if metadata is None:
                return self.without_token(request)
            call = getattr(stub, request.method).future(
                request.message, timeout=CALL_SECONDS, metadata=metadata
            )
            call.add_done_callback(_telling(request))


def _is_ready(channel: grpc.Channel, seconds: float, is_unwanted: Callable[[], bool]) -> bool:
    """Whether the connection stands. One that is refused is known at once."""
    states: list[grpc.ChannelConnectivity] = []
    settled = threading.Event()

    def note(state: grpc.ChannelConnectivity) -> None:
        if state in (
            grpc.ChannelConnectivity.READY,
            grpc.ChannelConnectivity.TRANSIENT_FAILURE,
            grpc.ChannelConnectivity.SHUTDOWN,
        ):
            states.append(state)
            settled.set()

    channel.subscribe(note, try_to_connect=True)
    by = _clock.now_ns() + int(seconds * NS)
    while not settled.wait(_LOOK_SECONDS) and _clock.now_ns() < by and not is_unwanted():
        pass
    channel.unsubscribe(note)
    return bool(states) and states[0] is grpc.ChannelConnectivity.READY


def _telling(request: Request) -> Callable[[Any], None]:
    def done(call: Any) -> None:
        error = call.exception()
        request.done(call.result() if error is None else _no_answer(error))

    return done


def _no_answer(error: Any) -> NoAnswer:
    return NoAnswer(Lack.FAILED, error.code().value[0], error.details() or "")
