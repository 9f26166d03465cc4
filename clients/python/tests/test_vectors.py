"""Every vector file that is every client's, all of it equal."""

from __future__ import annotations

import math
from typing import Any, Callable, Optional

import httpx
import pytest
from vectors import Reading, as_text, assert_all_read, load, number, optional_ns

import holdoff
from holdoff import _tally, _wire, classify
from holdoff._channel import read_address
from holdoff._proto import coordinator_pb2 as pb
from holdoff._pushed import ASK, GO, Heard
from holdoff._question import Question
from holdoff._rules import backoff, clamp, own_words, pushback
from holdoff._rules.arithmetic import from_seconds
from holdoff._rules.budget import Budget
from holdoff._rules.detector import Detector
from holdoff._rules.policy import Policy, read_policy
from holdoff._rules.record import Granted, LocalPermit, Record, Refused, Retry, Unknown
from holdoff._wire import is_name
from holdoff.denial import Reason
from holdoff.httpx import _question as httpx_question
from holdoff.outcome import Outcome, OutcomeKind

Check = Callable[[Reading], None]
CHECKS: dict[str, tuple[int, Check]] = {}


def checks(name: str, at_least: int) -> Callable[[Check], Check]:
    def keep(check: Check) -> Check:
        CHECKS[name] = (at_least, check)
        return check

    return keep


NAMES = (
    "backoff pushback_http pushback_grpc budget detector classify_http classify_grpc own_words"
    " answer client_policy pushed tally clamp local settings"
).split()


@pytest.mark.parametrize("name", NAMES)
def test_all_vectors_of_clients_are_equal(name: str) -> None:
    at_least, check = CHECKS[name]
    vectors = load(name)
    assert len(vectors) >= at_least
    for vector in vectors:
        try:
            check(vector)
        except Exception as error:
            raise AssertionError(f"{name}: {vector['name']}: {error!r}") from error
        assert_all_read(vector, f"{name}: {vector['name']}")


@checks("backoff", 100)
def _backoff(vector: Reading) -> None:
    said = vector["policy"]
    policy = Policy(
        strategy=said["strategy"],
        initial_delay_ns=int(said["initial_delay_ns"]),
        multiplier=said.get("multiplier", 2.0),
        max_delay_ns=int(said["max_delay_ns"]),
        min_delay_ns=int(said["min_delay_ns"]),
        jitter=said["jitter"],
        jitter_proportion=said.get("proportion"),
    )
    before = int(vector["previous_delay_ns"])
    drawn = backoff.delay(policy, vector["retry"], before, vector["sample"])
    assert vector["expected"].whole() == {
        "ceiling_ns": str(backoff.ceiling(policy, vector["retry"])),
        "delay_ns": str(drawn),
    }


@checks("pushback_http", 40)
def _pushback_http(vector: Reading) -> None:
    wait = pushback.read_retry_after(vector["value"], vector["date"], vector["wall_unix_seconds"])
    assert as_text(wait) == vector["expected_ns"]


@checks("pushback_grpc", 20)
def _pushback_grpc(vector: Reading) -> None:
    wait = pushback.read_grpc_pushback(vector["value"])
    read = {"do_not_retry": True} if wait is None else {"after_ns": str(wait)}
    assert read == vector["expected"].whole()


@checks("budget", 15)
def _budget(vector: Reading) -> None:
    said = vector["policy"]
    policy = Policy(
        budget_ratio_ppm=round(said["ratio"] * 1e6),
        floor_micros_per_second=round(said["floor_per_second"] * 1e6),
        budget_ttl_ns=int(said["ttl_ns"]),
    )
    budget, clock = Budget(), 0
    for step in vector["steps"]:
        now, count = int(step["now_ns"]), step["count"]
        clock = max(clock, now)
        if step["do"] == "deposit":
            budget.deposit(policy, count, now)
            continue
        granted = 0
        for _ in range(count):
            _, retries, allowed = budget.level(policy, now)
            if retries < allowed:
                budget.withdraw(policy, now)
                granted += 1
        first_attempts, retries, allowed = budget.level(policy, now)
        assert step["expected"].whole() == {
            "granted": granted,
            "first_attempts": first_attempts,
            "retries": retries,
            "allowed": allowed,
        }


