"""What a question does in its time, without sockets, threads or a clock: the flows are performed
here.
"""

from __future__ import annotations

from typing import Any, Optional

import pytest
from scripted import granting, update

from holdoff import Cancelled, Denied, DeniedBy, Outcome, Policy, Reason, _clock, _wire
from holdoff._answer import LATE, Lack, NoAnswer
from holdoff._asking import Asking
from holdoff._calling import obtain
from holdoff._channel import Tls
from holdoff._core import Configuration, Core, OnNoDecision, OnState
from holdoff._flow import AskFleet, Flow, Sleep
from holdoff._link import Link
from holdoff._permit import Permit
from holdoff._question import Question
from holdoff._rules.arithmetic import NS

SECOND = NS
HUGE = 100_000


class Clock:
    def __init__(self) -> None:
        self.now = 1_000 * SECOND

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(_clock, "now_ns", clock)
    return clock


class Standing(Link):
    """A connection that stands, and that nobody moves bytes on."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self._channel = (0, None)

    def breaks(self) -> None:
        self._channel = None

    def falls_silent(self) -> None:
        for _ in range(3):
            passed = self.gate.enter(_clock.now_ns(), 50_000_000)
            assert passed is not None
            self.gate.unanswered(passed, _clock.now_ns(), 0.5)

    def wake(self) -> None:
        pass

    def begin(self) -> bool:
        return True


@pytest.fixture
def core(clock: Clock) -> Core:
    return core_that("local")


def core_that(on_no_decision: OnNoDecision) -> Core:
    endpoints = ("http://127.0.0.1:9",)
    tls = Tls(None, None, None)
    policy = Policy(jitter="none", initial_delay_ns=SECOND // 50)
    return Core(
        Configuration.checked(
            endpoints, "test", "test-1", "", 0.05, on_no_decision, (), policy, tls, None
        ),
        Standing,
    )


def push(core: Core, epoch: int, word: str = "GO", clients: int = HUGE) -> None:
    state = "BREAKER_STATE_OPEN" if word == "REFUSE" else "BREAKER_STATE_CLOSED"
    message = update("payments", f"FIRST_ATTEMPTS_{word}", state=state, epoch=epoch)
    message.offline_allowance.known_clients = clients
    message.offline_allowance.retries_per_second = 10.0
    core.pushed.store(message)


def after_a_failure(core: Core, **settings: Any) -> Asking:
    """The question about the second attempt, where the first was made on the state of epoch 7."""
    asking = Asking(core, Question("payments", {"idempotent": True, **settings}))
    return asking.next(OnState(7, 0), Outcome.failure())


def granted(delay: float) -> Any:
    response = granting(None)
    _wire.write_duration(response.grant.delay, int(delay * SECOND))
    return response


def tallied(core: Core) -> list[tuple[int, int, int]]:
    """Epoch, first attempts, failures of all that is counted."""
    batch = core.link.reports.take() if core.link else None
    tallies = [entry.tally for entry in batch.entries] if batch else []
    return [(tally.epoch, tally.first_attempts, tally.failures) for tally in tallies]


def lose(core: Core, why: str = "no connection") -> None:
    assert isinstance(core.link, Standing)
    if why == "silence":
        core.link.falls_silent()
    else:
        core.link.breaks()


def first(core: Core) -> Permit:
    """A first attempt for which nothing is asked or waited for."""
    permit = Asking(core, Question("payments", {"idempotent": True})).at_once()
    assert permit is not None and permit.delay() == 0
    return permit


def fails(permit: Permit) -> None:
    """And is retried, with success, by this process's own decision."""
    flow = obtain(permit.next(Outcome.failure()), "fail")
    assert isinstance(next(flow), AskFleet)
    assert isinstance(flow.send(NoAnswer(Lack.AWAY)), Sleep)
    flow.close()


def ended(flow: Flow[Any], sent: Any = None) -> Any:
    with pytest.raises(StopIteration) as done:
        flow.send(sent)
    return done.value.value


