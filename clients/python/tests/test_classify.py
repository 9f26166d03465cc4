"""What an error means: above all, when an unsafe call may be made again."""

from __future__ import annotations

import asyncio
import errno
import http.server
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any, Callable, Optional

import grpc
import grpc.aio
import httpcore
import httpx
import pytest
import requests
import urllib3
from conftest import Both

import holdoff
from holdoff import OutcomeKind, Reason

REFUSED = "http://127.0.0.1:1/"


def refused() -> ConnectionRefusedError:
    return ConnectionRefusedError(errno.ECONNREFUSED, "refused")


def raised(function: Callable[[], Any]) -> BaseException:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def kind(error: BaseException) -> OutcomeKind:
    return holdoff.classify.of_error(error).kind


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def named(name: str, *args: Any) -> Exception:
    """An error of a library that may not be here."""
    module, _, name = name.rpartition(".")
    made: Exception = type(name, (Exception,), {"__module__": module})(*args)
    return made


def test_an_unsafe_call_is_made_once_where_an_earlier_refusal_was_handled(both: Both) -> None:
    sent = []

    def charge(attempt: holdoff.Attempt) -> None:
        try:
            raise refused()  # A cache.
        except OSError:
            sent.append(attempt.number)
            raise ConnectionResetError("after it was sent")  # noqa: B904

    with pytest.raises(ConnectionResetError) as ended:
        both.call(both.testing(), "payments", charge)
    why = holdoff.stopped(ended.value)
    assert why is not None and why.reason is Reason.RETRY_UNSAFE
    assert sent == [1]


def test_what_an_earlier_error_left_behind_is_not_read() -> None:
    def left_behind(earlier: Exception) -> None:
        try:
            raise earlier
        except Exception:
            raise ValueError  # noqa: B904

    def from_none() -> None:
        try:
            raise refused()
        except OSError:
            raise ValueError from None

    assert kind(raised(lambda: left_behind(refused()))) is OutcomeKind.FAILURE
    assert kind(raised(lambda: left_behind(TimeoutError()))) is OutcomeKind.FAILURE
    assert kind(raised(from_none)) is OutcomeKind.FAILURE


def test_what_an_error_names_as_its_cause_is_read() -> None:
    assert kind(caused(ValueError(), refused())) is OutcomeKind.NOT_SENT
    assert kind(caused(ValueError(), socket.gaierror())) is OutcomeKind.NOT_SENT
    assert kind(caused(ValueError(), TimeoutError())) is OutcomeKind.TIMEOUT
    assert kind(ValueError(refused())) is OutcomeKind.NOT_SENT


def test_errors_of_connecting_are_not_sent_whatever_the_reason() -> None:
    unreachable = OSError(errno.EHOSTUNREACH, "no route")
    for error in (
        named("urllib3.exceptions.NewConnectionError", "the text of 1.x, without a cause"),
        caused(named("aiohttp.client_exceptions.ClientConnectorError"), unreachable),
        caused(httpx.ConnectError(""), caused(httpcore.ConnectError(), unreachable)),
    ):
        assert kind(error) is OutcomeKind.NOT_SENT


def test_unreachable_is_a_failure_where_it_may_be_of_a_connection_that_stood() -> None:
    for code in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        assert kind(OSError(code, "recv")) is OutcomeKind.FAILURE
    for above in (
        httpx.ReadError(""),
        httpx.WriteError(""),
        urllib3.exceptions.ProtocolError(""),
        requests.exceptions.ChunkedEncodingError(urllib3.exceptions.ProtocolError("")),
        named("aiohttp.client_exceptions.ClientOSError"),
    ):
        for below in (refused(), OSError(errno.EHOSTUNREACH, "recv")):
            assert kind(caused(above, below)) is OutcomeKind.FAILURE


def test_a_handshake_that_fails_and_a_timeout_of_connecting_are_no_refusals() -> None:
    assert kind(caused(httpx.ConnectError(""), ssl.SSLError())) is OutcomeKind.FAILURE
    assert kind(caused(httpx.ConnectError(""), TimeoutError())) is OutcomeKind.TIMEOUT
    assert kind(httpx.ConnectTimeout("")) is OutcomeKind.TIMEOUT
    assert kind(requests.ConnectTimeout("")) is OutcomeKind.TIMEOUT


