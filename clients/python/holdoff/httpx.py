"""Transports that guard every request of an httpx client.

    client = httpx.Client(transport=HoldoffTransport(holdoff.Client()))

The dependency is the host, unless `dependency` says otherwise, and the methods that HTTP calls
idempotent are retried. Any setting of `Client.call` may be given. A response that counts as a
failure is returned as it is where there is no further attempt; httpx's own errors are raised as
they are. Where no attempt was made, `Denied` is raised, which is a `httpx.TransportError` too,
and where all were cut off at a limit of time `TimedOut`, a `httpx.TimeoutException`. A request with
an `Idempotency-Key` is retried whatever its method. A body that is a stream is sent once.
What an attempt was answered is closed before the next one, and where the call is given up.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

import httpx

from . import _http, aio, classify, denial
from ._calling import Attempt
from ._sync import Client

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._question import Settings

Dependency = Union[str, Callable[[httpx.Request], str]]


class Denied(denial.Denied, httpx.TransportError):
    """No attempt was made."""

    def __init__(self, why: denial.Denied, request: httpx.Request) -> None:
        denial.Denied.__init__(self, why.by, why.reason, why.detail, why.retry_after)
        self._request = request


class TimedOut(denial.TimedOut, httpx.TimeoutException):
    """All attempts were cut off at a limit of time."""

    def __init__(self, why: denial.TimedOut, request: httpx.Request) -> None:
        denial.TimedOut.__init__(self, why.attempts, why.stop.why, why.stop.was_retried)
        self._request = request


class HoldoffTransport(httpx.BaseTransport):
    def __init__(
        self,
        client: Client,
        transport: Optional[httpx.BaseTransport] = None,
        *,
        dependency: Optional[Dependency] = None,
        **settings: Unpack[Settings],
    ) -> None:
        self._client = client
        self._transport = transport or httpx.HTTPTransport()
        self._dependency = dependency
        self._settings = settings

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        responses: list[httpx.Response] = []

        def send(attempt: Attempt) -> httpx.Response:
            _http.let_go(responses)
            response = self._transport.handle_request(_limited(request, attempt.limit))
            responses.append(response)
            return response

        name, settings = _question(request, self._dependency, self._settings)
        try:
            return self._client.call(name, send, **settings)
        except denial.Denied as why:
            raise Denied(why, request) from None
        except denial.TimedOut as why:
            raise TimedOut(why, request) from None
        except BaseException:
            _http.let_go(responses)
            raise

    def close(self) -> None:
        self._transport.close()


class AsyncHoldoffTransport(httpx.AsyncBaseTransport):
    def __init__(
        self,
        client: aio.Client,
        transport: Optional[httpx.AsyncBaseTransport] = None,
        *,
        dependency: Optional[Dependency] = None,
        **settings: Unpack[Settings],
    ) -> None:
        self._client = client
        self._transport = transport or httpx.AsyncHTTPTransport()
        self._dependency = dependency
        self._settings = settings

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        responses: list[httpx.Response] = []

        async def send(attempt: Attempt) -> httpx.Response:
            await _let_go(responses)
            limited = _limited(request, attempt.limit)
            response = await self._transport.handle_async_request(limited)
            responses.append(response)
            return response

        name, settings = _question(request, self._dependency, self._settings)
        try:
            return await self._client.call(name, send, **settings)
        except denial.Denied as why:
            raise Denied(why, request) from None
        except denial.TimedOut as why:
            raise TimedOut(why, request) from None
        except BaseException:
            await _let_go(responses)
            raise

    async def aclose(self) -> None:
        await self._transport.aclose()


async def _let_go(responses: list[httpx.Response]) -> None:
    """As `_http.let_go`, whole also where the caller is cancelled meanwhile."""
    while responses:
        with contextlib.suppress(Exception):
            await asyncio.shield(responses.pop().aclose())


def _question(
    request: httpx.Request, dependency: Optional[Dependency], settings: Settings
) -> tuple[str, Settings]:
    name = (
        dependency(request)
        if callable(dependency)
        else dependency or _http.name_of(str(request.url))
    )
    can_repeat = isinstance(request.stream, httpx.ByteStream)
    said: Any = {"classify": classify.http, **settings}
    return name, _http.settings(said, request.method, request.headers, can_repeat)


def _limited(request: httpx.Request, limit: Optional[float]) -> httpx.Request:
    """Each of httpx's timeouts is at most the attempt's limit."""
    if limit is not None:
        known = request.extensions.get("timeout") or {}
        timeouts = {
            name: _http.least(known.get(name), limit)
            for name in ("connect", "read", "write", "pool")
        }
        request.extensions = {**request.extensions, "timeout": timeouts}
    return request