def refused(flow: Flow[Any], sent: Any = None) -> Denied:
    with pytest.raises(Denied) as denied:
        flow.send(sent)
    return denied.value


def test_a_huge_fleet_asks_within_a_second_and_its_retries_are_no_later_for_it(
    core: Core, clock: Clock
) -> None:
    push(core, 7)
    held = []
    for _ in range(200):
        flow = after_a_failure(core).ask()
        sleep, begun = next(flow), clock.now
        assert isinstance(sleep, Sleep)
        held.append(sleep.seconds)
        clock.now += round(sleep.seconds * SECOND)
        question = flow.send(None)
        assert isinstance(question, AskFleet) and question.request.previous.epoch == 7
        permit = ended(flow, granted(1.2))
        assert permit.usable_at == begun + round(1.2 * SECOND)
    assert 0.0 <= min(held) < 0.2 and 0.75 < max(held) < 0.95
    assert tallied(core) == []


@pytest.mark.parametrize("clients", [0, 5_000])
def test_a_fleet_that_one_service_can_answer_asks_at_once(core: Core, clients: int) -> None:
    push(core, 7, clients=clients)
    assert isinstance(next(after_a_failure(core).ask()), AskFleet)


def test_a_delay_that_passed_while_the_question_was_held_back_is_over(
    core: Core, clock: Clock
) -> None:
    push(core, 7)
    flow = after_a_failure(core).ask()
    next(flow)
    clock.now += SECOND
    flow.send(None)
    assert ended(flow, granted(0.3)).delay() == 0


def test_a_delay_that_is_decided_alone_is_the_shorter_too(core: Core, clock: Clock) -> None:
    push(core, 7)
    flow = after_a_failure(core).ask()
    next(flow)
    clock.now += SECOND
    flow.send(None)
    permit = ended(flow, LATE)
    assert permit.is_local and permit.delay() == 0


def test_only_a_later_trip_answers_a_question_that_is_held_back(core: Core, clock: Clock) -> None:
    push(core, 7)
    flow = after_a_failure(core).ask_once()
    sleep = next(flow)
    assert isinstance(sleep, Sleep) and sleep.is_over is not None
    heard: list[bool] = []
    core.pushed.listen(lambda: heard.append(True))
    push(core, 7, "REFUSE")
    assert heard == [True] and not sleep.is_over()
    push(core, 8, "REFUSE")
    assert heard == [True, True] and sleep.is_over()
    denied = refused(flow)
    assert (denied.reason, denied.by) == (Reason.BREAKER_OPEN, DeniedBy.FLEET)
    assert denied.retry_after == 15.0
    # A whole fleet learns of it at one instant: its tally is in no hurry.
    assert core.link is not None
    due = core.link.reports.due_at()
    assert due is not None and SECOND // 10 <= due - clock.now <= SECOND
    assert tallied(core) == [(7, 1, 1)]


def test_a_trip_that_came_before_the_failure_answers_it_too(core: Core) -> None:
    push(core, 8, "REFUSE")
    assert refused(after_a_failure(core).ask_once()).reason is Reason.BREAKER_OPEN


def test_a_waiting_call_that_a_trip_answered_tells_its_failure_once_with_the_next_question(
    core: Core, clock: Clock
) -> None:
    push(core, 7)
    flow = obtain(after_a_failure(core), "wait")
    next(flow)
    push(core, 8, "REFUSE")
    sleep = flow.send(None)
    assert isinstance(sleep, Sleep) and sleep.seconds == 15.0
    clock.now += 15 * SECOND
    question = flow.send(None)
    assert isinstance(question, AskFleet), "held back once only"
    assert question.request.previous.epoch == 7
    ended(flow, granted(0.0))
    assert tallied(core) == []