@checks("detector", 10)
def _detector(vector: Reading) -> None:
    detector = Detector()
    for step in vector["steps"]:
        trips = detector.record(step["successes"], step["failures"], int(step["now_ns"]))
        expected = step["expected"]
        assert trips == expected["trips"]
        if expected["sum"] <= 1000:
            assert math.isclose(detector.sum, expected["sum"], abs_tol=0.01)


def _as_json(outcome: Outcome) -> dict[str, Any]:
    wait = None if outcome.pushback is None else from_seconds(outcome.pushback)
    return {
        "kind": outcome.kind.name.lower(),
        "status_code": outcome.status_code,
        "pushback_ns": as_text(wait),
    }


@checks("classify_http", 140)
def _classify_http(vector: Reading) -> None:
    headers = [tuple(pair) for pair in vector["headers"]]
    outcome = classify.http_status(vector["status"], headers, now=vector["wall_unix_seconds"])
    assert not (outcome.do_not_retry or outcome.pushback_restarts_backoff)
    assert _as_json(outcome) == vector["expected"].whole()


@checks("classify_grpc", 70)
def _classify_grpc(vector: Reading) -> None:
    trailers = [("grpc-retry-pushback-ms", value) for value in vector["pushback"]]
    outcome = classify.grpc_status(vector["code"], trailers)
    assert vector["expected"].whole() == {
        **_as_json(outcome),
        "restarts_backoff": outcome.pushback_restarts_backoff,
        "do_not_retry": outcome.do_not_retry,
    }


def _outcome(said: Reading) -> Outcome:
    wait = optional_ns(said.get("pushback_ns"))
    return Outcome(
        OutcomeKind[said["kind"].upper()],
        pushback=None if wait is None else wait / 1e9,
        do_not_retry=said.get("do_not_retry", False),
        retried_below=said.get("retried_below", False),
        pushback_restarts_backoff=said.get("restarts_backoff", False),
    )


@checks("own_words", 60)
def _own_words(vector: Reading) -> None:
    is_unsafe = {"unsafe": True, "idempotent": False, "keyed": False}[vector["safety"]]
    refused = own_words.settled(
        vector["attempt"],
        vector["max_attempts"],
        is_unsafe,
        None if vector["previous"] is None else _outcome(vector["previous"]),
        optional_ns(vector["time_left_ns"]),
    )
    assert (refused.name if refused else None) == vector["expected"]["refused"]


def _fill(message: Any, fields: Reading) -> Any:
    """Sets the fields of a real message, durations and numbers that JSON has no sign for too."""
    for name in fields:
        value = number(fields[name])
        if name == "permit_bytes":
            message.permit = b"x" * value
        elif isinstance(value, Reading):
            getattr(message, name).SetInParent()
            _fill(getattr(message, name), value)
        elif hasattr(value, "nanos"):
            target = getattr(message, name)
            target.SetInParent()
            target.seconds, target.nanos = value.seconds, value.nanos
            fields[name].whole()
        elif value is not None:
            setattr(message, name, value)
    return message


@checks("answer", 90)
def _answer(vector: Reading) -> None:
    response = _fill(pb.AcquireResponse(), vector["response"])
    expected, attempt = vector["expected"].whole(), vector["attempt"]
    try:
        answer = _wire.read_answer(response)
    except _wire.Unreadable as why:
        stops = why.no_delay and attempt > 1
        assert expected == ({"stops": "UNREADABLE"} if stops else {"no_decision": True})
        return
    if isinstance(answer, _wire.FleetDenial):
        told = {"reason": answer.reason.name, "retry_after_ns": as_text(answer.retry_after_ns)}
        assert expected == {"denied": told}
        return
    granted = {
        "delay_ns": str(answer.delay_ns),
        "permit_ttl_ns": as_text(answer.lives_ns),
        "probe": answer.is_probe,
        "confirm": answer.confirm,
        "attempt_timeout_ns": as_text(answer.attempt_timeout_ns),
        "permit_bytes": len(answer.permit),
    }
    said = expected["granted"]
    assert len(said) >= 4
    assert {name: granted[name] for name in said} == said


