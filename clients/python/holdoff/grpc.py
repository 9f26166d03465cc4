"""Interceptors that guard every unary call on a gRPC channel.

    channel = grpc.intercept_channel(channel, HoldoffInterceptor(holdoff.Client()))
    channel = grpc.aio.insecure_channel(target, interceptors=[AioHoldoffInterceptor(client)])

The dependency is the service's name, as in `/shop.v1.Payments/Charge`, unless `dependency` says
otherwise. No call is retried that may have been executed, unless `idempotent=True` says so for
all, or `idempotent_if` for a method. Any setting of `Client.call` may be given. The timeout of a
call is its deadline, for all attempts together.

The last error is raised as it is; where no attempt was made, `Denied` is raised, which is a
`grpc.RpcError` with the code UNAVAILABLE too, and where all were cut off `TimedOut`, with
DEADLINE_EXCEEDED. Calls with streams pass unguarded, and `.future()`
of a guarded one waits for it. Switch gRPC's own retries off (`grpc.enable_retries`), or there are
two of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional, Union

import grpc
import grpc.aio

from . import aio, denial
from ._calling import Attempt
from ._sync import Client

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._question import Settings

Named = Union[str, Callable[[str], str]]
Repeatable = Callable[[str], bool]


class Denied(denial.Denied, grpc.RpcError):
    """No attempt was made."""

    def __init__(self, why: denial.Denied) -> None:
        denial.Denied.__init__(self, why.by, why.reason, why.detail, why.retry_after)

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return str(self)

    def trailing_metadata(self) -> Any:
        return ()


class TimedOut(denial.TimedOut, grpc.RpcError):
    """All attempts were cut off at a limit of time."""

    def __init__(self, why: denial.TimedOut) -> None:
        denial.TimedOut.__init__(self, why.attempts, why.stop.why, why.stop.was_retried)

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.DEADLINE_EXCEEDED

    def details(self) -> str:
        return str(self)

    def trailing_metadata(self) -> Any:
        return ()


class _Details(grpc.ClientCallDetails):
    def __init__(self, details: Any, timeout: float) -> None:
        self.method, self.timeout = details.method, timeout
        self.metadata, self.credentials = details.metadata, details.credentials
        self.wait_for_ready = details.wait_for_ready
        self.compression = getattr(details, "compression", None)


class _Guarding:
    def __init__(
        self, dependency: Optional[Named], idempotent_if: Optional[Repeatable], settings: Any
    ) -> None:
        self._dependency = dependency
        self._idempotent_if = idempotent_if
        self._settings = settings

    def _question(self, method: Any, timeout: Optional[float]) -> tuple[str, Any]:
        text = method.decode() if isinstance(method, bytes) else method
        service = text.rpartition("/")[0].lstrip("/") or "unknown"
        named, settings = self._dependency, dict(self._settings)
        if self._idempotent_if is not None and self._idempotent_if(text):
            settings["idempotent"] = True
        if timeout is not None:
            known = settings.get("deadline")
            settings["deadline"] = timeout if known is None else min(known, timeout)
        return (named(text) if callable(named) else named or service), settings


class HoldoffInterceptor(_Guarding, grpc.UnaryUnaryClientInterceptor):
    def __init__(
        self,
        client: Client,
        *,
        dependency: Optional[Named] = None,
        idempotent_if: Optional[Repeatable] = None,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(dependency, idempotent_if, settings)
        self._client = client

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        def send(attempt: Attempt) -> Any:
            call = continuation(_limited(details, attempt.limit), request)
            error = call.exception()
            if error is not None:
                raise error
            return call

        name, settings = self._question(details.method, details.timeout)
        try:
            return self._client.call(name, send, **settings)
        except denial.Denied as why:
            raise Denied(why) from None
        except denial.TimedOut as why:
            raise TimedOut(why) from None


class AioHoldoffInterceptor(_Guarding, grpc.aio.UnaryUnaryClientInterceptor):
    def __init__(
        self,
        client: aio.Client,
        *,
        dependency: Optional[Named] = None,
        idempotent_if: Optional[Repeatable] = None,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(dependency, idempotent_if, settings)
        self._client = client

    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        async def send(attempt: Attempt) -> Any:
            limit = attempt.limit
            limited = details if limit is None else details._replace(timeout=limit)
            call = await continuation(limited, request)
            await call
            return call

        name, settings = self._question(details.method, details.timeout)
        try:
            return await self._client.call(name, send, **settings)
        except denial.Denied as why:
            raise Denied(why) from None
        except denial.TimedOut as why:
            raise TimedOut(why) from None


def _limited(details: Any, limit: Optional[float]) -> Any:
    if limit is None:
        return details
    return _Details(details, limit)