@pytest.mark.parametrize("why", ["no connection", "silence"])
def test_nothing_is_held_back_while_the_service_is_known_to_be_away(
    core: Core, clock: Clock, why: str
) -> None:
    push(core, 7)
    lose(core, why)
    assert isinstance(next(after_a_failure(core).ask()), AskFleet)


def test_no_question_is_held_back_beyond_its_callers_time(core: Core, clock: Clock) -> None:
    push(core, 7)
    asking = after_a_failure(core, deadline=0.01)
    flow = asking.ask_once()
    sleep = next(flow)
    assert isinstance(sleep, Sleep) and sleep.seconds <= 0.01
    clock.now += SECOND
    denied = refused(flow)
    assert (denied.reason, denied.by) == (Reason.DEADLINE, DeniedBy.CALLER)
    assert tallied(core) == [(7, 1, 1)]


def while_held_back(core: Core) -> Flow[Any]:
    push(core, 7)
    flow = obtain(after_a_failure(core), "fail")
    assert isinstance(next(flow), Sleep)
    return flow


def while_it_asks(core: Core) -> Flow[Any]:
    flow = obtain(after_a_failure(core), "fail")
    assert isinstance(next(flow), AskFleet)
    return flow


def before_it_asks_again(core: Core) -> Flow[Any]:
    push(core, 7)
    flow = obtain(after_a_failure(core), "wait")
    next(flow)
    push(core, 8, "REFUSE")
    assert isinstance(flow.send(None), Sleep)
    return flow


@pytest.mark.parametrize("moment", [while_held_back, while_it_asks, before_it_asks_again])
def test_what_a_caller_saw_is_tallied_where_it_gives_up(core: Core, moment: Any) -> None:
    with pytest.raises(Cancelled):
        moment(core).throw(Cancelled())
    assert tallied(core) == [(7, 1, 1)]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(LATE, []), (NoAnswer(Lack.LOST), []), (NoAnswer(Lack.AWAY), [(7, 1, 1)])],
)
def test_without_an_answer_it_is_tallied_where_the_question_cannot_have_arrived(
    core: Core, answer: Any, expected: list[Any]
) -> None:
    flow = while_it_asks(core)
    assert isinstance(flow.send(answer), Sleep), "the delay that was decided alone"
    with pytest.raises(Cancelled):
        flow.throw(Cancelled())
    assert tallied(core) == expected


@pytest.mark.parametrize("heard", [None, 7])
def test_a_local_attempt_is_told_under_the_epoch_of_its_start_at_any_attempt(
    core: Core, clock: Clock, heard: Optional[int]
) -> None:
    if heard is not None:
        push(core, heard, "ASK")
    flow = obtain(Asking(core, Question("payments", {"idempotent": True})), "fail")
    next(flow)
    permit = ended(flow, LATE)
    for attempt in (2, 3):
        push(core, attempt + 10, "ASK")
        asking = permit.next(Outcome.failure())
        for _ in range(2):  # The same question says the same.
            flow = asking.ask()
            question = next(flow)
            assert isinstance(question, AskFleet)
            previous = question.request.previous
            assert (question.request.attempt, previous.epoch) == (attempt, heard or 0)
            assert previous.WhichOneof("made_under") == "epoch"
            flow.close()
        flow = obtain(asking, "fail")
        next(flow)
        sleep = flow.send(LATE)
        assert isinstance(sleep, Sleep)
        # What is pushed while it waits is what it begins in.
        heard = attempt + 20
        push(core, heard, "ASK")
        clock.now += 10 * SECOND
        permit = ended(flow)


AWAY = pytest.mark.parametrize("why", ["no connection", "silence"])


@AWAY
def test_what_a_go_lets_go_while_the_service_is_away_counts_all(core: Core, why: str) -> None:
    push(core, 7)
    lose(core, why)
    for index in range(80):
        permit = first(core)
        assert permit.is_local
        if index % 8:
            permit.succeeded(0)
        else:
            fails(permit)
    counters = core.counters
    assert (counters.pushed_grants, counters.asked, counters.local_denials) == (0, 0, 0)
    assert tallied(core) == [], "the service learns nothing of it, so that nothing is told twice"


