"""The ends that a client sets to whatever it is told, and how long it asks no more."""

from __future__ import annotations

from typing import Optional

from ..denial import Reason
from .arithmetic import NS, part

DELAY_MAX_NS = 600 * NS
ASK_AGAIN_MIN_NS = 10_000_000
LEASE_MARGIN_MIN_NS = 250_000_000
CLIENTS_AT_ONCE = 5_000
HELD_BACK_EACH_NS = 10_000
HELD_BACK_MAX_NS = NS


def wait(delay_ns: int, time_left_ns: Optional[int]) -> Optional[int]:
    """How long to wait for an attempt. None: it would begin after the deadline."""
    if time_left_ns is not None and delay_ns >= time_left_ns:
        return None
    return min(delay_ns, DELAY_MAX_NS)


def use_of_lease(lease_ns: int) -> int:
    """How long a probe may take. A lease shorter than its margin must still be usable."""
    return lease_ns - min(max(LEASE_MARGIN_MIN_NS, lease_ns // 10), lease_ns // 2)


def is_worth_asking_again(reason: Reason) -> bool:
    """The same outcome gets the same answer however late it is told."""
    return reason is not Reason.PUSHBACK_TOO_LONG


def ask_again(
    is_worth_it: bool, retry_after_ns: Optional[int], time_left_ns: Optional[int]
) -> Optional[int]:
    """How long to wait before a denied question is asked again. None: the denial stands."""
    if retry_after_ns is None or not is_worth_it:
        return None
    if time_left_ns is not None and retry_after_ns >= time_left_ns:
        return None
    return min(max(retry_after_ns, ASK_AGAIN_MIN_NS), DELAY_MAX_NS)


def held_back(known_clients: int, time_left_ns: Optional[int], sample: float) -> int:
    """How long the first question after a failure on pushed state is held back: uniform up to
    10 us for each client above 5,000, a second and the time left at most.

    | clients | longest |
    |---|---|
    | 5,000 | 0 |
    | 10,000 | 50 ms |
    | 100,000 | 950 ms |
    | 105,000 and more | 1 s |
    """
    most = min(max(known_clients - CLIENTS_AT_ONCE, 0) * HELD_BACK_EACH_NS, HELD_BACK_MAX_NS)
    return part(most if time_left_ns is None else min(most, time_left_ns), sample)


def shut(failed_trials: int, sample: float) -> int:
    """How long a service that does not answer is not asked: 1 to 5 s, doubling to 30 s."""
    factor = 1 << min(failed_trials, 5)
    low, high = min(factor, 6) * NS, min(5 * factor, 30) * NS
    return low + part(high - low, sample)
