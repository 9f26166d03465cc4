"""A task that falls, and comes back when it may."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from conftest import Both
from scripted import Scripted, granting, serving

import holdoff
import holdoff.aio
from holdoff import Reason
from holdoff._chain import own_delay
from holdoff._proto import coordinator_pb2 as pb
from holdoff._rules.policy import Policy


class Fell(Exception):
    pass


def supervise(both: Both, client: Any, task: Any, **settings: Any) -> Any:
    if not both.is_aio:
        return holdoff.supervise(client, "consumer", task, **settings)

    async def awaited(attempt: holdoff.Attempt) -> Any:
        await asyncio.sleep(0)
        return task(attempt)

    return both.do(holdoff.aio.supervise, client, "consumer", awaited, **settings)


def falling(times: int, numbers: list[int]) -> Any:
    def task(attempt: holdoff.Attempt) -> str:
        numbers.append(attempt.number)
        if len(numbers) <= times:
            raise Fell
        return "done"

    return task


def test_a_task_is_restarted_until_it_is_done(both: Both) -> None:
    scripted = Scripted()
    numbers: list[int] = []
    with serving(scripted) as endpoint:
        client = both.client(endpoint, timeout=10.0)
        assert both.do(client.connect, 10.0)
        assert supervise(both, client, falling(3, numbers)) == "done"
        assert both.do(client.flush, 10.0)
    assert numbers == [1, 2, 3, 4]
    assert [(asked.attempt, asked.safety) for asked in scripted.asked] == [
        (attempt, 2) for attempt in (1, 2, 3, 4)
    ]
    assert [entry.result.outcome.kind for entry in scripted.entries] == [1]


def test_a_final_failure_is_raised_as_it_is(both: Both) -> None:
    error = Fell("for good")

    def task(attempt: holdoff.Attempt) -> None:
        raise error

    with pytest.raises(Fell) as raised:
        supervise(both, both.testing(), task, stop_if=lambda failure: failure is error)
    assert raised.value is error


@pytest.mark.parametrize("how", ["stop_if", "stop_if that raises"])
def test_a_failure_after_which_nothing_is_restarted_is_reported(both: Both, how: str) -> None:
    def stop_if(error: Exception) -> bool:
        if how == "stop_if":
            return True
        raise ValueError(how)

    def task(attempt: holdoff.Attempt) -> None:
        raise Fell

    is_reported_at_the_end(both, task, stop_if=stop_if)


@pytest.mark.parametrize("both", ["threads"], indirect=True)
def test_a_failure_after_a_supervisor_was_stopped_is_reported(both: Both) -> None:
    until = threading.Event()

    def task(attempt: holdoff.Attempt) -> None:
        until.set()
        raise Fell

    is_reported_at_the_end(both, task, until=until)


def is_reported_at_the_end(both: Both, task: Any, **settings: Any) -> None:
    scripted = Scripted()
    with serving(scripted) as endpoint:
        client = both.client(endpoint, timeout=10.0)
        with pytest.raises((Fell, ValueError, holdoff.Cancelled)):
            supervise(both, client, task, **settings)
        assert both.do(client.flush, 10.0)
    assert [entry.result.outcome.kind for entry in scripted.entries] == [2]
    assert [entry.result.permit for entry in scripted.entries] == [b"permit"]


def test_a_task_may_give_itself_up(both: Both) -> None:
    def task(attempt: holdoff.Attempt) -> None:
        raise holdoff.Cancelled

    with pytest.raises(holdoff.Cancelled):
        supervise(both, both.testing(), task)


def test_where_the_service_allows_no_further_attempt_a_new_chain_begins(both: Both) -> None:
    def two_attempts(request: Any) -> Any:
        if request.attempt <= 2:
            return granting(request)
        response = pb.AcquireResponse(state="BREAKER_STATE_CLOSED", epoch=1)
        response.denial.reason = pb.DENIAL_REASON_ATTEMPTS_EXHAUSTED
        return response

    scripted = Scripted(two_attempts)
    numbers: list[int] = []
    with serving(scripted) as endpoint:
        client = both.client(endpoint, timeout=10.0)
        assert both.do(client.connect, 10.0)
        assert supervise(both, client, falling(3, numbers)) == "done"
    assert numbers == [1, 2, 3, 4]
    assert [asked.attempt for asked in scripted.asked] == [1, 2, 3, 1, 2]


def test_a_start_that_ran_for_long_enough_is_a_success_before_it_ends(both: Both) -> None:
    scripted, client_of, seen = Scripted(), both.client, []

    with serving(scripted) as endpoint:
        client = client_of(endpoint, timeout=10.0)
        assert both.do(client.connect, 10.0)
        if both.is_aio:

            async def running(attempt: holdoff.Attempt) -> None:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(None, scripted.has_entries.wait, 10.0)
                seen.extend(scripted.entries)

            both.do(holdoff.aio.supervise, client, "consumer", running, healthy_after=0.05)
        else:

            def run(attempt: holdoff.Attempt) -> None:
                scripted.has_entries.wait(10.0)
                seen.extend(scripted.entries)

            holdoff.supervise(client, "consumer", run, healthy_after=0.05)
    assert [entry.result.outcome.kind for entry in seen] == [1]


def test_without_a_service_it_waits_for_delays_of_its_own(both: Both) -> None:
    numbers: list[int] = []
    policy = holdoff.local_policy(max_attempts=2, initial_delay=0.01, max_delay=0.02)
    client = both.client(local_policy=policy)
    assert supervise(both, client, falling(3, numbers)) == "done"
    assert numbers == [1, 2, 3, 4]


def test_a_thread_that_waits_for_a_restart_is_told_to_stop() -> None:
    policy = holdoff.local_policy(initial_delay=60.0, max_delay=60.0, jitter="none")
    client, until = holdoff.Client(service="test", local_policy=policy), threading.Event()
    threading.Timer(0.1, until.set).start()
    begun = time.monotonic()
    with pytest.raises(holdoff.Cancelled):
        holdoff.supervise(client, "consumer", falling(9, []), until=until)
    assert time.monotonic() - begun < 10.0  # Of 60.


def test_a_cancelled_supervisor_cancels_its_task() -> None:
    async def run() -> list[str]:
        seen = []

        async def task(attempt: holdoff.Attempt) -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        supervising = asyncio.ensure_future(
            holdoff.aio.supervise(holdoff.aio.Client.testing(), "consumer", task)
        )
        await asyncio.sleep(0.05)
        supervising.cancel()
        with pytest.raises(asyncio.CancelledError):
            await supervising
        return seen

    assert asyncio.run(run()) == ["cancelled"]


def test_in_tests_it_gives_up_with_the_last_real_error(both: Both) -> None:
    numbers: list[int] = []
    with pytest.raises(Fell) as raised:
        supervise(both, both.testing(), falling(99, numbers))
    why = holdoff.stopped(raised.value)
    assert why is not None and why.reason is Reason.ATTEMPTS_EXHAUSTED
    assert numbers == [1, 2, 3]


def test_the_own_delay_is_uniform_below_a_doubling_ceiling_that_the_policy_caps() -> None:
    ceilings = [own_delay(Policy(), n, 1.0) // 1_000_000 for n in range(1, 10)]
    assert ceilings == [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]
    assert own_delay(Policy(), 5, 0.0) == 0
    assert own_delay(Policy(), 2**32 - 1, 1.0) == 10_000_000_000
    none = Policy(initial_delay_ns=0, max_delay_ns=0)
    assert own_delay(none, 3, 0.5) == 50_000_000, "a falling task does not spin"