@AWAY
def test_what_a_go_lets_go_while_the_service_is_away_lets_no_outage_through(
    core: Core, why: str
) -> None:
    push(core, 7)
    lose(core, why)
    for _ in range(5):
        first(core).report(Outcome.failure())
    with pytest.raises(Denied) as denied:
        first(core)
    assert (denied.value.reason, denied.value.by) == (Reason.BREAKER_OPEN, DeniedBy.LOCAL)
    assert core.counters.local_denials == 1


def test_what_was_under_way_at_the_loss_counts_alone_too_and_once(core: Core) -> None:
    push(core, 7)
    failing, succeeding = [first(core) for _ in range(3)], [first(core) for _ in range(20)]
    lose(core)
    for permit in failing:
        fails(permit)
    for permit in succeeding[:10]:
        permit.succeeded(0)
    for permit in succeeding[10:]:
        permit.report(Outcome.success())
    # Five in a row open the breaker; four do not, and the three before are made good.
    for _ in range(4):
        fails(first(core))
    assert first(core).is_local
    ((epoch, _, failures),) = tallied(core)
    assert (epoch, failures) == (7, 3), "what it was is told to the service all the same"


def test_a_failure_under_way_at_the_loss_counts_once_however_it_ends(core: Core) -> None:
    push(core, 7)
    unsafe = Asking(core, Question("payments", {}))
    permits = [unsafe.at_once() for _ in range(2)]
    retried = [first(core) for _ in range(2)]
    lose(core)
    for permit in permits:
        assert permit is not None
        asking = permit.next(Outcome.failure())
        assert refused(obtain(asking, "fail")).reason is Reason.RETRY_UNSAFE
    for permit in retried:
        fails(permit)
    assert first(core).is_local, "four of five"
    first(core).report(Outcome.failure())
    with pytest.raises(Denied):
        first(core)


def test_while_the_service_is_at_hand_nothing_counts_here(core: Core) -> None:
    push(core, 7)
    for _ in range(10):
        first(core).report(Outcome.failure())
    assert core.counters.pushed_grants == 10
    lose(core)
    assert first(core).is_local


@pytest.mark.parametrize("on_no_decision", ["allow", "deny"])
def test_a_go_is_the_fleets_decision_where_this_process_must_not_decide(
    clock: Clock, on_no_decision: OnNoDecision
) -> None:
    core = core_that(on_no_decision)
    push(core, 7)
    lose(core)
    for _ in range(10):
        permit = first(core)
        assert not permit.is_local
        permit.report(Outcome.failure())
    assert (core.counters.pushed_grants, core.counters.local_grants) == (10, 0)
    assert tallied(core) == [(7, 10, 10)]
    assert core.local._records == {}


def test_a_denied_retry_does_not_bind_what_a_go_lets_go_alone(core: Core, clock: Clock) -> None:
    push(core, 7)
    denial = Denied(DeniedBy.FLEET, Reason.BREAKER_OPEN, "", 10.0)
    core.local.remember("payments", denial)
    lose(core)
    assert first(core).is_local
    clock.now += 15 * SECOND
    core.local.remember("payments", denial)
    flow = obtain(Asking(core, Question("payments", {})), "fail")
    assert isinstance(next(flow), AskFleet), "it is valid no more"
    assert refused(flow, NoAnswer(Lack.AWAY)).reason is Reason.BREAKER_OPEN


def test_what_a_go_lets_go_alone_looks_for_the_service_at_nobodys_wait(core: Core) -> None:
    push(core, 7)
    assert core.link is not None
    first(core)
    assert core.link.patience() is None
    lose(core)
    for _ in range(3):
        first(core)
    assert [ask.request for ask in core.link.inbox] == [None]
    assert core.link.patience() == 0.0
