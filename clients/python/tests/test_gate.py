"""The breaker on the service itself, on a time that the test says."""

from __future__ import annotations

from holdoff._gate import FAILURES_TO_SHUT, LATE_TRIAL_EVERY_NS, Gate, Pass
from holdoff._patience import Patience

MS = 1_000_000
TIMEOUT = 50 * MS


def asked(gate: Gate, now: int) -> Pass:
    passed = gate.enter(now, TIMEOUT)
    assert passed is not None
    return passed


def shut(now: int) -> Gate:
    gate = Gate()
    has_shut = [gate.unanswered(asked(gate, now), now, 0.5) for _ in range(FAILURES_TO_SHUT)]
    assert has_shut == [False, False, True]
    return gate


def test_three_unanswered_questions_in_a_row_shut_it_and_an_answer_between_does_not() -> None:
    gate = Gate()
    for index in range(9):
        passed = asked(gate, 0)
        if index % 3 == 2:
            gate.answered(passed, 0)
        else:
            assert not gate.unanswered(passed, 0, 0.5)
    assert shut(0).enter(0, TIMEOUT) is None


def test_after_its_time_one_trial_passes_and_decides() -> None:
    gate, later = shut(0), 3_000 * MS
    trial = asked(gate, later)
    assert gate.enter(later, TIMEOUT) is None
    assert gate.unanswered(trial, later, 0.0)
    assert gate.enter(later + 1_999 * MS, TIMEOUT) is None
    assert gate.answered(asked(gate, later + 2_000 * MS), later + 2_010 * MS)


def test_of_a_burst_three_wait_the_whole_timeout_and_the_others_half_of_it() -> None:
    gate = Gate()
    for index in range(100):
        passed, now = asked(gate, index * MS // 10), index * MS // 10
        is_whole = index < FAILURES_TO_SHUT
        assert passed.is_whole is is_whole
        assert passed.wait_ns == (TIMEOUT if is_whole else TIMEOUT // 2 - now)
    assert gate.enter(TIMEOUT // 2, TIMEOUT) is None, "it has been silent for half a timeout"


def test_after_a_question_without_an_answer_two_more_wait_and_nobody_else() -> None:
    gate = Gate()
    gate.unanswered(asked(gate, 0), 0, 0.5)
    second, _ = asked(gate, 0), asked(gate, 0)
    assert gate.enter(0, TIMEOUT) is None
    gate.answered(second, 0)
    for _ in range(10):
        asked(gate, 0)


def test_the_others_wait_twice_as_long_as_answers_take_lately() -> None:
    gate = Gate()
    gate.answered(asked(gate, 0), 20 * MS)
    waits = [asked(gate, 1_000 * MS).wait_ns for _ in range(4)]
    assert waits == [TIMEOUT, TIMEOUT, TIMEOUT, 40 * MS]


def test_a_question_that_is_given_up_makes_room_for_another() -> None:
    gate = Gate()
    for _ in range(10):
        passed = asked(gate, 0)
        assert passed.is_whole
        gate.gave_up(passed, 0)


def test_a_service_that_is_heard_gets_one_trial_early() -> None:
    gate = shut(0)
    gate.heard(0)
    gate.unanswered(asked(gate, 0), 0, 0.5)
    gate.heard(0)
    assert gate.enter(0, TIMEOUT) is None


def test_a_late_answer_brings_the_trial_at_once_and_then_once_in_half_a_second() -> None:
    now, gate = 0, shut(0)
    for wait in (0, LATE_TRIAL_EVERY_NS, LATE_TRIAL_EVERY_NS):
        gate.heard_late(now)
        if wait:
            assert gate.enter(now + wait - 1, TIMEOUT) is None
        now += wait
        gate.unanswered(asked(gate, now), now, 0.5)


def test_three_callers_in_all_wait_for_a_service_of_which_nothing_is_heard() -> None:
    patience = Patience()
    assert [patience.enter(who) for who in range(4)] == [True, True, True, False]
    for who in range(3):
        patience.leave(who, was_late=True)
    assert not patience.enter(3)
    patience.heard()
    assert all(patience.enter(who) for who in range(10))
    patience.lost()
    assert not patience.enter(10)
    for who in range(10):
        patience.leave(who)
        patience.leave(who, was_late=True)  # Said twice.
    assert [patience.enter(who) for who in range(4)] == [True, True, True, False]
