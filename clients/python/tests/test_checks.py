"""Health checks that the service plans, shares or knows nothing of."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from typing import Any

import pytest
from conftest import REPOSITORY, Both
from scripted import Scripted, serving

import holdoff
import holdoff.aio
from holdoff import Away, NotPlanned, Ran, Shared, Verdict
from holdoff._checking import read_plan
from holdoff._proto import coordinator_pb2 as pb
from holdoff._rules import schedule
from holdoff._wire import Unreadable


def check(both: Both, client: Any, function: Any, **settings: Any) -> Any:
    if not both.is_aio:
        return holdoff.check(client, "payments", function, **settings)

    async def awaited(run: holdoff.Check) -> Any:
        found = function(run)
        return await found if inspect.isawaitable(found) else found

    return both.do(holdoff.aio.check, client, "payments", awaited, **settings)


def planned(delay_ms: int = 0) -> Any:
    plan = pb.PlanCheckResponse(verdict="CHECK_VERDICT_HEALTHY")
    plan.run.delay.nanos = delay_ms * 1_000_000
    plan.run.delay.SetInParent()
    plan.run.timeout.seconds = 2
    plan.run.permit = b"check"
    plan.period.seconds = 30
    return plan


def test_the_service_plans_and_is_told_how_each_run_ended(both: Both) -> None:
    asked: list[Any] = []
    told: list[Any] = []

    def plan(request: Any) -> Any:
        asked.append(request)
        return planned(delay_ms=20)

    results = [True, False, None]
    with serving(Scripted(plan=plan)) as endpoint:
        client = both.client(endpoint)
        checked = check(both, client, lambda _: results.pop(0), runs=3, told=told.append)
    assert (checked.runs, checked.last) == (3, True)
    assert [request.last_result.verdict for request in asked] == [0, 1, 2, 1]
    assert [finding.healthy for finding in told] == [True, False, True]
    assert all(not finding.is_local and finding.fleet is Verdict.HEALTHY for finding in told)


def test_what_others_have_found_is_told(both: Both) -> None:
    plans = [pb.PlanCheckResponse(verdict="CHECK_VERDICT_UNHEALTHY"), planned(), planned()]
    plans[0].shared.verdict = pb.CheckVerdict.Value("CHECK_VERDICT_UNHEALTHY")
    plans[0].shared.age.seconds = 3
    plans[0].shared.ask_again.nanos = 10_000_000
    told: list[Any] = []
    with serving(Scripted(plan=lambda _: plans.pop(0))) as endpoint:
        check(both, both.client(endpoint), lambda _: True, runs=1, told=told.append)
    assert told[0] == Shared(Verdict.UNHEALTHY, 3.0, 0.01)
    assert isinstance(told[1], Ran) and told[1].healthy


def test_checks_go_on_where_none_is_planned_and_without_a_service(both: Both) -> None:
    for expected, scripted in ((NotPlanned, Scripted()), (Away, None)):
        told: list[Any] = []
        if scripted is None:
            client = both.client()
            checked = check(both, client, lambda _: True, runs=2, period=0.05, told=told.append)
        else:
            with serving(scripted) as endpoint:
                client = both.client(endpoint)
                checked = check(both, client, lambda _: True, runs=2, period=0.05, told=told.append)
        assert checked.runs == 2
        assert isinstance(told[0], expected)
        assert [finding.is_local for finding in told if isinstance(finding, Ran)] == [True, True]


def test_a_check_that_raises_or_takes_too_long_is_unhealthy(both: Both) -> None:
    told: list[Any] = []

    def raising(run: holdoff.Check) -> bool:
        raise ConnectionError

    def slow(run: holdoff.Check) -> Any:
        return asyncio.sleep(0.05, True) if both.is_aio else time.sleep(0.05)

    for function, timeout in ((raising, 10.0), (slow, 0.01)):
        client, settings = both.client(), {"runs": 1, "period": 0.02, "timeout": timeout}
        assert check(both, client, function, told=told.append, **settings).last is False
    ran = [finding for finding in told if isinstance(finding, Ran)]
    assert [(finding.healthy, finding.timed_out) for finding in ran] == [
        (False, False),
        (False, True),
    ]


def test_a_real_service_plans(both: Both, service: str) -> None:
    told: list[Any] = []
    client = both.client(service, timeout=10.0)
    checked = check(both, client, lambda _: True, runs=3, told=told.append)
    assert checked.runs == 3
    assert [finding.is_local for finding in told if isinstance(finding, Ran)] == [False] * 3


def test_a_token_that_cannot_be_had_ends_no_checks(
    both: Both, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Any] = []
    are_local: list[bool] = []

    def token() -> str:
        if len(are_local) == 1:
            raise FileNotFoundError("/run/secrets/token")
        return "open sesame"

    with serving(Scripted(plan=lambda _: planned())) as endpoint:
        client = both.client(endpoint, token=token)
        assert both.do(client.connect, 10.0)
        settings = {"runs": 3, "period": 0.05, "told": told.append}
        assert check(both, client, lambda run: are_local.append(run.is_local), **settings).runs == 3
    assert are_local == [False, True, False]
    assert sorted(type(finding).__name__ for finding in told) == ["Away", "Ran", "Ran", "Ran"]
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == [
        "/run/secrets/token"
    ]


def test_in_tests_three_runs_are_made_at_once(both: Both) -> None:
    begun = time.monotonic()
    assert check(both, both.testing(), lambda _: True).runs == 3
    assert time.monotonic() - begun < 1.0


def test_a_plan_without_a_time_or_out_of_range_is_no_plan() -> None:
    assert read_plan(planned(5)).delay_ns == 5_000_000
    odd = []
    for field in ("delay", "timeout"):
        plan = planned()
        plan.run.ClearField(field)
        odd.append(plan)
    for seconds in (-1, 2**63 - 1, 200_000):
        plan = planned()
        plan.run.delay.seconds = seconds
        odd.append(plan)
    plan = planned()
    plan.run.permit = b"x" * (1 << 20)
    odd.append(plan)
    for verdict in (0, 4, -1):
        plan = planned()
        plan.verdict = verdict
        odd.append(plan)
    for plan in [*odd, pb.PlanCheckResponse()]:
        with pytest.raises(Unreadable):
            read_plan(plan)


def test_the_name_of_a_checker_is_that_of_the_service() -> None:
    vectors = json.loads((REPOSITORY / "tests/vectors/check.json").read_text())["vectors"]
    names = [vector for vector in vectors if "name_of" in vector]
    assert len(names) >= 3
    for vector in names:
        assert str(schedule.checker_name(*vector["name_of"])) == vector["expected"]


def test_a_late_run_takes_the_next_time_of_the_grid() -> None:
    times = {0: 7, 6: 7, 7: 17, 16: 17, 17: 27, 1_000: 1_007}
    assert {now: schedule.next_after(7, 10, now) for now in times} == times
