"""What needs nobody's answer: it follows from what the caller said about the call and from how
the attempt before ended. The order is the service's.
"""

from __future__ import annotations

from typing import Optional

from ..denial import Reason
from ..outcome import URGENT, Outcome, OutcomeKind


def settled(
    attempt: int,
    max_attempts: Optional[int],
    is_unsafe: bool,
    previous: Optional[Outcome],
    time_left_ns: Optional[int],
) -> Optional[Reason]:
    """Why nobody is asked. None: somebody is."""
    if time_left_ns is not None and time_left_ns <= 0:
        return Reason.DEADLINE
    return None if previous is None else refusal(attempt, max_attempts, is_unsafe, previous)


def refusal(
    attempt: int,
    max_attempts: Optional[int],
    is_unsafe: bool,
    outcome: Outcome,
) -> Optional[Reason]:
    """Why there must be no attempt after one that ended so. None: ask."""
    if outcome.do_not_retry:
        return Reason.PUSHBACK
    if outcome.kind not in URGENT:
        return Reason.NOT_RETRYABLE
    if outcome.retried_below:
        return Reason.RETRIED_BELOW
    if max_attempts is not None and attempt > max_attempts:
        return Reason.ATTEMPTS_EXHAUSTED
    if is_unsafe and outcome.kind is not OutcomeKind.NOT_SENT:
        return Reason.RETRY_UNSAFE
    return None