@checks("client_policy", 160)
def _client_policy(vector: Reading) -> None:
    said, allowance = vector["said"], vector["allowance"]
    policy = read_policy(
        None if said is None else _fill(pb.ClientPolicy(), said),
        None if allowance is None else _fill(pb.OfflineAllowance(), allowance),
        Policy(),
    )
    for name, value in vector["expected"].whole().items():
        kept = getattr(policy, name)
        as_said = int(value) if name.endswith("_ns") or name.startswith("floor") else value
        assert kept == as_said, f"{name}: {kept}"


@checks("settings", 103)
def _settings(vector: Reading) -> None:
    expected = vector["expected"].whole()
    if "endpoint" in vector:
        address = read_address(vector["endpoint"])
        names = ("host", "port", "encrypted")
        assert (address and dict(zip(names, address))) == expected["address"]
        if address is None:
            with pytest.raises(ValueError, match=r"^endpoint `"):
                holdoff.Client([vector["endpoint"]])
    elif "text" in vector:
        assert is_name(vector["text"]) is expected["taken"]
    else:
        said = vector["request"]
        request = httpx.Request(said["method"], said["url"], headers=said["headers"])
        name, settings = httpx_question(request, None, {})
        question = Question(name, settings)
        safety = {1: "unsafe", 2: "idempotent", 3: "keyed"}[question.safety]
        assert {"dependency": name, "safety": safety} == expected


@checks("pushed", 174)
def _pushed(vector: Reading) -> None:
    update = _fill(pb.Update(), vector["update"])
    heard, after = Heard(update, None, Policy(), 0), int(vector["after_ns"])
    waiting, expected = vector.get("waiting"), vector["expected"].whole()
    alone = vector.get("alone")
    if alone:
        attempt = {"first": 1, "extra": 2}[alone["sought"]]
        refused = heard.refuses_alone(attempt, alone.get("since") or 0, after)
        assert expected["refused"] == (
            refused
            and {
                "reason": refused.reason.name,
                "retry_after_ns": str(from_seconds(refused.retry_after or 0.0)),
            }
        )
        return
    if waiting:
        dropped = heard.drops(waiting["granted_in"], waiting["attempt"], after)
        assert expected == {
            "dropped": dropped.reason.name if dropped else None,
            "confirmed": heard.stands_by(waiting["granted_in"], after),
        }
        return
    word = heard.word(after)
    if word == GO:
        assert expected == {"word": "go", "epoch": heard.epoch}
    elif word == ASK:
        assert expected == {"word": "ask"}
    else:
        denied = heard.denied(after)
        assert denied.retry_after is not None
        assert expected == {
            "word": "refuse",
            "reason": denied.reason.name,
            "retry_after_ns": str(from_seconds(denied.retry_after)),
        }


@checks("tally", 22)
def _tallies(vector: Reading) -> None:
    tallies = _tally.Tallies()
    for ended in vector["ended"]:
        if ended.get("stream_begins"):
            tallies.forget_starts()
            continue
        assert tallies.note(
            ended["dependency"],
            ended["epoch"],
            OutcomeKind[ended["kind"].upper()],
            optional_ns(ended["latency_ns"]),
            int(ended["slow_after_ns"]),
        )
    shown = []
    for entry in tallies.take(500):
        tally, expected = entry.tally, vector["expected"][0].whole()
        row = {name: getattr(tally, name) for name in expected if not name.endswith("_ns")}
        latency = tally.latency_sum
        row["latency_sum_ns"] = str(latency.seconds * 10**9 + latency.nanos)
        shown.append(row)
    shown.sort(key=lambda row: (row["dependency"], row["epoch"]))
    assert shown == [row.whole() for row in vector["expected"]]


