"""Whatever a service says, the user's call completes: with its value, its own error, or a denial,
and in its time.
"""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from conftest import Both
from scripted import Scripted, granting, serving, update

import holdoff
from holdoff import Reason
from holdoff._proto import coordinator_pb2 as pb

YEAR = 365 * 24 * 3600
SECONDS = [0, 0, 1, -1, YEAR, 2**63 - 1, -(2**63), 315_576_000_001]
NANOS = [0, 0, 1_000_000, -1, 999_999_999, 2**31 - 1, -(2**31)]
NUMBERS = [0.0, -1.0, 1e300, float("nan"), float("inf"), float("-inf"), 0.5]
SEED = 20_150_721
# A busy machine must not look like a service that falls silent: that is not asked for seconds.
ANSWERED_IN = 5.0


class Boom(Exception):
    pass


def odd_duration(draw: random.Random, target: Any) -> None:
    if draw.random() < 0.8:
        target.seconds, target.nanos = draw.choice(SECONDS), draw.choice(NANOS)
        target.SetInParent()


def odd_answer(draw: random.Random) -> Any:
    response: Any = pb.AcquireResponse(epoch=draw.choice([0, 1, 2**64 - 1]))
    response.state = draw.choice([0, 1, 2, 5, 6, 7, 99, -1])
    what = draw.random()
    if what < 0.5:
        response.grant.SetInParent()
        for name in ("delay", "permit_ttl", "attempt_timeout"):
            odd_duration(draw, getattr(response.grant, name))
        response.grant.permit = b"x" * draw.choice([0, 1, 48, 1024, 1025, 1 << 20])
        response.grant.probe, response.grant.confirm = draw.random() < 0.5, draw.random() < 0.5
    elif what < 0.8:
        response.denial.reason = draw.choice([*range(-1, 25), 10_000])
        odd_duration(draw, response.denial.retry_after)
        response.denial.detail = "é" * draw.choice([0, 10, 1 << 19])
    return response


def odd_update(draw: random.Random) -> Any:
    message: Any = pb.Update(dependency="payments", epoch=draw.choice([0, 1, 2**64 - 1]))
    message.state = draw.choice(list(range(-1, 9)))
    # A refusal may be right, and is tested elsewhere.
    message.first_attempts = draw.choice([-1, 0, 1, 2, 4, 99])
    odd_duration(draw, message.valid_for)
    policy = message.policy
    for name, field in policy.DESCRIPTOR.fields_by_name.items():
        if field.message_type is not None:
            odd_duration(draw, getattr(policy, name))
        elif field.cpp_type == field.CPPTYPE_DOUBLE:
            setattr(policy, name, draw.choice(NUMBERS))
        else:
            setattr(policy, name, draw.choice([0, 1, 3, 99]))
    message.offline_allowance.retries_per_second = draw.choice(NUMBERS)
    message.offline_allowance.known_clients = draw.choice([0, 6_000, 2**32 - 1])
    return message


def test_cl4_hundreds_of_odd_answers_and_updates_end_no_call_late(both: Both) -> None:
    draw = random.Random(SEED)
    updates = tuple(odd_update(draw) for _ in range(50))
    scripted = Scripted(lambda _: odd_answer(draw), updates)
    ended = {"value": 0, "error": 0, "denied": 0}
    with serving(scripted) as endpoint:
        client = both.client(endpoint, timeout=ANSWERED_IN)
        assert both.do(client.connect, 10.0), f"seed {SEED}"
        for index in range(300):
            ended[one_call(both, client, index)] += 1
    assert sum(ended.values()) == 300
    assert min(ended.values()) > 0, f"seed {SEED}: {ended}"
    assert len(scripted.asked) > 100


def one_call(both: Both, client: Any, index: int) -> str:
    def function(attempt: holdoff.Attempt) -> int:
        if index % 3 == 0:
            raise Boom
        return index

    begun, name = time.monotonic(), f"dependency-{index}" if index % 2 else "payments"
    try:
        both.call(client, name, function, idempotent=True, deadline=0.1)
    except Boom:
        return "error"
    except holdoff.Denied as denied:
        assert len(denied.detail) <= 1024
        return "denied"
    finally:
        assert time.monotonic() - begun < 2 * ANSWERED_IN, f"seed {SEED}: call {index}"
    return "value"


def test_b04d_a_thousand_retries_granted_without_a_time_are_never_made(both: Both) -> None:
    def without_a_time(request: Any) -> Any:
        response = granting(request)
        if request.attempt > 1:
            response.grant.ClearField("delay")
        return response

    runs: list[int] = []

    def function(attempt: holdoff.Attempt) -> None:
        runs.append(attempt.number)
        raise Boom

    with serving(Scripted(without_a_time)) as endpoint:
        client = both.client(endpoint, timeout=10.0)
        assert both.do(client.connect, 10.0)
        for _ in range(1_000):
            with pytest.raises(Boom) as raised:
                both.call(client, "payments", function, idempotent=True)
    why = holdoff.stopped(raised.value)
    assert why is not None and why.reason is Reason.UNREADABLE
    assert runs == [1] * 1_000


def test_an_open_state_that_nobody_refreshes_lapses_after_five_minutes(both: Both) -> None:
    lasting = update("payments", "FIRST_ATTEMPTS_REFUSE", state="BREAKER_STATE_OPEN")
    lasting.valid_for.seconds = YEAR
    with serving(Scripted(updates=(lasting,))) as endpoint:
        client = both.client(endpoint, follow=["payments"])
        assert both.do(client.connect, 10.0)
        with pytest.raises(holdoff.Denied) as denied:
            both.call(client, "payments", lambda _: 1)
    assert denied.value.reason is Reason.BREAKER_OPEN
    assert denied.value.retry_after is not None
    assert 299.0 < denied.value.retry_after <= 300.0


def test_a_token_that_cannot_be_read_costs_no_call_and_is_warned_of_once(
    both: Both, caplog: pytest.LogCaptureFixture
) -> None:
    def token() -> str:
        raise FileNotFoundError("the token is gone")

    with serving(Scripted()) as endpoint:
        client = both.client(endpoint, token=token, timeout=0.2)
        begun = time.monotonic()
        for _ in range(50):
            assert both.call(client, "payments", lambda attempt: attempt.is_local)
        assert time.monotonic() - begun < 5.0  # Half of what it would cost each.
        # A busy machine may still be connecting.
        while not any(record.exc_info for record in caplog.records):
            assert time.monotonic() - begun < 30.0
            both.do(client.connect, 0.1)
    assert len([record for record in caplog.records if record.exc_info]) == 1


def test_a_service_without_sessions_that_falls_silent_is_left(both: Both) -> None:
    def silent(request: Any) -> Any:
        time.sleep(0.5)
        return granting(request)

    scripted = Scripted(silent)
    scripted.has_sessions = False
    with serving(scripted) as endpoint:
        client = both.client(endpoint, timeout=0.05)
        assert both.do(client.connect, 10.0)
        begun = time.monotonic()
        for _ in range(100):
            both.call(client, "payments", lambda attempt: 1)
        seconds = time.monotonic() - begun
    # Three, and a trial a second where a busy machine takes as long.
    assert 3 <= client.counters().asked <= 3 + seconds
