"""When outcomes go, and what a stream that begins makes of those before it. On virtual time."""

from __future__ import annotations

from typing import Optional

import pytest

from holdoff import Outcome, OutcomeKind, _clock
from holdoff._counters import Counters
from holdoff._reports import QUEUE_MAX, Batch, Reports

MILLISECOND = 1_000_000


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> Reports:
    monkeypatch.setattr(_clock, "now_ns", lambda: 0)
    return Reports(Counters(), lambda: None)


def count(reports: Reports, kind: OutcomeKind = OutcomeKind.SUCCESS) -> None:
    reports.tally("payments", 1, kind, None, 0)


def counts(batch: Optional[Batch]) -> tuple[int, int]:
    assert batch is not None
    (entry,) = batch.entries
    return entry.tally.first_attempts, entry.tally.successes


def test_an_outcome_under_a_permit_waits_ten_milliseconds_and_a_failure_none(
    reports: Reports,
) -> None:
    reports.push(b"a", Outcome.success())
    assert reports.due_at() == 10 * MILLISECOND
    reports.push(b"b", Outcome.failure())
    assert reports.due_at() == 0


def test_a_tally_waits_a_tenth_of_a_second_to_a_second_and_an_outcome_takes_it_along(
    reports: Reports,
) -> None:
    count(reports)
    due = reports.due_at()
    assert due is not None and 100 * MILLISECOND <= due <= 1_000 * MILLISECOND
    reports.push(b"a", Outcome.success())
    assert reports.due_at() == 10 * MILLISECOND


def test_a_failure_that_a_later_state_has_overtaken_waits_like_a_success(reports: Reports) -> None:
    reports.tally_late("payments", 1, OutcomeKind.FAILURE, None, 0)
    due = reports.due_at()
    assert due is not None and due >= 100 * MILLISECOND
    count(reports, OutcomeKind.FAILURE)
    assert reports.due_at() == 0


def test_starts_of_before_a_stream_deposit_nothing_repeated_or_not(reports: Reports) -> None:
    count(reports)
    assert counts(reports.take()) == (1, 1)
    reports.broken()
    count(reports)
    reports.stream_begins()
    assert counts(reports.take()) == (0, 1), "the repetition"
    count(reports)
    assert counts(reports.take()) == (1, 2), "a counter goes on counting"


def test_cl5_the_queue_holds_ten_thousand_and_counts_what_it_drops() -> None:
    counters = Counters()
    reports = Reports(counters, lambda: None)
    for _ in range(QUEUE_MAX + 5):
        reports.push(b"permit", Outcome.success())
    assert counters.reports_dropped == 5
    sizes = []
    while (batch := reports.take()) is not None:
        sizes.append(len(batch.entries))
    assert sizes == [1_000] * 10


def test_a_broken_stream_repeats_a_batch_once_under_its_number() -> None:
    counters = Counters()
    reports = Reports(counters, lambda: None)
    reports.push(b"permit", Outcome.success())
    first = reports.take()
    assert first is not None
    reports.broken()
    reports.push(b"another", Outcome.success())
    again, second = reports.take(), reports.take()
    assert again is not None and second is not None
    assert (again.sequence, second.sequence) == (first.sequence, first.sequence + 1)
    reports.answered(second.sequence, True)
    reports.broken()
    assert reports.take() is None and reports.is_empty()
    assert (counters.reported, counters.reports_dropped) == (1, 1)


def test_a_message_stays_below_what_the_service_takes() -> None:
    reports = Reports(Counters(), lambda: None)
    for _ in range(100):
        reports.push(b"x" * 10_000, Outcome.success())
    batch = reports.take()
    assert batch is not None and len(batch.entries) < 20
