"""What a client takes, and what it says to what it does not take."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Callable

import grpc
import httpx
import pytest
import requests
from conftest import Both
from scripted import Scripted, nowhere, serving, update

import holdoff
import holdoff.aio
import holdoff.grpc
import holdoff.httpx
import holdoff.requests
from holdoff._clock import now_ns
from holdoff._pushed import IDLE_NS, Pushed
from holdoff._rules.policy import Policy


@pytest.mark.parametrize("kind", [holdoff.Client, holdoff.aio.Client])
def test_an_endpoint_that_is_none_is_refused_with_its_value_and_without_its_password(
    kind: Any,
) -> None:
    for endpoints, said in (
        ("log", "endpoint `log`: it must be http://host:port, https://host:port or host:port"),
        (["http://h:1", "h:99999"], "endpoint `h:99999`: "),
        ("http://me:secret@h:1", "endpoint `…@h:1`: "),
        ([7460], "endpoint `7460`: "),
        (7460, "endpoint `7460`: "),
        ([], "endpoints "),
    ):
        with pytest.raises(ValueError, match="^" + re.escape(said)):
            kind(endpoints)


def test_the_environment_names_endpoint_and_token_where_the_caller_does_not(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind: Any = holdoff.aio.Client if both.is_aio else holdoff.Client
    with serving(Scripted(token="told")) as endpoint:
        monkeypatch.setenv("HOLDOFF_SERVER", endpoint)
        monkeypatch.setenv("HOLDOFF_TOKEN", "told")
        client = kind(timeout=10.0)
        assert both.do(client.connect, 10.0)
        assert not both.call(client, "payments", lambda attempt: attempt.is_local)
        both.do(client.close)
        other = kind(nowhere(), token="other")
        assert not both.do(other.connect, 1.0)
        both.do(other.close)


def test_an_error_in_a_variable_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDOFF_SERVER", "log")
    with pytest.raises(ValueError, match=r"^HOLDOFF_SERVER `log`: "):
        holdoff.Client()
    holdoff.Client("127.0.0.1:7460")
    monkeypatch.setenv("HOLDOFF_SERVER", "")
    holdoff.Client()


def test_a_bad_name_is_an_error_at_once_that_names_it(both: Both) -> None:
    client = both.client()

    def never(*_: object) -> None:
        raise AssertionError("it ran")

    async def never_awaited(*_: object) -> None:
        raise AssertionError("it ran")

    supervise: Any = holdoff.aio.supervise if both.is_aio else holdoff.supervise
    check: Any = holdoff.aio.check if both.is_aio else holdoff.check
    function = never_awaited if both.is_aio else never
    uses: list[Callable[[str], Any]] = [
        lambda name: both.do(client.call, name, function),
        lambda name: both.do(client.acquire, name),
        lambda name: client.attempts(name),
        lambda name: both.do(supervise, client, name, function),
        lambda name: both.do(check, client, name, function),
    ]
    for use in uses:
        with pytest.raises(ValueError, match=r"^dependency 'pay ments': it must be 1 to 200"):
            use("pay ments")
    for setting in ("namespace", "follow"):
        said: Any = {"namespace": "a b"} if setting == "namespace" else {"follow": ["a b"]}
        with pytest.raises(ValueError, match=f"^{setting} 'a b': "):
            holdoff.Client(**said)
    assert client.counters().asked == 0


def test_in_a_bypass_calls_with_any_name_pass(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDOFF_BYPASS", "1")
    assert both.call(both.client(), "pay ments", lambda _: 1) == 1


def test_what_is_called_no_longer_is_left_once_and_its_policy_kept() -> None:
    pushed = Pushed(Policy())
    said = update("payments")
    said.policy.max_attempts = 7
    pushed.store(said)
    assert pushed.leave_idle() == []
    heard = pushed.get("payments")
    assert heard is not None
    heard.used = now_ns() - IDLE_NS
    assert (pushed.leave_idle(), pushed.leave_idle(), pushed.followed()) == (["payments"], [], [])
    kept = pushed.get("payments")
    assert kept is not None and kept.policy.max_attempts == 7
    heard.used = now_ns()
    assert pushed.followed() == ["payments"]


def test_an_idempotency_key_makes_a_request_of_any_method_one_that_is_retried() -> None:
    statuses: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        statuses.append(503 if not statuses else 200)
        return httpx.Response(statuses[-1])

    client = holdoff.Client.testing()
    transport = holdoff.httpx.HoldoffTransport(client, httpx.MockTransport(answer))
    with httpx.Client(transport=transport) as sends:
        assert sends.post("http://x/", headers={"idempotency-key": ""}).status_code == 503
        statuses.clear()
        assert sends.post("http://x/", headers={"idempotency-key": "k-1"}).status_code == 200


def test_where_all_attempts_were_cut_off_an_adapter_ends_as_its_library_does_on_a_timeout() -> None:
    async def slow(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(5.0)
        return httpx.Response(200)

    async def get() -> None:
        guarded = holdoff.httpx.AsyncHoldoffTransport(
            holdoff.aio.Client.testing(), httpx.MockTransport(slow), attempt_timeout=0.02
        )
        async with httpx.AsyncClient(transport=guarded) as client:
            await client.get("http://x/")

    with pytest.raises(httpx.TimeoutException) as raised:
        asyncio.run(get())
    assert isinstance(raised.value, holdoff.TimedOut) and raised.value.attempts == 3
    assert raised.value.reason is holdoff.Reason.ATTEMPTS_EXHAUSTED
    why = holdoff.stopped(raised.value)
    assert why is not None and why.reason is raised.value.reason
    assert raised.value.request.url == "http://x/"


def test_the_errors_of_adapters_are_timeouts_of_their_libraries() -> None:
    why = holdoff.TimedOut(2, holdoff.Denied(holdoff.DeniedBy.LOCAL, holdoff.Reason.DEADLINE))
    request = requests.Request("GET", "http://x/").prepare()
    timed_out = holdoff.requests.TimedOut(why, request)
    assert isinstance(timed_out, requests.Timeout) and timed_out.request is request
    status = holdoff.grpc.TimedOut(why)
    assert isinstance(status, grpc.RpcError)
    assert status.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    for error in (timed_out, status):
        assert isinstance(error, TimeoutError) and (error.attempts, str(error)) == (2, str(why))
        assert holdoff.stopped(error) is holdoff.stopped(why)
