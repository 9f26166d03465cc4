"""The client for threads."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar

from . import _clock
from ._answer import AWAY
from ._asking import Asking
from ._attempts import Guard, Guards
from ._calling import Attempt, Calling, Returned, Unraisable, attempt_of, current
from ._core import Mode
from ._flow import AskFleet, Effect, Flow, PlanCheck, Sleep
from ._front import Front
from ._held import Held
from ._permit import Permit as CorePermit
from ._question import Question
from ._threads import ThreadLink
from .denial import Cancelled
from .outcome import Outcome

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, Unpack

    from ._core import Configuration
    from ._question import Asked, Settings

    P = ParamSpec("P")

T = TypeVar("T")
_LOOK_SECONDS = 0.02


class Permit(Held):
    __doc__ = Held.__doc__
    __slots__ = ("_client",)

    def __init__(self, client: Client, permit: CorePermit) -> None:
        super().__init__(permit)
        self._client = client

    def wait(self) -> Permit:
        """Waits for the delay, and makes sure that the permit still holds then. Raises `Denied`
        where it does not, or the deadline has passed.
        """
        self._permit = self._client._drive(self._permit.wait())
        return self

    def retry(self, outcome: Outcome) -> Permit:
        """Says how the attempt ended and asks for the next one. Raises `Denied`."""
        asking = self._permit.next(outcome)
        return Permit(self._client, self._client._drive(asking.ask_once()))

    def __enter__(self) -> Permit:
        return self


class Client(Front):
    """Asks holdoff before a call, retries when it says, and goes on without it when it is away.

        client = holdoff.Client(service="checkout")
        receipt = client.call("payments", charge, idempotent=True, deadline=2.0)

    May be shared by threads. See `holdoff.aio.Client` for asyncio.
    """

    __doc__ += Front.__doc__ or ""

    def _begin(self, configuration: Configuration) -> None:
        super()._begin(configuration)
        self._closes = weakref.finalize(self, _close, [self._core.link])

    def _begin_anew(self, can_connect: bool) -> None:
        self._closes.detach()
        super()._begin_anew(can_connect)
        self._closes = weakref.finalize(self, _close, [self._core.link])

    def _used_grpc(self) -> bool:
        link = self._core.link
        return isinstance(link, ThreadLink) and link.has_begun

    def _leave_grpc(self) -> None:
        link = self._core.link
        if isinstance(link, ThreadLink):
            link.park()

    def _return_to_grpc(self) -> None:
        link = self._core.link
        if isinstance(link, ThreadLink):
            link.unpark()

    @staticmethod
    def _make_link(*settings: Any) -> ThreadLink:
        return ThreadLink(*settings)

    def call(
        self, dependency: str, function: Callable[[Attempt], T], **settings: Unpack[Settings]
    ) -> T:
        """A call with all that belongs to it: question, delay, attempt, report, retry.

        `function` gets an `Attempt`, whose `limit` it must keep to: nothing cuts a blocking
        function off. What it raises last is raised as it is, with the reason why there was no
        further attempt for `holdoff.stopped`; `Denied` is raised where it was never called.
        """
        calling = Calling(self._core, dependency, settings)
        try:
            return self._run(calling, function)
        except Exception as error:
            fallen: T = calling.fall_back(error)
            return fallen

    def guarded(
        self, dependency: str, **settings: Unpack[Settings]
    ) -> Callable[[Callable[P, T]], Callable[P, T]]:
        """Guards each call of the decorated function. `holdoff.attempt()` in it tells of the
        attempt.
        """

        def guard(function: Callable[P, T]) -> Callable[P, T]:
            @functools.wraps(function)
            def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
                def run(attempt: Attempt) -> T:
                    token = current.set(attempt)
                    try:
                        return function(*args, **kwargs)
                    finally:
                        current.reset(token)

                return self.call(dependency, run, **settings)

            return guarded

        return guard

    def attempts(self, dependency: str, **settings: Unpack[Settings]) -> Attempts:
        """A loop of attempts.

            for attempt in client.attempts("payments", idempotent=True):
                with attempt:
                    charge(order, timeout=attempt.limit)

        The loop ends with the first block that ends well. An error is swallowed where there is a
        next attempt, and raised where there is none.
        """
        return Attempts(self, Guards(Calling(self._core, dependency, settings)))

    def acquire(self, dependency: str, **asked: Unpack[Asked]) -> Permit:
        """Only the question. `Permit.wait` before the attempt, `Permit.report` or `Permit.retry`
        after it. Raises `Denied`.
        """
        asking = Asking(self._core, Question(dependency, asked))
        return Permit(self, self._drive(asking.ask_once()))

    def connect(self, timeout: float = 1.0) -> bool:
        """Connects now rather than with the first question, which may then be answered in time,
        and waits for the state of what `follow` names, no longer than for an answer. False: the
        service was not reached within `timeout`.
        """
        link = self._core.link
        if not isinstance(link, ThreadLink) or not link.connect(timeout):
            return False
        link.until_heard(min(self._core.timeout, timeout))
        return True

    def flush(self, timeout: float = 1.0) -> bool:
        """Waits until the service has taken all outcomes; for a process that ends now. False:
        some were still on their way after `timeout`.
        """
        link = self._core.link
        return not isinstance(link, ThreadLink) or link.flush(timeout)

    def close(self) -> None:
        """Sends the last outcomes, for a second at most, and disconnects. Calls still work, but
        are decided locally.
        """
        self._closes()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, calling: Calling, function: Callable[[Attempt], T]) -> T:
        while True:
            permit = calling.at_once()
            if permit is None:
                try:
                    permit = self._drive(calling.permission(), calling.cancel)
                except Returned:
                    value: T = calling.returned_value()
                    return value
                except Unraisable:
                    pass
                if permit is None:
                    assert calling.error is not None
                    raise calling.error
            begun = _clock.now_ns()
            try:
                value = function(attempt_of(permit))
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

    def _drive(self, flow: Flow[T], cancel: Optional[threading.Event] = None) -> T:
        """Performs what a flow waits for."""
        try:
            effect = next(flow)
            while True:
                try:
                    result = self._perform(effect, cancel)
                except BaseException as error:
                    effect = flow.throw(error)
                else:
                    effect = flow.send(result)
        except StopIteration as done:
            value: T = done.value
            return value

    def _perform(self, effect: Effect, cancel: Optional[threading.Event]) -> Any:
        if cancel is not None and cancel.is_set():
            raise Cancelled
        if isinstance(effect, Sleep):
            if self._core.mode is not Mode.TESTING:
                _sleep(effect, cancel)
            return None
        link = self._core.link
        if not isinstance(link, ThreadLink):
            return AWAY
        if isinstance(effect, AskFleet):
            return link.ask(effect.request, self._core.timeout)
        assert isinstance(effect, PlanCheck)
        return link.plan_check(effect.request, effect.seconds)


class Attempts(Iterator[Guard]):
    """See `Client.attempts`."""

    def __init__(self, client: Client, guards: Guards) -> None:
        self._client = client
        self._guards = guards

    def __iter__(self) -> Attempts:
        return self

    def __next__(self) -> Guard:
        guard = self._client._drive(self._guards.next(), self._guards.cancel)
        if guard is None:
            raise StopIteration
        return guard


def _sleep(effect: Sleep, cancel: Optional[threading.Event]) -> None:
    if effect.pushed is None or effect.is_over is None:
        if cancel is None:
            time.sleep(effect.seconds)
        elif cancel.wait(effect.seconds):
            raise Cancelled
        return
    tripped = threading.Event()
    effect.pushed.listen(tripped.set)
    try:
        if not effect.is_over():
            _until(tripped, effect.seconds, cancel)
    finally:
        effect.pushed.ignore(tripped.set)


def _until(tripped: threading.Event, seconds: float, cancel: Optional[threading.Event]) -> None:
    """Nothing waits for two events at once, so that the second is looked at now and then."""
    if cancel is None:
        tripped.wait(seconds)
        return
    by = time.monotonic() + seconds
    while not tripped.wait(max(min(by - time.monotonic(), _LOOK_SECONDS), 0.0)):
        if cancel.is_set():
            raise Cancelled
        if time.monotonic() >= by:
            return


def _close(links: list[Any]) -> None:
    for link in links:
        if link is not None:
            link.close()
