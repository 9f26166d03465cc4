"""What a caller sees, with no service anywhere."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any, Callable, Optional

import pytest
from conftest import Both
from scripted import Scripted, serving

import holdoff
from holdoff import DeniedBy, Outcome, Reason


class Boom(Exception):
    pass


def failing(times: int, error: Optional[Exception] = None) -> Callable[[holdoff.Attempt], str]:
    runs: list[int] = []

    def function(attempt: holdoff.Attempt) -> str:
        runs.append(attempt.number)
        if len(runs) <= times:
            raise error or Boom(f"run {len(runs)}")
        return f"run {len(runs)}"

    return function


def test_a_call_is_retried_until_it_succeeds(both: Both) -> None:
    value = both.call(both.client(), "payments", failing(2), idempotent=True)
    assert value == "run 3"


def test_the_last_real_error_is_raised_itself_with_the_reason_attached(both: Both) -> None:
    error = Boom("the last one")
    with pytest.raises(Boom) as raised:
        both.call(both.client(), "payments", failing(9, error), idempotent=True)
    assert raised.value is error
    assert error.__cause__ is None
    why = holdoff.stopped(error)
    assert why is not None
    assert (why.reason, why.by) == (Reason.ATTEMPTS_EXHAUSTED, DeniedBy.LOCAL)
    if sys.version_info >= (3, 11):
        assert error.__notes__ == [f"holdoff: gave up after attempt 3: {why}"]


def test_an_error_keeps_its_own_cause_and_context(both: Both) -> None:
    cause, context = KeyError("cause"), ValueError("context")

    def function(attempt: holdoff.Attempt) -> None:
        try:
            raise context
        except ValueError:
            raise Boom from cause

    with pytest.raises(Boom) as raised:
        both.call(both.client(), "payments", function, idempotent=True)
    assert raised.value.__cause__ is cause
    assert raised.value.__context__ is context


def test_an_error_that_is_raised_again_carries_the_newest_reason_alone(both: Both) -> None:
    error, client = Boom("one object"), both.client()
    for _ in range(3):
        with pytest.raises(Boom):
            both.call(client, "payments", failing(1, error))
    assert len(getattr(error, "__notes__", [""])) == 1


def test_an_error_of_a_type_without_a_dictionary_is_raised_as_it_is(both: Both) -> None:
    class Slotted(Boom):
        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(name)

    with pytest.raises(Slotted) as raised:
        both.call(both.client(), "payments", failing(9, Slotted("frozen")))
    assert holdoff.stopped(raised.value) is None


def test_an_error_that_ends_iterators_is_raised_as_it_is_where_python_lets_it() -> None:
    client = holdoff.Client.testing()
    cause = KeyError("cause")

    def function(attempt: holdoff.Attempt) -> None:
        raise StopIteration("empty") from cause

    with pytest.raises(StopIteration) as raised:
        client.call("payments", function, idempotent=True)
    assert raised.value.__cause__ is cause
    why = holdoff.stopped(raised.value)
    assert why is not None and why.reason is Reason.ATTEMPTS_EXHAUSTED
    attempts = client.attempts("payments")
    with next(attempts):
        next(iter(()))
    with pytest.raises(RuntimeError, match="an attempt raised StopIteration") as ended:
        next(attempts)
    assert isinstance(ended.value.__cause__, StopIteration)


def test_an_unsafe_call_is_made_once_unless_it_was_not_sent(both: Both) -> None:
    client, error = both.client(), ConnectionRefusedError(111, "refused")
    with pytest.raises(Boom, match="run 1") as raised:
        both.call(client, "payments", failing(9))
    why = holdoff.stopped(raised.value)
    assert why is not None and why.reason is Reason.RETRY_UNSAFE
    assert both.call(client, "payments", failing(1, error)) == "run 2"


def test_five_failures_open_the_local_breaker_and_calls_are_denied_at_once(both: Both) -> None:
    client = both.client()
    for _ in range(5):
        with pytest.raises(Boom):
            both.call(client, "payments", failing(1))
    function = failing(0)
    with pytest.raises(holdoff.Denied) as denied:
        both.call(client, "payments", function)
    assert (denied.value.reason, denied.value.by) == (Reason.BREAKER_OPEN, DeniedBy.LOCAL)
    assert 9.0 < (denied.value.retry_after or 0.0) < 12.0
    assert both.call(client, "another", failing(0)) == "run 1"


def test_a_fallback_takes_the_place_of_the_error_and_knows_it(both: Both) -> None:
    seen: list[Any] = []

    def fallback(why: holdoff.Denied, error: Optional[BaseException]) -> int:
        seen.append((why.reason, str(error)))
        return 42

    assert both.call(both.client(), "prices", failing(1), fallback=fallback) == 42
    assert seen == [(Reason.RETRY_UNSAFE, "run 1")]


def test_no_delay_reaches_the_deadline(both: Both) -> None:
    policy = holdoff.local_policy(initial_delay=5.0, jitter="none")
    client, begun = both.client(local_policy=policy), time.monotonic()
    with pytest.raises(Boom) as raised:
        both.call(client, "payments", failing(9), idempotent=True, deadline=4.0)
    why = holdoff.stopped(raised.value)
    assert why is not None and why.reason is Reason.DEADLINE
    assert time.monotonic() - begun < 3.0


def test_a_response_that_counts_as_failure_is_retried_and_returned_as_it_is(both: Both) -> None:
    responses = [SimpleNamespace(status_code=503, headers={}) for _ in range(3)]
    left = list(responses)

    def function(attempt: holdoff.Attempt) -> Any:
        return left.pop(0)

    returned = both.call(
        both.client(), "shop", function, idempotent=True, classify=holdoff.classify.http
    )
    assert returned is responses[-1]


@pytest.mark.parametrize("wrapped", [False, True])
def test_calls_within_calls_do_not_multiply(both: Both, wrapped: bool) -> None:
    """Of three layers the lowest alone retries."""
    client, runs = both.testing(), []

    def lowest(attempt: holdoff.Attempt) -> None:
        runs.append(attempt.number)
        raise Boom

    def around(dependency: str, function: Any) -> Any:
        def run(attempt: holdoff.Attempt) -> Any:
            try:
                return client.call(dependency, function, idempotent=True)
            except Boom as error:
                if wrapped:
                    raise Boom("wrapped") from error
                raise

        async def awaited(attempt: holdoff.Attempt) -> Any:
            try:
                return await client.call(dependency, function, idempotent=True)
            except Boom as error:
                if wrapped:
                    raise Boom("wrapped") from error
                raise

        return awaited if both.is_aio else run

    async def lowest_awaited(attempt: holdoff.Attempt) -> None:
        lowest(attempt)

    middle = around("lowest", lowest_awaited if both.is_aio else lowest)
    with pytest.raises(Boom) as raised:
        both.do(client.call, "highest", around("middle", middle), idempotent=True)
    why = holdoff.stopped(raised.value)
    assert why is not None and why.reason is Reason.RETRIED_BELOW
    assert runs == [1, 2, 3]


def test_a_call_above_one_that_made_one_attempt_retries(both: Both) -> None:
    client, runs, error = both.testing(), [], Boom("one object")

    def below(attempt: holdoff.Attempt) -> None:
        runs.append(attempt.number)
        raise error

    async def awaited(attempt: holdoff.Attempt) -> None:
        below(attempt)

    def above(attempt: holdoff.Attempt) -> Any:
        return client.call("below", awaited if both.is_aio else below)

    with pytest.raises(Boom):
        both.do(client.call, "above", above, idempotent=True)
    assert runs == [1, 1, 1]


def test_what_an_error_carries_of_an_earlier_call_is_not_read_in_a_later_one(both: Both) -> None:
    client, runs, error = both.testing(), [], Boom("one object")

    def function(attempt: holdoff.Attempt) -> None:
        runs.append(attempt.number)
        raise error

    for _ in range(2):
        with pytest.raises(Boom):
            both.call(client, "payments", function, idempotent=True)
    assert runs == [1, 2, 3, 1, 2, 3]


def test_a_denial_below_says_nothing_of_what_is_above(both: Both) -> None:
    client, runs = both.client(), []

    def denied(attempt: holdoff.Attempt) -> None:
        runs.append(attempt.number)
        raise holdoff.Denied(DeniedBy.FLEET, Reason.BREAKER_OPEN, retry_after=5.0)

    for _ in range(10):
        with pytest.raises(holdoff.Denied) as raised:
            both.call(client, "above", denied, idempotent=True)
        assert raised.value.reason is Reason.BREAKER_OPEN
    assert runs == [1] * 10, "no breaker opens for it"


def test_a_call_that_was_cut_off_below_is_not_retried_above() -> None:
    client, runs = holdoff.aio.Client.testing(), []

    async def slow(attempt: holdoff.Attempt) -> None:
        runs.append(attempt.number)
        await asyncio.sleep(5)

    async def below(attempt: holdoff.Attempt) -> None:
        await client.call("below", slow, idempotent=True, attempt_timeout=0.01)

    async def call() -> None:
        await client.call("above", below, idempotent=True)

    with pytest.raises(holdoff.TimedOut) as raised:
        asyncio.run(call())
    outcome = holdoff.classify.of_error(raised.value)
    assert (outcome.kind, outcome.retried_below) == (holdoff.OutcomeKind.TIMEOUT, True)
    assert runs == [1, 2, 3]


def test_a_classifier_that_fails_hides_nothing_and_counts_as_ignored(
    both: Both, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(value: Any, error: Optional[BaseException]) -> Outcome:
        raise KeyError("of the classifier")

    def nothing(value: Any, error: Optional[BaseException]) -> Any:
        return None

    client = both.client()
    for classify in (broken, nothing):
        for _ in range(10):
            error = Boom("the real one")
            with pytest.raises(Boom) as raised:
                both.call(client, "payments", failing(9, error), idempotent=True, classify=classify)
            assert raised.value is error and error.__context__ is None
            why = holdoff.stopped(error)
            assert why is not None and why.reason is Reason.NOT_RETRYABLE
            assert both.call(client, "payments", failing(0), classify=classify) == "run 1"
    assert [record.levelname for record in caplog.records if record.exc_info] == ["WARNING"]


def test_a_permit_is_reported_where_the_classifier_fails(both: Both) -> None:
    def broken(value: Any, error: Optional[BaseException]) -> Outcome:
        raise KeyError("of the classifier")

    scripted = Scripted()
    with serving(scripted) as endpoint:
        client = both.client(endpoint, timeout=10.0)
        with pytest.raises(Boom):
            both.call(client, "payments", failing(9), classify=broken)
        assert both.do(client.flush, 10.0)
    assert [entry.result.outcome.kind for entry in scripted.entries] == [7]


def test_a_function_may_give_its_call_up(both: Both) -> None:
    scripted = Scripted()
    with serving(scripted) as endpoint:
        client = both.client(endpoint, timeout=10.0)
        with pytest.raises(holdoff.Cancelled) as raised:
            both.call(client, "payments", failing(9, holdoff.Cancelled()), idempotent=True)
        assert both.do(client.flush, 10.0)
    assert holdoff.stopped(raised.value) is None
    assert [entry.result.outcome.kind for entry in scripted.entries] == [8]


def test_what_ends_the_program_is_no_outcome_and_passes(both: Both) -> None:
    def function(attempt: holdoff.Attempt) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        both.call(both.client(), "payments", function, idempotent=True)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"deadline": float("nan")}, "deadline"),
        ({"max_attempts": 0}, "max_attempts 0: it must be 1 to"),
        ({"priority": "urgent"}, "priority"),
        ({"cost": -1}, "cost -1"),
        ({"call_id": "x" * 129}, "call_id"),
        ({"on_denied": "retry"}, "on_denied"),
        ({"idempotnet": True}, "idempotnet"),
    ],
)
def test_a_bad_setting_is_named(both: Both, settings: dict[str, Any], error: str) -> None:
    with pytest.raises((ValueError, TypeError), match=error):
        both.call(both.client(), "payments", failing(0), **settings)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"endpoints": ["ftp://x"]}, "endpoint `ftp://x`"),
        ({"endpoints": ["http://x:port"]}, "endpoint"),
        ({"endpoints": []}, "endpoints"),
        ({"timeout": 0.0}, "timeout 0.0: it must be above 0"),
        ({"timeout": 11.0}, "timeout"),
        ({"follow": ["a b"]}, "follow 'a b'"),
        ({"namespace": "ä"}, "namespace"),
        ({"service": "x" * 201}, "service"),
        ({"on_no_decision": "perhaps"}, "on_no_decision"),
    ],
)
def test_only_what_can_never_work_is_refused(settings: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        holdoff.Client(**settings)


def test_a_bad_local_policy_is_named() -> None:
    for name, value in {"max_delay": -1.0, "multiplier": 0.5, "open_for": 0.0}.items():
        with pytest.raises(ValueError, match=name):
            holdoff.local_policy(**{name: value})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="jitter"):
        holdoff.local_policy(jitter="some")  # type: ignore[arg-type]


def test_testing_mode_waits_for_nothing_and_makes_three_attempts(both: Both) -> None:
    client, function, begun = both.testing(), failing(1000), time.monotonic()
    for _ in range(50):
        with pytest.raises(Boom):
            both.call(client, "rates", function, idempotent=True, deadline=30.0)
    with pytest.raises(Boom, match="run 151"):
        function(holdoff.Attempt())
    assert time.monotonic() - begun < 5.0  # Delays would take 15 s.


def test_a_bypass_lets_every_call_through_with_local_retries(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDOFF_BYPASS", "1")
    client = both.client()
    for _ in range(50):
        with pytest.raises(Boom):
            both.call(client, "payments", failing(1))
    assert both.call(client, "payments", failing(1), idempotent=True) == "run 2"
    assert both.do(client.connect, 0.1) is False


def test_two_steps(both: Both) -> None:
    client = both.client()
    permit = both.do(client.acquire, "search", idempotent=True, deadline=3.0)
    for attempt in (1, 2, 3):
        both.do(permit.wait)
        assert (permit.attempt, permit.is_local) == (attempt, True)
        if attempt < 3:
            permit = both.do(permit.retry, Outcome.timeout())
    with pytest.raises(holdoff.Denied) as denied:
        both.do(permit.retry, Outcome.failure())
    assert denied.value.reason is Reason.ATTEMPTS_EXHAUSTED
    with pytest.raises(holdoff.Denied, match="reported already"):
        both.do(permit.retry, Outcome.failure())


def test_a_permit_knows_its_limit_and_may_be_given_up(both: Both) -> None:
    permit = both.do(both.client().acquire, "search", deadline=30.0, attempt_timeout=20.0)
    with permit:
        assert 15.0 < permit.limit <= 20.0
    with pytest.raises(holdoff.Denied):
        both.do(permit.retry, Outcome.failure())


def test_a_guarded_function_keeps_its_name_and_arguments(both: Both) -> None:
    client, seen = both.client(), []

    if both.is_aio:

        @client.guarded("payments", idempotent=True)  # type: ignore[untyped-decorator]
        async def charge(order: int, *, note: str = "") -> str:
            """Charges."""
            seen.append(holdoff.attempt().number)
            return end(order, note)
    else:

        @client.guarded("payments", idempotent=True)  # type: ignore[untyped-decorator]
        def charge(order: int, *, note: str = "") -> str:
            """Charges."""
            seen.append(holdoff.attempt().number)
            return end(order, note)

    def end(order: int, note: str) -> str:
        if len(seen) < 2:
            raise Boom
        return f"{order} {note}"

    assert both.do(charge, 7, note="x") == "7 x"
    assert (charge.__name__, charge.__doc__, seen) == ("charge", "Charges.", [1, 2])


def test_a_loop_of_attempts_ends_with_the_first_that_ends_well() -> None:
    client, numbers = holdoff.Client.testing(), []
    for attempt in client.attempts("payments", idempotent=True):
        with attempt:
            numbers.append(attempt.number)
            if attempt.number < 3:
                raise Boom
    assert numbers == [1, 2, 3]


def test_a_loop_of_attempts_raises_the_last_real_error() -> None:
    client, error = holdoff.Client.testing(), Boom("again")

    def loop() -> None:
        for attempt in client.attempts("payments", idempotent=True):
            with attempt:
                raise error

    with pytest.raises(Boom) as raised:
        loop()
    assert raised.value is error
    why = holdoff.stopped(error)
    assert why is not None and why.reason is Reason.ATTEMPTS_EXHAUSTED


def test_a_loop_of_attempts_reads_results() -> None:
    client, codes = holdoff.Client.testing(), [503, 503, 200]
    for attempt in client.attempts("shop", idempotent=True, classify=holdoff.classify.http):
        with attempt:
            attempt.result(SimpleNamespace(status_code=codes.pop(0), headers={}))
    assert codes == []


def test_a_loop_of_attempts_without_blocks_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="with attempt"):
        for _ in holdoff.Client.testing().attempts("payments"):
            pass


def test_an_awaited_loop_of_attempts() -> None:
    async def loop() -> list[int]:
        client, numbers = holdoff.aio.Client.testing(), []
        async for attempt in client.attempts("payments", idempotent=True):
            with attempt:
                numbers.append(attempt.number)
                if attempt.number < 2:
                    raise Boom
        return numbers

    assert asyncio.run(loop()) == [1, 2]


def test_an_awaited_attempt_is_cut_off_at_its_limit() -> None:
    async def call() -> None:
        async def slow(attempt: holdoff.Attempt) -> None:
            await asyncio.sleep(5)

        client = holdoff.aio.Client.testing()
        await client.call("payments", slow, attempt_timeout=0.02)

    with pytest.raises(holdoff.TimedOut) as raised:
        asyncio.run(call())
    why = holdoff.stopped(raised.value)
    assert why is not None and why.reason is Reason.RETRY_UNSAFE


def test_a_call_in_a_thread_is_given_up_by_an_event() -> None:
    policy = holdoff.local_policy(initial_delay=30.0, max_delay=60.0, jitter="none")
    client = holdoff.Client(service="test", local_policy=policy)
    cancel, begun = threading.Event(), time.monotonic()
    threading.Timer(0.1, cancel.set).start()
    with pytest.raises(holdoff.Cancelled):
        client.call("payments", failing(9), idempotent=True, cancel=cancel)
    assert time.monotonic() - begun < 10.0  # Of 30.


def test_one_client_serves_many_threads() -> None:
    client = holdoff.Client.testing()
    done: list[str] = []

    def work() -> None:
        done.extend(client.call("payments", failing(1), idempotent=True) for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == ["run 2"] * 800
