"""The link on an event loop: one task that dials and reads, and one that writes.

They begin in the loop of whoever asks, and begin anew where that loop is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Optional

import grpc
import grpc.aio

from . import _clock, _wire
from ._answer import LATE, LOST, Ask, Lack, NoAnswer, Reply
from ._course import End
from ._link import DIAL_MAX, FAREWELL, Link, log
from ._rules.arithmetic import NS
from ._session import Session
from ._unary import CALL_SECONDS, Request, Unary

_GAP_SECONDS = 0.1
_HELD_UP_SECONDS = 0.005
_TAKES_IT_SECONDS = 0.1
_INTERNAL = 13
_READY = grpc.ChannelConnectivity.READY


class TaskSlot:
    """Where a task waits for a reply."""

    __slots__ = ("_future", "_loop", "_timer", "is_gone")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[Reply] = self._loop.create_future()
        self.is_gone = False

    def put(self, reply: Reply) -> bool:
        if self.is_gone or self._future.done():
            return False
        try:
            self._future.set_result(reply)
        except RuntimeError:  # Its loop is closed.
            return False
        return True

    async def wait(self, seconds: float) -> Reply:
        """`LATE` where nothing came; what comes afterwards is refused."""
        due = self._loop.time() + seconds
        self._timer = self._loop.call_at(due, self._is_late, due)
        try:
            return await self._future
        finally:
            self.is_gone = True
            self._timer.cancel()

    def unwanted(self) -> Optional[Any]:
        """An answer that has come and is not wanted."""
        future = self._future
        return future.result() if future.done() and not future.cancelled() else None

    def _is_late(self, due: float) -> None:
        """Where the loop itself was held up, the answer may have come, and is read now."""
        if self._loop.time() - due > _HELD_UP_SECONDS:
            due = self._loop.time() + _HELD_UP_SECONDS
            self._timer = self._loop.call_at(due, self._answer_late)
        else:
            self._answer_late()

    def _answer_late(self) -> None:
        if not self._future.done():
            self._future.set_result(LATE)


class TaskLink(Link):
    def __init__(self, *settings: Any) -> None:
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        super().__init__(*settings)
        self._changed: asyncio.Event  # Of the loop; before Python 3.10 it belongs to one.
        self._task: Optional[asyncio.Task[None]] = None
        self._call: Any = None

    def wake(self) -> None:
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        if asyncio._get_running_loop() is loop:
            self._changed.set()
        else:  # A permit that was collected in another thread.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._changed.set)

    def begin(self) -> bool:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # Nothing of the loop before can be used any more.
            self._current = self._call = self._channel = self._task = None
            self._changed, self.is_waiting = asyncio.Event(), True
            self.waiting.lost()
            self._loop = loop
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run(), name="holdoff")
        return True

    def leave(self, end: End) -> None:
        if self._current is None:
            return
        self._current.ends_as = end
        if self._call is not None:
            self._call.cancel()
        self.wake()

    async def ask(self, request: Any, seconds: float) -> Reply:
        """Asks, and waits for so long at most."""
        slot = TaskSlot()
        passed = self.enter(request, slot, seconds)
        if isinstance(passed, NoAnswer):
            return passed
        try:
            return self.settle(passed, await slot.wait(passed.wait_ns / NS))
        except BaseException:
            self.give_up(passed)
            unwanted = slot.unwanted()
            if unwanted is not None and not isinstance(unwanted, NoAnswer):
                self.give_back(unwanted)
            raise

    async def connect(self, seconds: float) -> bool:
        """Connects now. False: it could not."""
        slot = TaskSlot()
        if self.submit(Ask(None, slot)) is not None:
            return False
        return await slot.wait(seconds) is True

    async def until_heard(self, seconds: float) -> None:
        """Waits for the state of what is followed."""
        by = _clock.now_ns() + int(seconds * 1e9)
        while not self.pushed.has_heard_all_wished() and _clock.now_ns() < by:
            await _a_moment()

    async def flush(self, seconds: float) -> bool:
        """Returns when all outcomes have been taken or lost, or the time is over."""
        by = _clock.now_ns() + int(seconds * 1e9)
        while not self.reports.is_empty():
            if _clock.now_ns() >= by:
                return False
            self.begin()
            self.reports.hurry()
            await _a_moment()
        return True

    async def plan_check(self, request: Any, seconds: float) -> Any:
        """One unary request on the connection that stands. It touches no gate: nobody waits for
        a plan, and a service that answers calls may have no plans.
        """
        is_shut = self.gate.shut_until(_clock.now_ns()) is not None
        if is_shut or not await self.connect(seconds) or self._channel is None:
            return NoAnswer(Lack.AWAY)
        index, channel = self._channel
        metadata = self.metadata(index)
        if metadata is None:
            return NoAnswer(Lack.AWAY)
        request = Request("PlanCheck", self.fill_check(request), lambda _: None)
        return await self._requested(_wire.stub(channel), metadata, request, seconds)

    async def close(self) -> None:
        """Sends what is left, for a second at most, and ends the task."""
        self.close_soon()
        task = self._task
        if task is None or task.done() or asyncio.get_running_loop() is not self._loop:
            return
        await asyncio.wait({task}, timeout=FAREWELL)
        if not task.done():
            self.leave(End.UNWANTED)
            task.cancel()
            await asyncio.wait({task}, timeout=FAREWELL)

    @property
    def has_begun(self) -> bool:
        return self._loop is not None

    def close_soon(self) -> None:
        self.is_closed = True
        self.wake()

    async def _run(self) -> None:
        try:
            while await self._until_wanted():
                try:
                    await self._connect_once()
                except Exception:
                    self.is_ill()
        finally:
            self.is_waiting = True
            self.refuse_inbox()

    async def _until_wanted(self) -> bool:
        self.is_waiting = True
        while not self.is_closed:
            self._changed.clear()
            wait = self.patience()
            if wait is not None and wait <= 0.0:
                self.is_waiting = False
                return True
            await self._wait(wait)
        return self.says_farewell()

    async def _wait(self, seconds: Optional[float]) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    async def _connect_once(self) -> None:
        dialled = await self._dial()
        if dialled is None:
            self.nothing_reachable()
            return
        index, channel = dialled
        self.counters.connections += 1
        # What is cancelled, with its loop, has not met an ill service.
        self._channel, end = dialled, End.AGAIN
        self.reports.stream_begins()
        try:
            is_unary = self.course.is_unary(index)
            end = End.UNIMPLEMENTED if is_unary else await self._stream(index, channel)
            if end is End.UNSAID:
                self.reports.broken()
                end = await self._stream(index, channel, _TAKES_IT_SECONDS)
            if end is End.UNIMPLEMENTED:
                self.course.note_unary(index)
                end = await self._requests(index, channel)
        finally:
            self._channel = self._current = self._call = None
            self.has_ended(index, end)
            await channel.close()

    async def _dial(self) -> Optional[tuple[int, Any]]:
        """Each endpoint once, in order. None: none could be reached."""
        count = len(self.endpoints)
        for step in range(count):
            index = (self.course.start + step) % count
            channel = await self._dial_one(index)
            if channel is not None:
                return index, channel
        return None

    async def _dial_one(self, index: int) -> Optional[Any]:
        channel = self.endpoints[index].connect_aio()
        try:
            if await asyncio.wait_for(_is_ready(channel), DIAL_MAX):
                return channel
        except asyncio.TimeoutError:
            pass
        except BaseException:
            await channel.close()
            raise
        log.debug("holdoff is not reachable at %s", self.endpoints[index].target)
        await channel.close()
        return None

    async def _stream(self, index: int, channel: Any, patience: float = 0.0) -> End:
        """`patience`: so long is waited for the service to take the stream before anything is
        written. gRPC gives a stream that ends while something is written a status of its own, and
        what the service said is lost: whoever has met that looks once more.
        """
        session = Session(self, index)
        metadata = self.endpoints[index].metadata()
        call = _wire.stub(channel).Session(metadata=metadata)
        self._current, self._call = session, call
        taken = asyncio.ensure_future(call.initial_metadata())
        writer = asyncio.ensure_future(self._write(session, call, taken, patience))
        code = 0
        try:
            await taken
            if not call.done():
                session.opened()
            while True:
                response = await call.read()
                if response is grpc.aio.EOF:
                    code, self._cause = (await call.code()).value[0], await call.details() or ""
                    break
                session.take(response)
        except grpc.aio.AioRpcError as error:
            code, self._cause = error.code().value[0], error.details() or ""
        except asyncio.CancelledError:
            if session.ends_as is None and not self.is_closed:
                raise
        finally:
            end = session.end_of(code)
            if code == _INTERNAL and end is End.BROKEN_UNHEARD and not patience:
                end = End.UNSAID
            session.close(end)
            taken.cancel()
            writer.cancel()
            call.cancel()
        return end

    async def _write(self, session: Session, call: Any, taken: Any, patience: float) -> None:
        if patience:
            await asyncio.wait({taken}, timeout=patience)
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            while not session.is_over:
                if session.wants_to_look_home():
                    self._looking = asyncio.ensure_future(self._look_home(session))
                self._changed.clear()
                end = session.overdue()
                if end is not None:
                    self.leave(end)
                    return
                if self.is_closed:
                    break
                message = session.pull()
                if message is None:
                    await self._wait(session.patience())
                else:
                    await call.write(message)
            await self._say_farewell(session, call)

    async def _say_farewell(self, session: Session, call: Any) -> None:
        by = _clock.now_ns() + int(FAREWELL * 1e9)
        while not session.is_over and _clock.now_ns() < by:
            self.reports.hurry()
            message = session.pull()
            if message is not None:
                await call.write(message)
            elif session.is_idle and self.reports.is_empty():
                break
            else:
                await _a_moment()
        await call.done_writing()

    async def _look_home(self, session: Session) -> None:
        """Leaves for the preferred endpoint where it is back, between questions if they leave a
        gap.
        """
        channel = await self._dial_one(0)
        if channel is None:
            return
        await channel.close()
        by = _clock.now_ns() + int(_GAP_SECONDS * 1e9)
        while not session.is_idle and _clock.now_ns() < by:
            await _a_moment()
        session.ends_as = session.ends_as or End.AGAIN
        self.wake()

    async def _requests(self, index: int, channel: Any) -> End:
        """The same without a stream."""
        unary = Unary(self, lambda: channel.get_state() is _READY)
        self._current = unary
        self.is_open()
        stub, tasks = _wire.stub(channel), set()
        try:
            while True:
                self._changed.clear()
                end = unary.overdue()
                if end is not None:
                    return end
                request = unary.next()
                if request is not None:
                    metadata = self.metadata(index)
                    if metadata is None:
                        return self.without_token(request)
                    told = self._told(stub, metadata, request)
                    task = asyncio.ensure_future(told)
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                else:
                    await self._wait(unary.patience())
        finally:
            for task in tasks:
                task.cancel()

    async def _told(self, stub: Any, metadata: Any, request: Request) -> None:
        reply: Any = LOST
        try:
            reply = await self._requested(stub, metadata, request, CALL_SECONDS)
        finally:
            request.done(reply)

    async def _requested(self, stub: Any, metadata: Any, request: Request, seconds: float) -> Any:
        try:
            return await getattr(stub, request.method)(
                request.message, timeout=seconds, metadata=metadata
            )
        except grpc.aio.AioRpcError as error:
            return NoAnswer(Lack.FAILED, error.code().value[0], error.details() or "")
        except (asyncio.InvalidStateError, grpc.aio.UsageError):
            return LOST  # The channel was closed meanwhile.


async def _a_moment() -> None:
    await asyncio.sleep(0.001)


async def _is_ready(channel: Any) -> bool:
    """Whether the connection stands. One that is refused is known at once."""
    state = channel.get_state(try_to_connect=True)
    while state is not _READY:
        if state in (
            grpc.ChannelConnectivity.TRANSIENT_FAILURE,
            grpc.ChannelConnectivity.SHUTDOWN,
        ):
            return False
        await channel.wait_for_state_change(state)
        state = channel.get_state()
    return True
