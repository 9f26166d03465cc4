"""httpx, requests and gRPC, each with what it has in hand."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any, Callable

import grpc
import grpc.aio
import httpx
import pytest
import requests

import holdoff
import holdoff.aio
import holdoff.grpc
import holdoff.httpx
import holdoff.requests
from holdoff import Reason, _http


class Shop(http.server.BaseHTTPRequestHandler):
    """Answers 503 twice, then 200."""

    seen: list[tuple[str, bytes]]

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.seen.append((self.command, body))
        status = 200 if len(self.seen) % 3 == 0 else 503
        self.send_response(status)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def shop() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    seen: list[tuple[str, bytes]] = []
    handler = type("Handler", (Shop,), {"seen": seen})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()


def raising(attempt: holdoff.Attempt) -> None:
    raise ConnectionResetError


def alone() -> holdoff.Client:
    policy = holdoff.local_policy(initial_delay=0.001)
    return holdoff.Client(["http://127.0.0.1:1"], service="test", local_policy=policy)


def test_httpx_retries_what_http_calls_idempotent(shop: Any) -> None:
    url, seen = shop
    transport = holdoff.httpx.HoldoffTransport(alone())
    with httpx.Client(transport=transport) as client:
        assert client.get(url).status_code == 200
        assert client.put(url, content=b"body").status_code == 200
        assert client.post(url, content=b"body").status_code == 503, "once, and as it is"
    assert [command for command, _ in seen] == ["GET"] * 3 + ["PUT"] * 3 + ["POST"]
    assert {body for command, body in seen if command == "PUT"} == {b"body"}


def test_httpx_sends_a_stream_once(shop: Any) -> None:
    url, seen = shop
    transport = holdoff.httpx.HoldoffTransport(alone())
    with httpx.Client(transport=transport) as client:
        assert client.put(url, content=iter([b"a", b"b"])).status_code == 503
    assert len(seen) == 1


def test_httpx_awaits(shop: Any) -> None:
    url, seen = shop

    async def get() -> int:
        policy = holdoff.local_policy(initial_delay=0.001)
        own = holdoff.aio.Client(["http://127.0.0.1:1"], local_policy=policy)
        transport = holdoff.httpx.AsyncHoldoffTransport(own, dependency="shop")
        async with httpx.AsyncClient(transport=transport) as client, own:
            return (await client.get(url)).status_code

    assert asyncio.run(get()) == 200
    assert len(seen) == 3


def test_httpx_raises_its_own_error_and_a_denial_as_one_of_its_own() -> None:
    own = alone()
    transport = holdoff.httpx.HoldoffTransport(own)
    with httpx.Client(transport=transport) as client:
        with pytest.raises(httpx.ConnectError) as refused:
            client.get("http://127.0.0.1:1")
        why = holdoff.stopped(refused.value)
        assert why is not None and why.reason is Reason.ATTEMPTS_EXHAUSTED
        broken_after_failures(own, "127.0.0.1:1")
        with pytest.raises(httpx.TransportError) as denied:
            client.get("http://127.0.0.1:1")
    assert isinstance(denied.value, holdoff.Denied)
    assert denied.value.reason is Reason.BREAKER_OPEN
    assert denied.value.request.url.host == "127.0.0.1"


def broken_after_failures(client: Any, dependency: str) -> None:
    """Opens the local breaker."""
    for _ in range(5):
        with contextlib.suppress(ConnectionResetError, holdoff.Denied):
            client.call(dependency, raising)


def test_httpx_keeps_to_the_attempts_limit() -> None:
    seen: list[Any] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request.extensions["timeout"])
        return httpx.Response(200)

    transport = holdoff.httpx.HoldoffTransport(
        holdoff.Client.testing(), httpx.MockTransport(handle), attempt_timeout=1.5
    )
    with httpx.Client(transport=transport, timeout=httpx.Timeout(5.0, connect=0.5)) as client:
        client.get("http://shop")
    assert seen == [{"connect": 0.5, "read": 1.5, "write": 1.5, "pool": 1.5}]


class Answers:
    """A transport of each kind, whose 503 asks for a wait in which the call is given up. `closed`
    counts its responses that were closed.
    """

    def __init__(self) -> None:
        self.cancel = threading.Event()
        self.sent = self.closed = 0

    def close(self) -> None:
        self.closed += 1
        if self.closed == 2:
            raise OSError("that hides nothing")

    def body(self) -> Any:
        answers = self

        class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
            def close(self) -> None:
                answers.close()

            async def aclose(self) -> None:
                await asyncio.sleep(0)
                answers.close()

        return Body()

    def handle_request(self, request: Any) -> Any:
        self.sent += 1
        self.cancel.set()
        return httpx.Response(503, headers={"retry-after": "30"}, stream=self.body())

    async def handle_async_request(self, request: Any) -> Any:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()  # At what it awaits next.
        return self.handle_request(request)

    def send(self, request: Any, *_: Any) -> Any:
        self.sent += 1
        self.cancel.set()
        response = requests.Response()
        response.status_code, response.headers["retry-after"] = 503, "30"
        response.close = self.close  # type: ignore[method-assign]
        return response


def test_httpx_closes_what_was_answered_before_the_call_was_given_up() -> None:
    answers: Any = Answers()
    own = holdoff.Client(["http://127.0.0.1:1"])
    transport = holdoff.httpx.HoldoffTransport(own, answers, cancel=answers.cancel)
    for host in "abc":
        answers.cancel.clear()
        with pytest.raises(holdoff.Cancelled):
            transport.handle_request(httpx.Request("GET", f"http://{host}"))
    assert (answers.sent, answers.closed) == (3, 3)


def test_requests_closes_what_was_answered_before_the_call_was_given_up() -> None:
    answers: Any = Answers()
    own = holdoff.Client(["http://127.0.0.1:1"])
    adapter = holdoff.requests.HoldoffAdapter(own, answers, cancel=answers.cancel)
    for host in "abc":
        answers.cancel.clear()
        with pytest.raises(holdoff.Cancelled):
            adapter.send(requests.Request("GET", f"http://{host}").prepare())
    assert (answers.sent, answers.closed) == (3, 3)


def test_httpx_closes_what_was_answered_before_the_task_was_cancelled() -> None:
    answers: Any = Answers()

    async def give_up() -> None:
        own = holdoff.aio.Client(["http://127.0.0.1:1"])
        transport = holdoff.httpx.AsyncHoldoffTransport(own, answers)
        async with own:
            for host in "abc":
                request = httpx.Request("GET", f"http://{host}")
                task = asyncio.ensure_future(transport.handle_async_request(request))
                with pytest.raises(asyncio.CancelledError):
                    await task

    asyncio.run(give_up())
    assert (answers.sent, answers.closed) == (3, 3)


def test_requests_retries_what_http_calls_idempotent(shop: Any) -> None:
    url, seen = shop
    with requests.Session() as session:
        session.mount("http://", holdoff.requests.HoldoffAdapter(alone()))
        assert session.get(url, timeout=5).text == "ok"
        assert session.put(url, data=iter([b"a"]), timeout=5).status_code == 503
    assert [command for command, _ in seen] == ["GET"] * 3 + ["PUT"]


def test_requests_raises_its_own_error_and_a_denial_as_one_of_its_own() -> None:
    own = alone()
    with requests.Session() as session:
        session.mount("http://", holdoff.requests.HoldoffAdapter(own))
        with pytest.raises(requests.ConnectionError) as refused:
            session.get("http://127.0.0.1:1", timeout=5)
        assert not isinstance(refused.value, holdoff.Denied)
        why = holdoff.stopped(refused.value)
        assert why is not None and why.reason is Reason.ATTEMPTS_EXHAUSTED
        broken_after_failures(own, "127.0.0.1:1")
        with pytest.raises(requests.ConnectionError) as denied:
            session.get("http://127.0.0.1:1", timeout=5)
    assert isinstance(denied.value, holdoff.Denied)


def test_refusals_of_every_library_are_not_sent() -> None:
    kinds = []
    for get in (
        lambda: httpx.get("http://127.0.0.1:1"),
        lambda: requests.get("http://127.0.0.1:1", timeout=5),
        lambda: httpx.get("http://no-such-host.invalid"),
        lambda: requests.get("http://no-such-host.invalid", timeout=5),
    ):
        with pytest.raises((httpx.ConnectError, requests.ConnectionError)) as raised:
            get()
        kinds.append(holdoff.classify.of_error(raised.value).kind)
    assert kinds == [holdoff.OutcomeKind.NOT_SENT] * 4


def test_timeouts_of_every_library_are_timeouts() -> None:
    for error in (
        httpx.ReadTimeout("slow"),
        httpx.PoolTimeout("full"),
        requests.ReadTimeout("slow"),
        TimeoutError(),
        asyncio.TimeoutError(),
    ):
        assert holdoff.classify.of_error(error).kind is holdoff.OutcomeKind.TIMEOUT


Handler = Callable[[bytes, grpc.ServicerContext], bytes]


@pytest.fixture
def echo() -> Iterator[tuple[str, list[float]]]:
    """A gRPC service that is unavailable twice, then answers."""
    times: list[float] = []

    def method(request: bytes, context: grpc.ServicerContext) -> bytes:
        times.append(context.time_remaining() or 0.0)
        if len(times) % 3:
            context.set_trailing_metadata((("grpc-retry-pushback-ms", "5"),))
            context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        return request

    server = grpc.server(futures.ThreadPoolExecutor(4))
    handlers: Any = {"Say": grpc.unary_unary_rpc_method_handler(method)}
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("shop.v1.Echo", handlers),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}", times
    server.stop(0)


NO_RETRIES = (("grpc.enable_retries", 0),)


def pushback_of_5_ms() -> holdoff.Policy:
    return holdoff.local_policy(initial_delay=0.001, pushback_spread=0.0)


def test_grpc_calls_are_retried_within_their_timeout(echo: Any) -> None:
    target, times = echo
    own = holdoff.Client(["http://127.0.0.1:1"], local_policy=pushback_of_5_ms())
    interceptor = holdoff.grpc.HoldoffInterceptor(
        own, idempotent_if=lambda method: method.endswith("/Say"), attempt_timeout=1.0
    )
    with grpc.insecure_channel(target, NO_RETRIES) as plain:
        say: Any = grpc.intercept_channel(plain, interceptor).unary_unary("/shop.v1.Echo/Say")
        assert say(b"hello", timeout=5.0) == b"hello"
    assert len(times) == 3
    assert all(remaining < 1.5 for remaining in times)


def test_grpc_errors_are_their_own_and_denials_have_a_code(echo: Any) -> None:
    target, times = echo
    own = holdoff.Client(["http://127.0.0.1:1"])
    interceptor = holdoff.grpc.HoldoffInterceptor(own)
    with grpc.insecure_channel(target, NO_RETRIES) as plain:
        say: Any = grpc.intercept_channel(plain, interceptor).unary_unary("/shop.v1.Echo/Say")
        with pytest.raises(grpc.RpcError) as raised:
            say(b"hello", timeout=5.0)
        assert raised.value.details() == "not now"
        why = holdoff.stopped(raised.value)
        assert why is not None and why.reason is Reason.RETRY_UNSAFE
        broken_after_failures(own, "shop.v1.Echo")
        with pytest.raises(grpc.RpcError) as denied:
            say(b"hello", timeout=5.0)
    assert isinstance(denied.value, holdoff.Denied)
    assert denied.value.code() is grpc.StatusCode.UNAVAILABLE
    assert len(times) == 1


def test_grpc_awaits(echo: Any) -> None:
    target, times = echo

    async def say() -> tuple[bytes, Any]:
        own = holdoff.aio.Client(["http://127.0.0.1:1"], local_policy=pushback_of_5_ms())
        safe = holdoff.grpc.AioHoldoffInterceptor(own, idempotent=True)
        unsafe = holdoff.grpc.AioHoldoffInterceptor(own)
        async with own:
            async with grpc.aio.insecure_channel(
                target, NO_RETRIES, interceptors=[safe]
            ) as channel:
                method: Any = channel.unary_unary("/shop.v1.Echo/Say")
                value: bytes = await method(b"hello", timeout=5.0)
            async with grpc.aio.insecure_channel(
                target, NO_RETRIES, interceptors=[unsafe]
            ) as channel:
                method = channel.unary_unary("/shop.v1.Echo/Say")
                try:
                    await method(b"hello")
                except grpc.RpcError as error:
                    return value, error
        return value, None

    value, error = asyncio.run(say())
    assert value == b"hello"
    assert error.details() == "not now"
    why = holdoff.stopped(error)
    assert why is not None and why.reason is Reason.RETRY_UNSAFE
    assert len(times) == 4


def test_a_url_names_its_host_and_any_port_but_the_schemes_own() -> None:
    names = {
        "http://payments/charge": "payments",
        "http://payments:80/": "payments",
        "https://payments:443/": "payments",
        "https://payments:80/": "payments:80",
        "http://127.0.0.1:8080/a?b=c": "127.0.0.1:8080",
        "http://[::1]:9000/": "::1:9000",
        "": "unknown",
    }
    assert {url: _http.name_of(url) for url in names} == names