def test_the_callers_own_cancellation_is_cancelled_and_no_attempt_is_ignored() -> None:
    denied = holdoff.Denied(holdoff.DeniedBy.FLEET, Reason.BREAKER_OPEN)
    assert kind(holdoff.Cancelled()) is OutcomeKind.CANCELLED
    assert kind(denied) is OutcomeKind.IGNORED
    assert kind(caused(ValueError(), denied)) is OutcomeKind.IGNORED


class Group(Exception):
    """As `ExceptionGroup`, which Python has since 3.11."""

    def __init__(self, *members: BaseException) -> None:
        super().__init__("of a task group", members)
        self.exceptions = members


def after(attempts: int, error: Exception) -> BaseException:
    """The error, with which a guarded call ended."""

    def fail(attempt: holdoff.Attempt) -> None:
        raise error

    client = holdoff.Client.testing()
    return raised(
        lambda: client.call("below", fail, idempotent=True, max_attempts=attempts),
    )


def test_a_call_above_a_group_is_not_retried_where_one_of_its_calls_was(both: Both) -> None:
    for wrapped in (lambda group: group, lambda group: caused(ValueError(), Group(group))):
        runs: list[int] = []

        def above(
            attempt: holdoff.Attempt,
            runs: list[int] = runs,
            wrapped: Callable[[BaseException], BaseException] = wrapped,
        ) -> None:
            runs.append(attempt.number)
            raise wrapped(Group(ValueError(), after(1, ValueError()), after(2, ValueError())))

        def highest(attempt: holdoff.Attempt, above: Any = above) -> Any:
            return holdoff.Client.testing().call("above", above, idempotent=True)

        with pytest.raises((Group, ValueError)) as ended:
            both.call(both.testing(), "highest", highest, idempotent=True)
        why = holdoff.stopped(ended.value)
        assert why is not None and why.reason is Reason.RETRIED_BELOW
        assert runs == [1]


def test_a_call_above_a_group_retries_where_none_of_its_calls_did(both: Both) -> None:
    runs: list[int] = []
    again = after(2, ValueError("one object"))

    def above(attempt: holdoff.Attempt) -> None:
        runs.append(attempt.number)
        raise Group(again, after(1, ValueError()))

    with pytest.raises(Group):
        both.call(both.testing(), "above", above, idempotent=True)
    assert runs == [1, 2, 3], "what an earlier call left on an error says nothing"


def test_a_group_is_ignored_where_all_are_denials_and_never_not_sent() -> None:
    denied = holdoff.Denied(holdoff.DeniedBy.FLEET, Reason.BREAKER_OPEN)
    assert kind(Group(denied, Group(denied))) is OutcomeKind.IGNORED
    assert kind(after(1, Group(denied))) is OutcomeKind.IGNORED
    assert kind(caused(ValueError(), Group(denied))) is OutcomeKind.IGNORED
    assert kind(Group(denied, ValueError())) is OutcomeKind.FAILURE
    assert kind(Group(refused(), refused())) is OutcomeKind.FAILURE
    assert kind(caused(Group(ValueError()), refused())) is OutcomeKind.FAILURE
    assert kind(Group()) is OutcomeKind.FAILURE


def test_a_group_of_addresses_that_refused_is_not_sent_where_its_library_says_so() -> None:
    """As anyio does, of a host with several addresses."""
    failed = caused(OSError("all attempts failed"), Group(refused(), refused()))
    assert kind(caused(httpx.ConnectError(""), failed)) is OutcomeKind.NOT_SENT


def test_an_error_that_was_raised_from_its_own_group_is_read() -> None:
    error = ValueError()
    assert kind(caused(error, Group(error, refused()))) is OutcomeKind.FAILURE


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """Takes what is sent, and sends its sender to where nobody listens."""

    seen: list[str]

    def do_POST(self) -> None:
        self.seen.append(self.path)
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(307)
        self.send_header("location", REFUSED)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def elsewhere() -> Iterator[tuple[str, list[str]]]:
    seen: list[str] = []
    handler = type("Handler", (Elsewhere,), {"seen": seen})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", seen
        server.shutdown()


