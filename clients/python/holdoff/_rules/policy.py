"""What a client keeps to while the service is away.

The service pushes a policy for each dependency; what it leaves out, or what cannot be, leaves
the client's own. Nothing is mended by protobuf's defaults.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Optional

from .arithmetic import NS
from .duration import read_duration

DAY_NS = 24 * 3600 * NS
ATTEMPTS_MAX = 1_000
RETRIES_PER_SECOND_MAX = 1e6

STRATEGIES = {1: "fixed", 2: "linear", 3: "exponential"}
JITTERS = {1: "none", 2: "full", 3: "equal", 4: "proportional", 5: "decorrelated"}


@dataclass(frozen=True)
class Policy:
    """The policy of one process on its own. Made by `local_policy`, in seconds."""

    max_attempts: Optional[int] = 3
    strategy: str = "exponential"
    initial_delay_ns: int = 100_000_000
    multiplier: float = 2.0
    max_delay_ns: int = 10 * NS
    min_delay_ns: int = 0
    jitter: str = "full"
    jitter_proportion: Optional[float] = None
    min_attempt_time_ns: int = 0
    pushback_max_ns: int = 60 * NS
    pushback_spread_ns: int = NS
    budget_ratio_ppm: int = 100_000
    budget_ttl_ns: int = 10 * NS
    floor_micros_per_second: int = 1_000_000
    open_for_ns: int = 10 * NS
    open_multiplier: float = 2.0
    open_max_ns: int = 60 * NS
    slow_after_ns: int = 0
    breaker_off: bool = False
    """The service's breaker is off, or only watched: none is kept here either."""


def read_policy(said: Any, allowance: Any, own: Policy) -> Policy:
    """A pushed `ClientPolicy` and `OfflineAllowance` over the client's own policy."""
    policy = own
    if said is not None:
        policy = replace(policy, **_retry(said, own), **_rest(said, own))
    if allowance is not None:
        rate = _within(allowance.retries_per_second, 0.0, RETRIES_PER_SECOND_MAX)
        if rate is not None:
            policy = replace(policy, floor_micros_per_second=math.floor(rate * 1e6))
    return policy


def _retry(said: Any, own: Policy) -> dict[str, Any]:
    max_delay = _span(said, "max_delay", own.max_delay_ns)
    jitter, proportion = _jitter(said, own)
    attempts: Optional[int] = said.max_attempts
    if attempts == 0:
        attempts = None
    elif attempts is not None and attempts > ATTEMPTS_MAX:
        attempts = own.max_attempts
    return {
        "max_attempts": attempts,
        "strategy": STRATEGIES.get(said.strategy, own.strategy),
        "initial_delay_ns": min(_span(said, "initial_delay", own.initial_delay_ns), max_delay),
        "multiplier": _or(_within(said.multiplier, 1.0, 100.0), own.multiplier),
        "max_delay_ns": max_delay,
        "min_delay_ns": min(_span(said, "min_delay", own.min_delay_ns), max_delay),
        "jitter": jitter,
        "jitter_proportion": proportion,
        "min_attempt_time_ns": _span(said, "min_attempt_time", own.min_attempt_time_ns),
    }


def _jitter(said: Any, own: Policy) -> tuple[str, Optional[float]]:
    jitter = JITTERS.get(said.jitter)
    if jitter == "proportional":
        proportion = _within(said.jitter_proportion, 0.0, 1.0)
        if proportion is not None:
            return jitter, proportion
    elif jitter is not None:
        return jitter, None
    return own.jitter, own.jitter_proportion


def _rest(said: Any, own: Policy) -> dict[str, Any]:
    open_for = _some_time(said, "open_for", own.open_for_ns)
    ratio = _within(said.budget_ratio, 0.0, 10.0)
    return {
        "pushback_max_ns": _span(said, "pushback_max", own.pushback_max_ns),
        "pushback_spread_ns": _span(said, "pushback_spread", own.pushback_spread_ns),
        "budget_ratio_ppm": (
            own.budget_ratio_ppm if ratio is None else math.floor(ratio * 1e6 + 0.5)
        ),
        "budget_ttl_ns": _some_time(said, "budget_ttl", own.budget_ttl_ns),
        "open_for_ns": open_for,
        "open_multiplier": _or(_within(said.open_multiplier, 1.0, 1_000.0), own.open_multiplier),
        "open_max_ns": max(_some_time(said, "open_max", own.open_max_ns), open_for),
        "slow_after_ns": _span(said, "slow_after", own.slow_after_ns),
        "breaker_off": said.breaker_off or own.breaker_off,
    }


def _span(said: Any, field: str, own: int) -> int:
    duration = getattr(said, field) if said.HasField(field) else None
    is_readable, span = read_duration(duration)
    return span if is_readable and span is not None and span <= DAY_NS else own


def _some_time(said: Any, field: str, own: int) -> int:
    return _span(said, field, 0) or own


def _within(value: float, low: float, high: float) -> Optional[float]:
    """What is no number is in no range."""
    return value if low <= value <= high else None


def _or(value: Optional[float], own: float) -> float:
    return own if value is None else value
