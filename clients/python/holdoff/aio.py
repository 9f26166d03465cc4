"""The client for asyncio: the same words, awaited.

    client = holdoff.aio.Client(service="checkout")
    receipt = await client.call("payments", charge, idempotent=True, deadline=2.0)

The connection lives in the event loop of whoever asks first, and begins anew where that loop is
gone. A client is for one loop at a time, and not for other threads.
"""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import AsyncIterator, Awaitable
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar

from . import _clock
from ._aio_check import check
from ._aio_supervise import supervise
from ._answer import AWAY
from ._asking import Asking
from ._attempts import Guard, Guards
from ._calling import Attempt, Calling, Returned, attempt_of, current
from ._core import Mode
from ._flow import AskFleet, Effect, Flow, PlanCheck, Sleep
from ._front import Front
from ._held import Held
from ._permit import Permit as CorePermit
from ._question import Question
from ._tasks import TaskLink
from .denial import Cancelled
from .outcome import Outcome

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, Unpack

    from ._core import Configuration
    from ._question import Asked, Settings

    P = ParamSpec("P")

T = TypeVar("T")


class Permit(Held):
    __doc__ = Held.__doc__
    __slots__ = ("_client",)

    def __init__(self, client: Client, permit: CorePermit) -> None:
        super().__init__(permit)
        self._client = client

    async def wait(self) -> Permit:
        """Waits for the delay, and makes sure that the permit still holds then. Raises `Denied`
        where it does not, or the deadline has passed.
        """
        self._permit = await self._client._drive(self._permit.wait())
        return self

    async def retry(self, outcome: Outcome) -> Permit:
        """Says how the attempt ended and asks for the next one. Raises `Denied`."""
        asking = self._permit.next(outcome)
        return Permit(self._client, await self._client._drive(asking.ask_once()))

    def __enter__(self) -> Permit:
        return self