@checks("clamp", 90)
def _clamp(vector: Reading) -> None:
    expected = vector["expected"].whole()
    wait, lease = vector.get("wait"), vector.get("lease")
    again, shut = vector.get("ask_again"), vector.get("shut")
    held = vector.get("held_back")
    if wait:
        clamped = clamp.wait(int(wait["delay_ns"]), optional_ns(wait["time_left_ns"]))
        is_late = {"denied": "DEADLINE"}
        assert expected == (is_late if clamped is None else {"wait_ns": str(clamped)})
    elif lease:
        assert expected == {"use_ns": str(clamp.use_of_lease(int(lease["lease_ns"])))}
    elif again:
        waits = clamp.ask_again(
            clamp.is_worth_asking_again(Reason[again["reason"]]),
            optional_ns(again["retry_after_ns"]),
            optional_ns(again["time_left_ns"]),
        )
        assert expected == {"wait_ns": as_text(waits)}
    elif held:
        left = optional_ns(held["time_left_ns"])
        held_ns = clamp.held_back(held["known_clients"], left, held["sample"])
        assert expected == {"held_ns": str(held_ns)}
    else:
        assert expected == {"shut_ns": str(clamp.shut(shut["failed_trials"], shut["sample"]))}


def _local_policy(said: Reading) -> Policy:
    fields: dict[str, Any] = {}
    for name in said:
        value = said[name]
        is_text = isinstance(value, str) and name not in ("strategy", "jitter")
        fields[name] = int(value) if is_text else value
    return Policy(**fields)


@checks("local", 150)
def _local(vector: Reading) -> None:
    policy, record = _local_policy(vector["policy"]), Record()
    retries_only = {"all": False, "retries_only": True}[vector["mode"]]
    permits: dict[str, LocalPermit] = {}
    for index, step in enumerate(vector["steps"]):
        answer = _local_step(step, policy, record, retries_only, permits)
        if "expected" in step:
            assert answer is not None
            shown = _shown(answer)
            assert shown == step["expected"].whole(), f"step {index}: {shown}"
            name = step.get("as")
            if isinstance(answer, Granted) and name:
                permits[name] = answer.permit
        for value in step.values():
            if isinstance(value, Reading):
                value.whole()


def _local_step(
    step: Reading,
    policy: Policy,
    record: Record,
    retries_only: bool,
    permits: dict[str, LocalPermit],
) -> Optional[Any]:
    now, left = int(step["now_ns"]), optional_ns(step.get("time_left_ns"))
    jitter, spread = step.get("jitter", 0.0), step.get("spread", 0.0)
    do = step["do"]
    if do == "first":
        return record.first(policy, left, now, spread, retries_only)
    if do == "retry":
        outcome = _outcome(step["outcome"])
        if step.get("made") == "fleet":
            made: Any = Unknown(counts=step["attempt"] == 2)
        else:
            made = permits[step["permit"]]
        asked = Retry(
            step["attempt"],
            made,
            outcome,
            optional_ns(step["outcome"].get("pushback_ns")),
            not step.get("idempotent", True),
        )
        return record.retry(policy, asked, left, now, (jitter, spread), retries_only)
    if do == "confirm":
        return record.confirm(policy, permits[step["permit"]], left, now, spread, retries_only)
    if do == "report":
        record.report(policy, permits[step["permit"]], _outcome(step["outcome"]), now, retries_only)
    elif do == "told":
        record.told(Reason[step["reason"]], optional_ns(step["retry_after_ns"]), now)
    elif do == "let_go":
        record.let_go(now)
    else:
        raise AssertionError(do)
    return None


def _shown(answer: Any) -> dict[str, Any]:
    if isinstance(answer, Refused):
        wait = as_text(answer.retry_after_ns)
        return {"denied": {"reason": answer.reason.name, "retry_after_ns": wait}}
    return {
        "granted": {
            "delay_ns": str(answer.delay_ns),
            "probe": answer.is_probe,
            "confirm": answer.confirm,
        }
    }
