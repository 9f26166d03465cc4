"""Outcomes on their way to the service: a bounded queue, sent in batches.

Reporting never makes a caller wait. A full queue loses the newest outcome and counts it; the
service then takes the permit for silent, which is what it is. A batch goes out 10 ms after its
first outcome under a permit, since a recovering dependency's ramp is steered by these; at once
when an entry is a failure; and always before a question that carries a failure, so that failures
never arrive ahead of the successes around them. Attempts made on pushed state are counted, and
their tallies go first in a batch; alone they wait 100 ms to 1 s.

A batch whose answer was lost with its stream is sent once more under its sequence number, by
which the service tells a repetition. Numbers begin at the wall clock, so that those of a
restarted process with the same name are higher than those before.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Any, Callable, Optional

from . import _clock, _entropy, _wire
from ._counters import Counters
from ._tally import Tallies
from .outcome import URGENT, Outcome, OutcomeKind

QUEUE_MAX = 10_000
BATCH_MAX = 1_000
TALLIES_MAX = 500
MESSAGE_BYTES_MAX = 192 * 1024  # The service takes 256 KiB.
LINGER_NS = 10_000_000
TALLY_LINGER_NS = 100_000_000
TALLY_LINGER_SPREAD_NS = 900_000_000
UNANSWERED_MAX = 64


@dataclass
class Batch:
    """What goes in one message."""

    sequence: int
    entries: list[Any]
    is_repetition: bool = False


class Reports:
    """`wake` is told when a batch is due sooner than before; no lock is held then."""

    def __init__(self, counters: Counters, wake: Callable[[], None]) -> None:
        self._counters = counters
        self._wake = wake
        self._lock = threading.Lock()
        self._queue: deque[tuple[bytes, Outcome]] = deque()
        self._dropped: deque[bytes] = deque()
        self._tallies = Tallies()
        self._due: Optional[int] = None
        self._next_sequence = _clock.wall_micros()
        self._unanswered: dict[int, Batch] = {}
        self._resend: deque[Batch] = deque()
        self._telling = 0

    def push(self, permit: bytes, outcome: Outcome) -> None:
        now = _clock.now_ns()
        with self._lock:
            if len(self._queue) >= QUEUE_MAX:
                self._counters.reports_dropped += 1
                return
            self._queue.append((permit, outcome))
            is_urgent = outcome.kind in URGENT or len(self._queue) >= BATCH_MAX
            is_sooner = self._is_due_by(now if is_urgent else now + LINGER_NS)
        if is_sooner:
            self._wake()

    def drop(self, permit: bytes) -> None:
        """A permit was collected unreported. Takes no lock: a collector may run anywhere."""
        self._dropped.append(permit)

    def tally(
        self,
        dependency: str,
        epoch: int,
        kind: OutcomeKind,
        latency_ns: Optional[int],
        slow_after_ns: int,
    ) -> None:
        """An attempt on pushed state ended so."""
        self.count(dependency, epoch, kind, latency_ns, slow_after_ns, kind in URGENT)

    def tally_late(
        self,
        dependency: str,
        epoch: int,
        kind: OutcomeKind,
        latency_ns: Optional[int],
        slow_after_ns: int,
    ) -> None:
        """The same of a state that another has taken the place of: whole fleets learn that at
        one instant, and none of them is in a hurry.
        """
        self.count(dependency, epoch, kind, latency_ns, slow_after_ns, False)

    def count(
        self,
        dependency: str,
        epoch: int,
        kind: OutcomeKind,
        latency_ns: Optional[int],
        slow_after_ns: int,
        is_urgent: bool,
    ) -> None:
        """What both do; for who knows the kind, and cannot afford a further hop."""
        with self._lock:
            if not self._tallies.note(dependency, epoch, kind, latency_ns, slow_after_ns):
                self._counters.reports_dropped += 1
                return
            if self._due is not None and not is_urgent:
                return
            now = _clock.now_ns()
            linger = TALLY_LINGER_NS + int(TALLY_LINGER_SPREAD_NS * _entropy.unit())
            is_sooner = self._is_due_by(now if is_urgent else now + linger)
        if is_sooner:
            self._wake()

    def begin_telling(self) -> None:
        """An outcome is told by a question, until `end_telling`."""
        with self._lock:
            self._telling += 1

    def end_telling(self) -> None:
        with self._lock:
            self._telling -= 1
        self._wake()

    def due_at(self) -> Optional[int]:
        """When a batch should go. None: there is none."""
        with self._lock:
            if len(self._unanswered) >= UNANSWERED_MAX:
                return None
            self._gather_dropped()
            return 0 if self._resend else self._due

    def take(self) -> Optional[Batch]:
        """The next batch, due or not. It counts as unanswered until `answered`."""
        with self._lock:
            if len(self._unanswered) >= UNANSWERED_MAX:
                return None
            batch = self._resend.popleft() if self._resend else self._gather()
            if batch is not None:
                self._unanswered[batch.sequence] = batch
            return batch

    def answered(self, sequence: int, was_taken: bool) -> None:
        """The service answered the batch: taken, or refused for good."""
        with self._lock:
            batch = self._unanswered.pop(sequence, None)
            if batch is None:
                return
            if was_taken:
                self._counters.reported += len(batch.entries)
            else:
                self._counters.reports_dropped += len(batch.entries)
        self._wake()

    def stream_begins(self) -> None:
        """Its connection stands, and nothing was sent on it yet. What was counted before deposits
        nothing, in a batch that is repeated either.
        """
        with self._lock:
            self._tallies.forget_starts()
            for batch in self._resend:
                for entry in batch.entries:
                    if entry.HasField("tally"):
                        entry.tally.first_attempts = 0

    def broken(self) -> None:
        """The stream broke: what was not answered goes once more, on the next one."""
        with self._lock:
            lost, self._unanswered = self._unanswered, {}
            for sequence in sorted(lost):
                batch = lost[sequence]
                if batch.is_repetition:
                    self._counters.reports_dropped += len(batch.entries)
                else:
                    batch.is_repetition = True
                    self._resend.append(batch)
        self._wake()

    def is_empty(self) -> bool:
        with self._lock:
            self._gather_dropped()
            is_sent = not self._unanswered and not self._resend and not self._telling
            return is_sent and self._has_nothing_new()

    def hurry(self) -> None:
        """What is queued goes now."""
        with self._lock:
            self._gather_dropped()
            if self._due is not None:
                self._due = 0
        self._wake()

    def _has_nothing_new(self) -> bool:
        return not self._queue and not self._tallies

    def _is_due_by(self, due: int) -> bool:
        if self._due is not None and self._due <= due:
            return False
        self._due = due
        return True

    def _gather_dropped(self) -> None:
        while self._dropped:
            self._queue.append((self._dropped.popleft(), Outcome.cancelled()))
            self._is_due_by(_clock.now_ns() + LINGER_NS)

    def _gather(self) -> Optional[Batch]:
        self._gather_dropped()
        entries = self._tallies.take(TALLIES_MAX)
        size = sum(entry.ByteSize() + 8 for entry in entries)
        while self._queue and len(entries) < BATCH_MAX:
            entry = _wire.permit_result(*self._queue[0])
            size += entry.ByteSize() + 8
            if size > MESSAGE_BYTES_MAX and entries:
                break
            self._queue.popleft()
            entries.append(entry)
        self._due = None if self._has_nothing_new() else 0
        if not entries:
            return None
        batch = Batch(self._next_sequence, entries)
        self._next_sequence += 1
        return batch
