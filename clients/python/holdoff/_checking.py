"""Runs a health check again and again, when the service says; without input and output.

The next run is planned as soon as the one before has ended, and the question carries how it
ended. Where the plan is that others check, their verdict is told and the service is asked again
when it says. Checks are what an outage is found by, so they go on without the service, on the
grid that it gave last.
"""

from __future__ import annotations

import enum
import logging
from dataclasses import dataclass
from typing import Any, Callable, Optional, Union

from . import _clock, _entropy, _wire
from ._answer import Lack, NoAnswer
from ._core import Core, Mode
from ._flow import Flow, PlanCheck, Sleep
from ._proto import coordinator_pb2 as pb
from ._rules import schedule
from ._rules.arithmetic import NS, from_seconds, to_seconds
from ._rules.policy import DAY_NS

log = logging.getLogger("holdoff")

DELAY_MAX_NS = 2 * DAY_NS
TIMEOUT_MAX_NS = 3600 * NS
APART_NS = 10_000_000
PLAN_SECONDS_MAX = 1.0
LOOK_AGAIN_NS = 60 * NS
TESTING_RUNS = 3
_REFUSALS = (3, 5, 7, 9, 12, 16)


class Verdict(enum.Enum):
    """What checks have found."""

    HEALTHY = 1
    UNHEALTHY = 2
    UNKNOWN = 3

    @property
    def name_on_the_wire(self) -> str:
        return f"CHECK_VERDICT_{self.name}"


@dataclass(frozen=True)
class Check:
    """What a check is told about its run. One that takes longer than `timeout` is unhealthy."""

    timeout: float
    is_local: bool


@dataclass(frozen=True)
class Ran:
    """A check was run. `fleet`: what all checkers together have found, where that is known."""

    healthy: bool
    timed_out: bool
    took: float
    is_local: bool
    fleet: Optional[Verdict]


@dataclass(frozen=True)
class Shared:
    """Others check; this is what they found, `age` seconds ago."""

    verdict: Verdict
    age: Optional[float]
    ask_again: float


@dataclass(frozen=True)
class NotPlanned:
    """The service plans no checks of this dependency; they go on by themselves."""

    why: str


@dataclass(frozen=True)
class Away:
    """The service is away; checks go on as it planned them last."""

    why: str


Finding = Union[Ran, Shared, NotPlanned, Away]


@dataclass
class Checked:
    """`last` is None where no check was run."""

    runs: int = 0
    last: Optional[bool] = None


@dataclass(frozen=True)
class Run:
    timeout_ns: int
    permit: Optional[bytes]

    @property
    def check(self) -> Check:
        return Check(to_seconds(self.timeout_ns), self.permit is None)


@dataclass(frozen=True)
class Plan:
    """`shared` is None where a check is to be run."""

    delay_ns: int
    run: Optional[Run]
    shared: Optional[Shared]
    verdict: Verdict
    period_ns: Optional[int]


