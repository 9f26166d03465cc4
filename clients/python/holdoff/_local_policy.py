"""The policy of local decisions, in the words and units of callers."""

from __future__ import annotations

import math
from typing import Literal, Optional

from ._rules.arithmetic import from_seconds
from ._rules.policy import DAY_NS, Policy

_DAY = 24 * 3600.0
_UNLIMITED = 0


def local_policy(
    *,
    max_attempts: int = 3,
    strategy: Literal["fixed", "linear", "exponential"] = "exponential",
    initial_delay: float = 0.1,
    multiplier: float = 2.0,
    max_delay: float = 10.0,
    min_delay: float = 0.0,
    jitter: Literal["none", "full", "equal", "proportional", "decorrelated"] = "full",
    jitter_proportion: Optional[float] = None,
    min_attempt_time: float = 0.0,
    pushback_max: float = 60.0,
    pushback_spread: float = 1.0,
    budget_ratio: float = 0.1,
    budget_ttl: float = 10.0,
    retries_per_second: float = 1.0,
    open_for: float = 10.0,
    open_multiplier: float = 2.0,
    open_max: float = 60.0,
    slow_after: float = 0.0,
) -> Policy:
    """What a client keeps to before the service has pushed a policy. Times are seconds;
    `max_attempts` 0 is unlimited, `retries_per_second` is the floor of the budget.
    """
    _one_of("strategy", strategy, ("fixed", "linear", "exponential"))
    _one_of("jitter", jitter, ("none", "full", "equal", "proportional", "decorrelated"))
    if (jitter == "proportional") != (jitter_proportion is not None):
        raise ValueError("jitter_proportion: it is needed for jitter 'proportional' alone")
    longest = _span("max_delay", max_delay)
    opens = _span("open_for", open_for, above_zero=True)
    return Policy(
        max_attempts=int(_within("max_attempts", max_attempts, _UNLIMITED, 1_000)) or None,
        strategy=strategy,
        initial_delay_ns=_span("initial_delay", initial_delay, longest),
        multiplier=_within("multiplier", multiplier, 1.0, 100.0),
        max_delay_ns=longest,
        min_delay_ns=_span("min_delay", min_delay, longest),
        jitter=jitter,
        jitter_proportion=(
            None
            if jitter_proportion is None
            else _within("jitter_proportion", jitter_proportion, 0.0, 1.0)
        ),
        min_attempt_time_ns=_span("min_attempt_time", min_attempt_time),
        pushback_max_ns=_span("pushback_max", pushback_max),
        pushback_spread_ns=_span("pushback_spread", pushback_spread),
        budget_ratio_ppm=round(_within("budget_ratio", budget_ratio, 0.0, 10.0) * 1e6),
        budget_ttl_ns=_span("budget_ttl", budget_ttl, above_zero=True),
        floor_micros_per_second=math.floor(
            _within("retries_per_second", retries_per_second, 0.0, 1e6) * 1e6
        ),
        open_for_ns=opens,
        open_multiplier=_within("open_multiplier", open_multiplier, 1.0, 1_000.0),
        open_max_ns=max(_span("open_max", open_max, above_zero=True), opens),
        slow_after_ns=_span("slow_after", slow_after),
    )


def _span(name: str, value: float, longest: int = DAY_NS, above_zero: bool = False) -> int:
    span = from_seconds(_within(name, value, 0.0, longest / 1e9))
    if above_zero and span == 0:
        raise ValueError(f"{name} {value!r}: it must be above 0 and at most {_DAY:.0f} s")
    return span


def _within(name: str, value: float, low: float, high: float) -> float:
    if not low <= value <= high:
        raise ValueError(f"{name} {value!r}: it must be {low} to {high}")
    return value


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} {value!r}: it must be one of {', '.join(allowed)}")
