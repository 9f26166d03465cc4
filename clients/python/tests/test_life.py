"""A service that is slow to begin, killed, refused, or silent for a while, over real sockets."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from typing import Any, Callable

import pytest
from conftest import Both
from scripted import Scripted, granting, nowhere, serving, update

import holdoff
from holdoff._course import Course, End, search_after

BURST = 100


def burst(both: Both, client: Any) -> list[tuple[float, bool]]:
    """How long each of many calls at once took, and whether it was decided locally."""
    if both.is_aio:

        async def function(attempt: holdoff.Attempt) -> bool:
            return attempt.is_local

        async def one() -> tuple[float, bool]:
            begun = time.monotonic()
            is_local = await client.call("payments", function)
            return time.monotonic() - begun, is_local

        async def many() -> list[tuple[float, bool]]:
            return await asyncio.gather(*(one() for _ in range(BURST)))

        return list(both.do(many))
    together, seen = threading.Barrier(BURST), []

    def call() -> None:
        together.wait()
        begun = time.monotonic()
        is_local = client.call("payments", lambda attempt: attempt.is_local)
        seen.append((time.monotonic() - begun, is_local))

    threads = [threading.Thread(target=call) for _ in range(BURST)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


def until(both: Both, is_so: Callable[[], bool], seconds: float = 10.0) -> bool:
    by = time.monotonic() + seconds
    while not is_so() and time.monotonic() < by:
        both.do(asyncio.sleep if both.is_aio else time.sleep, 0.01)
    return is_so()


def test_of_a_burst_that_is_the_first_act_three_wait_and_all_is_coordinated_after_it(
    both: Both, service: str
) -> None:
    # So long that a busy machine does not count.
    client = both.client(service, timeout=5.0)
    assert any(not is_local for _, is_local in burst(both, client))
    assert both.do(client.connect, 5.0)
    assert not any(is_local for _, is_local in burst(both, client))
    # The state is pushed after the answer.
    assert until(both, lambda: client._core.pushed.get("payments") is not None)
    asked = client.counters().asked
    assert not any(is_local for _, is_local in burst(both, client))
    assert client.counters().asked == asked


def test_of_a_burst_into_silence_three_calls_wait_and_the_others_not_at_all(both: Both) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(BURST)
        client = both.client(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=1.0)
        took = sorted(seconds for seconds, _ in burst(both, client))
        assert len([seconds for seconds in took if seconds > 0.95]) == 3
        assert took[-4] < 0.4
        begun = time.monotonic()
        burst(both, client)
        assert time.monotonic() - begun < 0.9, "nobody waits any more"


def test_cl5_clients_that_are_opened_and_closed_leave_no_thread_and_no_socket_behind(
    both: Both, service: str
) -> None:
    def held() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    def cycle() -> None:
        client = both.client(service)
        assert both.do(client.connect, 5.0)
        assert both.call(client, "payments", lambda _: 1) == 1
        both.do(client.close)

    for _ in range(3):
        cycle()
    files, threads = held()
    for _ in range(10):
        cycle()
    assert until(both, lambda: held()[0] <= files and held()[1] <= threads), (
        files,
        threads,
        held(),
    )


def test_a_refused_connection_keeps_nobody_waiting(both: Both) -> None:
    client = both.client(nowhere(), timeout=5.0)
    begun = time.monotonic()
    assert all(is_local for _, is_local in burst(both, client))
    # gRPC takes a fifth of a second to close the channel.
    assert time.monotonic() - begun < 2.0


def test_a_service_that_is_back_is_found_within_four_and_a_half_seconds() -> None:
    second = 1_000_000_000
    course = Course(0)
    course.nothing_reachable(0, 1.0)
    assert course.not_before == 4.5 * second
    course.ended(0, End.BROKEN, 0, 1.0)
    assert course.not_before == 4.5 * second
    waits = []
    for _ in range(4):
        course.ended(0, End.BROKEN_UNHEARD, 0, 1.0)
        waits.append(course.not_before / second)
    assert waits == [9.0, 18.0, 30.0, 30.0]
    assert [search_after(unit) / second for unit in (0.0, 1.0)] == [1.0, 4.5]


def test_a_refused_service_is_logged_once_with_its_address_and_so_is_its_return(
    both: Both, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is looked for at once again.
    monkeypatch.setattr("holdoff._course.SPREAD_NS", 1_000_000)
    caplog.set_level(logging.INFO, "holdoff")
    endpoint = nowhere()
    client = both.client(endpoint)
    for _ in range(20):
        both.call(client, "payments", lambda _: 1)
    said = [(record.levelname, record.message) for record in caplog.records]
    assert [level for level, _ in said] == ["WARNING"]
    assert endpoint[len("http://") :] in said[0][1]
    with serving(Scripted(), port=int(endpoint.rsplit(":", 1)[1])):
        assert until(both, lambda: both.do(client.connect, 1.0))
        assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
        assert endpoint[len("http://") :] in caplog.records[-1].message


def test_a_killed_service_is_logged_once_with_its_address(
    both: Both, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(Scripted(updates=(update("payments"),))) as endpoint:
        client = both.client(endpoint, follow=["payments"])
        assert both.do(client.connect, 10.0)
    assert until(both, lambda: bool(caplog.records))
    for _ in range(20):
        both.call(client, "invoices", lambda _: 1)
    (record,) = caplog.records
    assert record.levelname == "WARNING" and endpoint[len("http://") :] in record.message


def test_after_three_silent_answers_the_first_late_one_brings_the_service_back(
    both: Both, caplog: pytest.LogCaptureFixture
) -> None:
    """Not the timer, which is a second at least."""
    may_answer = threading.Event()

    def late(request: Any) -> Any:
        may_answer.wait(5.0)
        return granting(request)

    with serving(Scripted(answer=late)) as endpoint:
        client = both.client(endpoint, timeout=0.2)
        assert both.do(client.connect, 10.0)
        for _ in range(4):
            assert both.call(client, "payments", lambda attempt: attempt.is_local)
        asked, begun = client.counters().asked, time.monotonic()
        assert asked == 3
        may_answer.set()

        def is_back() -> bool:
            return not both.call(client, "payments", lambda attempt: attempt.is_local)

        assert until(both, is_back)
        assert time.monotonic() - begun < 0.95
        assert client.counters().connections == 1