class Checking:
    def __init__(
        self,
        core: Core,
        dependency: str,
        period: float,
        timeout: float,
        runs: Optional[int],
        told: Optional[Callable[[Finding], None]],
    ) -> None:
        if not APART_NS <= from_seconds(period) <= DAY_NS:
            raise ValueError(f"period {period!r}: it must be 0.01 s to 24 h")
        if not 0 < from_seconds(timeout) <= TIMEOUT_MAX_NS:
            raise ValueError(f"timeout {timeout!r}: it must be above 0 and at most 1 h")
        core.check_name(dependency)
        self._core = core
        self._dependency = dependency
        self._own = (from_seconds(period), from_seconds(timeout))
        self._period, self._timeout = self._own
        self._anchor = _clock.now_ns() + schedule.part_of(self._name(), self._period)
        self._waits = core.mode is not Mode.TESTING
        self._runs = runs if self._waits else min(runs or TESTING_RUNS, TESTING_RUNS)
        self._told = told or (lambda finding: None)
        self._result: Optional[Any] = None
        self._ended: Optional[Ran] = None
        self._without: Optional[type] = None
        self._not_before = 0
        self.checked = Checked()

    def next_run(self) -> Flow[Optional[Run]]:
        """Returns when it is to begin. None: there is none."""
        while True:
            plan = yield from self._ask()
            if self._ended is not None:
                ended, self._ended = self._ended, None
                fleet = plan.verdict if isinstance(plan, Plan) else None
                told = Ran(ended.healthy, ended.timed_out, ended.took, ended.is_local, fleet)
                self._told(told)
            if self._runs is not None and self.checked.runs >= self._runs:
                return None
            self._note(plan)
            at, run = self._time_of(plan)
            if self._waits:
                wait = max(at, self._not_before) - _clock.now_ns()
                if wait > 0:
                    yield Sleep(to_seconds(wait))
                self._not_before = _clock.now_ns() + APART_NS
            if run is not None:
                return run

    def ran(self, run: Run, healthy: bool, timed_out: bool, took_ns: int) -> None:
        self.checked.runs += 1
        self.checked.last = healthy
        self._ended = Ran(healthy, timed_out, to_seconds(took_ns), run.permit is None, None)
        if run.permit is not None:
            verdict = Verdict.HEALTHY if healthy else Verdict.UNHEALTHY
            self._result = pb.CheckResult(permit=run.permit, verdict=verdict.name_on_the_wire)

    def _ask(self) -> Flow[Union[Plan, NoAnswer, None]]:
        """None: there is no service to miss."""
        core = self._core
        if core.link is None:
            return None
        request = pb.PlanCheckRequest(dependency=self._dependency)
        result, self._result = self._result, None
        if result is not None:
            request.last_result.CopyFrom(result)
        seconds = max(min(to_seconds(self._period) / 10, PLAN_SECONDS_MAX), core.timeout)
        answer = yield PlanCheck(request, seconds)
        if isinstance(answer, NoAnswer):
            if answer.lack is Lack.AWAY:  # It was not sent.
                self._result = result
            return answer
        try:
            return read_plan(answer)
        except _wire.Unreadable as why:
            return NoAnswer(Lack.UNREADABLE, 0, str(why))

    def _note(self, plan: Union[Plan, NoAnswer, None]) -> None:
        if isinstance(plan, Plan):
            self._without = None
            self._period = plan.period_ns or self._period
            self._anchor = _clock.now_ns() + plan.delay_ns
            if plan.run is not None:
                self._timeout = plan.run.timeout_ns
            if plan.shared is not None:
                self._told(plan.shared)
        elif plan is not None:
            finding: Union[Away, NotPlanned] = Away(str(plan)[:200])
            if plan.lack is Lack.FAILED and plan.code in _REFUSALS:
                finding = NotPlanned(plan.text[:200])
                self._period, self._timeout = self._own
            if self._without is not type(finding):
                self._without = type(finding)
                log.warning("checks of %s go on by themselves: %s", self._dependency, finding.why)
                self._told(finding)

    def _time_of(self, plan: Union[Plan, NoAnswer, None]) -> tuple[int, Optional[Run]]:
        now = _clock.now_ns()
        if isinstance(plan, Plan):
            return now + plan.delay_ns, plan.run
        at = schedule.next_after(self._anchor, self._period, now)
        if plan is not None and at - now > LOOK_AGAIN_NS:
            return now + LOOK_AGAIN_NS, None
        return at, Run(self._timeout, None)

    def _name(self) -> int:
        link = self._core.link
        if link is None:  # It has no name that another one has not.
            return _entropy.number()
        return schedule.checker_name(self._dependency, link.caller.service, link.caller.instance)


def read_plan(response: Any) -> Plan:
    """Strictly: a delay that is absent is not "now". Raises `Unreadable`."""
    what = response.WhichOneof("plan")
    verdict, period = _verdict(response.verdict), _span(response, "period", DAY_NS)
    if period == 0:
        raise _wire.Unreadable("a duration of the plan is out of range")
    if what == "run":
        run = response.run
        if len(run.permit) > _wire.PERMIT_BYTES_MAX:
            raise _wire.Unreadable("the permit is longer than any permit")
        delay, timeout = _span(run, "delay", DELAY_MAX_NS), _span(run, "timeout", TIMEOUT_MAX_NS)
        if delay is None or not timeout:
            raise _wire.Unreadable("the plan does not say when")
        return Plan(delay, Run(timeout, run.permit), None, verdict, period)
    if what == "shared":
        told = response.shared
        again, age = _span(told, "ask_again", DELAY_MAX_NS), _wire.duration(told, "age")
        if again is None:
            raise _wire.Unreadable("the plan does not say when")
        seconds = None if age is None else to_seconds(age)
        shared = Shared(_verdict(told.verdict), seconds, to_seconds(again))
        return Plan(again, None, shared, verdict, period)
    raise _wire.Unreadable("the answer has no plan")


def _verdict(value: int) -> Verdict:
    try:
        return Verdict(value)
    except ValueError:
        raise _wire.Unreadable("the verdict is unknown to this client") from None


def _span(message: Any, field: str, longest: int) -> Optional[int]:
    span = _wire.duration(message, field)
    if span is not None and span > longest:
        raise _wire.Unreadable("a duration of the plan is out of range")
    return span