class Client(Front):
    __doc__ = Front.__doc__

    def _begin(self, configuration: Configuration) -> None:
        super()._begin(configuration)
        self._closes = weakref.finalize(self, _close_soon, self._core.link)

    def _begin_anew(self, can_connect: bool) -> None:
        self._closes.detach()
        super()._begin_anew(can_connect)
        self._closes = weakref.finalize(self, _close_soon, self._core.link)

    def _used_grpc(self) -> bool:
        link = self._core.link
        return isinstance(link, TaskLink) and link.has_begun

    @staticmethod
    def _make_link(*settings: Any) -> TaskLink:
        return TaskLink(*settings)

    async def call(
        self,
        dependency: str,
        function: Callable[[Attempt], Awaitable[T]],
        **settings: Unpack[Settings],
    ) -> T:
        """A call with all that belongs to it: question, delay, attempt, report, retry.

        `function` gets an `Attempt` and is cut off at its `limit`. What it raises last is raised
        as it is, with the reason why there was no further attempt for `holdoff.stopped`; `Denied`
        is raised where it was never called, `TimedOut` where it was cut off each time.
        """
        calling = Calling(self._core, dependency, settings)
        try:
            return await self._run(calling, function)
        except Exception as error:
            fallen = calling.fall_back(error)
            value: T = await fallen if isinstance(fallen, Awaitable) else fallen
            return value

    def guarded(
        self, dependency: str, **settings: Unpack[Settings]
    ) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
        """Guards each call of the decorated function. `holdoff.attempt()` in it tells of the
        attempt.
        """

        def guard(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
            @functools.wraps(function)
            async def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
                async def run(attempt: Attempt) -> T:
                    token = current.set(attempt)
                    try:
                        return await function(*args, **kwargs)
                    finally:
                        current.reset(token)

                return await self.call(dependency, run, **settings)

            return guarded

        return guard

    def attempts(self, dependency: str, **settings: Unpack[Settings]) -> Attempts:
        """A loop of attempts.

            async for attempt in client.attempts("payments", idempotent=True):
                with attempt:
                    await charge(order, timeout=attempt.limit)

        The loop ends with the first block that ends well. An error is swallowed where there is a
        next attempt, and raised where there is none. Nothing cuts a block off.
        """
        return Attempts(self, Guards(Calling(self._core, dependency, settings)))

    async def acquire(self, dependency: str, **asked: Unpack[Asked]) -> Permit:
        """Only the question. `Permit.wait` before the attempt, `Permit.report` or `Permit.retry`
        after it. Raises `Denied`.
        """
        asking = Asking(self._core, Question(dependency, asked))
        return Permit(self, await self._drive(asking.ask_once()))

    async def connect(self, timeout: float = 1.0) -> bool:
        """Connects now rather than with the first question, which may then be answered in time,
        and waits for the state of what `follow` names, no longer than for an answer. False: the
        service was not reached within `timeout`.
        """
        link = self._core.link
        if not isinstance(link, TaskLink) or not await link.connect(timeout):
            return False
        await link.until_heard(min(self._core.timeout, timeout))
        return True

    async def flush(self, timeout: float = 1.0) -> bool:
        """Waits until the service has taken all outcomes; for a process that ends now. False:
        some were still on their way after `timeout`.
        """
        link = self._core.link
        return not isinstance(link, TaskLink) or await link.flush(timeout)

    async def close(self) -> None:
        """Sends the last outcomes, for a second at most, and disconnects. Calls still work, but
        are decided locally.
        """
        link = self._core.link
        if isinstance(link, TaskLink):
            await link.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, calling: Calling, function: Callable[[Attempt], Awaitable[T]]) -> T:
        while True:
            permit = calling.at_once()
            if permit is None:
                try:
                    permit = await self._drive(calling.permission())
                except Returned:
                    value: T = calling.returned_value()
                    return value
            attempt = attempt_of(permit)
            begun = _clock.now_ns()
            try:
                value = await _limited(function(attempt), attempt.limit)
            except _CutOff:
                calling.timed_out(permit, _clock.now_ns() - begun)
            except Cancelled:
                permit.cancel()
                raise
            except Exception as error:
                calling.failed(permit, error, begun)
            except BaseException:
                permit.cancel()
                raise
            else:
                if calling.returned(permit, value, _clock.now_ns() - begun):
                    return value

    async def _drive(self, flow: Flow[T]) -> T:
        """Performs what a flow waits for."""
        try:
            effect = next(flow)
            while True:
                try:
                    result = await self._perform(effect)
                except BaseException as error:
                    effect = flow.throw(error)
                else:
                    effect = flow.send(result)
        except StopIteration as done:
            value: T = done.value
            return value

    async def _perform(self, effect: Effect) -> Any:
        if isinstance(effect, Sleep):
            return await self._sleep(effect)
        link = self._core.link
        if not isinstance(link, TaskLink):
            return AWAY
        if isinstance(effect, AskFleet):
            return await link.ask(effect.request, self._core.timeout)
        assert isinstance(effect, PlanCheck)
        return await link.plan_check(effect.request, effect.seconds)

    async def _sleep(self, effect: Sleep) -> None:
        if self._core.mode is Mode.TESTING:
            return
        if effect.pushed is None or effect.is_over is None:
            await asyncio.sleep(effect.seconds)
            return
        tripped = asyncio.Event()
        effect.pushed.listen(tripped.set)
        try:
            if not effect.is_over():
                await asyncio.wait_for(tripped.wait(), effect.seconds)
        except asyncio.TimeoutError:
            pass
        finally:
            effect.pushed.ignore(tripped.set)


class Attempts(AsyncIterator[Guard]):
    """See `Client.attempts`."""

    def __init__(self, client: Client, guards: Guards) -> None:
        self._client = client
        self._guards = guards

    def __aiter__(self) -> Attempts:
        return self

    async def __anext__(self) -> Guard:
        guard = await self._client._drive(self._guards.next())
        if guard is None:
            raise StopAsyncIteration
        return guard


class _CutOff(Exception):
    """The attempt's own limit was reached; not a timeout that the function itself has met."""


async def _limited(running: Awaitable[T], seconds: Optional[float]) -> T:
    if seconds is None:
        return await running
    task = asyncio.ensure_future(running)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except BaseException:
        task.cancel()
        await asyncio.wait({task})
        raise
    if done:
        return task.result()
    task.cancel()
    # What it does about that is waited for, but what it says is too late.
    await asyncio.wait({task})
    raise _CutOff


def _close_soon(link: Any) -> None:
    if link is not None:
        link.close_soon()


__all__ = ["Attempts", "Client", "Permit", "check", "supervise"]
