"""Against a real service, and one that only seems to be there."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
from typing import Any

import pytest
from conftest import Both
from scripted import Scripted, nowhere, serving, update

import holdoff
import holdoff.aio
from holdoff import Outcome


def test_while_all_is_well_calls_have_no_hop_and_are_all_counted(both: Both, service: str) -> None:
    client = both.client(service, follow=["catalogue"])
    assert both.do(client.connect, 10.0)
    for index in range(200):
        assert both.call(client, "catalogue", lambda _, index=index: index) == index
    assert both.do(client.flush, 10.0)
    counters = client.counters()
    assert (counters.pushed_grants, counters.asked, counters.local_grants) == (200, 0, 0)
    assert counters.reported >= 1 and counters.reports_dropped == 0


def test_a_retry_is_granted_by_the_fleet(both: Both, service: str) -> None:
    client, seen = both.client(service, timeout=10.0), []
    assert both.do(client.connect, 10.0)

    def function(attempt: holdoff.Attempt) -> str:
        seen.append((attempt.number, attempt.is_local))
        if attempt.number == 1:
            raise TimeoutError
        return "ok"

    assert both.call(client, "payments", function, idempotent=True) == "ok"
    assert seen == [(1, False), (2, False)]


def test_an_attempt_on_pushed_state_is_told_by_a_tally_of_its_epoch(both: Both) -> None:
    scripted = Scripted(updates=(update("payments", epoch=7),))
    with serving(scripted) as endpoint:
        client = both.client(endpoint, follow=["payments"])
        assert both.do(client.connect, 10.0)
        both.call(client, "payments", lambda _: 1)
        assert both.do(client.flush, 10.0)
    (entry,) = scripted.entries
    assert (entry.tally.dependency, entry.tally.epoch, entry.tally.successes) == ("payments", 7, 1)


def test_a_permit_that_is_collected_is_reported_as_cancelled(both: Both) -> None:
    scripted = Scripted()
    with serving(scripted) as endpoint:
        client = both.client(endpoint, timeout=10.0)
        assert both.do(client.connect, 10.0)
        permit = both.do(client.acquire, "payments")
        assert not permit.is_local
        del permit
        gc.collect()
        assert both.do(client.flush, 10.0)
    assert [entry.result.outcome.kind for entry in scripted.entries] == [8]


def test_a_loop_that_is_left_before_its_block_gives_its_permit_back() -> None:
    scripted = Scripted()
    with serving(scripted) as endpoint, holdoff.Client([endpoint], timeout=10.0) as client:
        assert client.connect(10.0)
        for _attempt in client.attempts("payments"):
            break
        del _attempt
        gc.collect()
        assert client.flush(10.0)
    assert [entry.result.outcome.kind for entry in scripted.entries] == [8]


def test_cl5_where_no_thread_can_begin_calls_are_decided_locally(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with serving(Scripted()) as endpoint:
        client = holdoff.Client([endpoint], timeout=10.0)
        monkeypatch.setattr(threading.Thread, "start", start)
        begun = time.monotonic()
        assert client.call("payments", lambda attempt: attempt.is_local)
        assert time.monotonic() - begun < 1.0
        monkeypatch.undo()
        assert client.connect(10.0)


def test_the_first_report_counts_and_the_second_is_not_sent(both: Both) -> None:
    scripted = Scripted()
    with serving(scripted) as endpoint:
        client = both.client(endpoint, timeout=10.0)
        assert both.do(client.connect, 10.0)
        permit = both.do(client.acquire, "payments")
        both.do(permit.report, Outcome.success(0.1))
        both.do(permit.report, Outcome.failure())
        assert both.do(client.flush, 10.0)
    assert [entry.result.outcome.kind for entry in scripted.entries] == [1]


def test_what_closes_sends_its_last_outcomes(both: Both) -> None:
    scripted = Scripted(updates=(update("payments"),))
    with serving(scripted) as endpoint:
        client = both.client(endpoint, follow=["payments"])
        assert both.do(client.connect, 10.0)
        both.call(client, "payments", lambda _: 1)
        both.do(client.close)
        assert [entry.tally.successes for entry in scripted.entries] == [1]
        assert both.call(client, "payments", lambda _: 2) == 2, "it still works"


def test_a_client_that_is_collected_ends_its_thread_and_sends_its_last_outcomes() -> None:
    scripted = Scripted(updates=(update("payments"),))
    with serving(scripted) as endpoint:
        client = holdoff.Client([endpoint], follow=["payments"])
        assert client.connect(10.0)
        client.call("payments", lambda _: 1)
        del client
        gc.collect()
        assert [entry.tally.successes for entry in scripted.entries] == [1]
    assert "holdoff" not in {thread.name for thread in threading.enumerate()}


def test_an_awaited_client_goes_on_in_the_next_event_loop() -> None:
    async def call(client: holdoff.aio.Client) -> tuple[bool, bool]:
        async def function(attempt: holdoff.Attempt) -> bool:
            return attempt.is_local

        return await client.connect(10.0), await client.call("payments", function)

    with serving(Scripted()) as endpoint:
        client = holdoff.aio.Client([endpoint], timeout=10.0)
        for _ in range(3):
            assert asyncio.run(call(client)) == (True, False)


def test_two_endpoints_and_the_first_one_absent(both: Both) -> None:
    scripted = Scripted()
    with serving(scripted) as endpoint:
        kind: Any = holdoff.aio.Client if both.is_aio else holdoff.Client
        client = kind([nowhere(), endpoint], service="test", timeout=10.0)
        assert both.do(client.connect, 10.0)
        assert not both.call(client, "payments", lambda attempt: attempt.is_local)
        both.do(client.close)
    assert len(scripted.asked) == 1


def test_a_proxy_of_the_environment_does_not_capture_loopback(
    both: Both, service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, nowhere())
    assert both.do(both.client(service).connect, 10.0)


def test_cl2_an_absent_service_costs_no_call_anything(both: Both) -> None:
    client, took = both.client(nowhere()), []
    for _ in range(200):
        begun = time.monotonic()
        both.call(client, "payments", lambda _: 1)
        took.append(time.monotonic() - begun)
    # 50 ms at most; a busy machine may take its time for a tenth of them.
    assert sorted(took)[180] < 0.05


def test_cl2_a_silent_service_costs_three_calls_fifty_milliseconds(both: Both) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        client = both.client(f"http://127.0.0.1:{silent.getsockname()[1]}")
        begun = time.monotonic()
        for _ in range(200):
            both.call(client, "payments", lambda _: 1)
        seconds = time.monotonic() - begun
    # Three, and a trial a second where a busy machine takes as long.
    assert 3 <= client.counters().asked <= 3 + seconds