def post_with_httpx(url: str) -> Any:
    return httpx.post(url, content=b"x", follow_redirects=True)


def post_with_httpx_awaited(url: str) -> Any:
    async def post() -> Any:
        async with httpx.AsyncClient(follow_redirects=True) as client:
            return await client.post(url, content=b"x")

    return asyncio.run(post())


def post_with_requests(url: str) -> Any:
    return requests.post(url, data=b"x", timeout=5)


def post_with_urllib3(url: str) -> Any:
    return urllib3.PoolManager().request("POST", url, body=b"x", retries=1)


@pytest.mark.parametrize(
    "post", [post_with_httpx, post_with_httpx_awaited, post_with_requests, post_with_urllib3]
)
def test_what_was_sent_before_a_redirect_is_not_sent_again(post: Any, elsewhere: Any) -> None:
    url, seen = elsewhere
    error = raised(lambda: holdoff.Client.testing().call("shop", lambda attempt: post(url)))
    assert seen == ["/"]
    assert kind(error) is OutcomeKind.FAILURE


def test_what_httplib2_sent_before_a_redirect_or_over_a_stale_connection_is_not_sent_again() -> (
    None
):
    def request(redirections: int) -> None:
        """As its `Http.request`, a frame of which is all that tells."""
        if redirections:
            request(redirections - 1)
        _conn_request(seen_bad_status_line=False)

    def _conn_request(seen_bad_status_line: bool) -> None:
        raise refused()

    assert kind(raised(lambda: request(0))) is OutcomeKind.NOT_SENT
    assert kind(raised(lambda: request(1))) is OutcomeKind.FAILURE
    assert kind(raised(lambda: _conn_request(False))) is OutcomeKind.NOT_SENT
    assert kind(raised(lambda: _conn_request(True))) is OutcomeKind.FAILURE


@pytest.mark.parametrize("post", [post_with_httpx, post_with_httpx_awaited, post_with_requests])
def test_what_no_redirect_was_followed_for_was_not_sent(post: Any) -> None:
    attempts: list[int] = []

    def send(attempt: holdoff.Attempt) -> Any:
        attempts.append(attempt.number)
        return post(REFUSED)

    raised(lambda: holdoff.Client.testing().call("shop", send))
    assert attempts == [1, 2, 3]


def said_by_grpc(target: str) -> list[Any]:
    """The errors of a call, blocking and awaited."""

    async def awaited() -> Any:
        async with grpc.aio.insecure_channel(target) as channel:
            try:
                say: Any = channel.unary_unary("/shop.v1.Echo/Say")
                return await say(b"", timeout=5.0)
            except grpc.RpcError as error:
                return error

    with grpc.insecure_channel(target) as channel:
        say: Any = channel.unary_unary("/shop.v1.Echo/Say")
        return [raised(lambda: say(b"", timeout=5.0)), asyncio.run(awaited())]


@pytest.mark.parametrize("metadata", [(), (("relayed-by", "envoy"),)])
def test_a_refusal_that_a_grpc_server_relays_is_a_failure(metadata: Any) -> None:
    """What gRPC shows of it is what it shows of one of its own, word for word."""
    (own, _) = said_by_grpc(REFUSED[len("http://") : -1])
    assert "Connection refused" in own.details()

    def relay(request: bytes, context: grpc.ServicerContext) -> Optional[bytes]:
        context.set_trailing_metadata(metadata)
        return context.abort(grpc.StatusCode.UNAVAILABLE, own.details())

    server = grpc.server(futures.ThreadPoolExecutor(1))
    handlers: Any = {"Say": grpc.unary_unary_rpc_method_handler(relay)}
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("shop.v1.Echo", handlers),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        errors = said_by_grpc(f"127.0.0.1:{port}")
    finally:
        server.stop(0)
    assert [error.details() for error in errors] == [own.details()] * 2
    assert [kind(error) for error in [own, *errors]] == [OutcomeKind.FAILURE] * 3
