"""How long to wait before a retry.

    fixed        ceiling = initial
    linear       ceiling = initial * n
    exponential  ceiling = initial * multiplier^(n - 1)       at most max_delay, each of them

For an initial delay of 100 ms, a multiplier of 2 and full jitter the ceilings are 100, 200,
400, 800, 1600 … ms, and the delay is uniform below them. Full jitter, since callers that fail
together must not come back together (AWS Architecture Blog, "Exponential Backoff and Jitter").
"""

from __future__ import annotations

from .arithmetic import MAX_NS, part, power, truncated
from .policy import Policy


def ceiling(policy: Policy, retry: int) -> int:
    """Of retry n, which is attempt n + 1. Never above the policy's longest delay."""
    retry = max(retry, 1)
    initial = policy.initial_delay_ns
    if policy.strategy == "fixed":
        highest = initial
    elif policy.strategy == "linear":
        highest = min(initial * retry, MAX_NS)
    else:
        highest = truncated(float(initial) * power(policy.multiplier, retry - 1))
    return min(highest, policy.max_delay_ns)


def delay(policy: Policy, retry: int, previous_ns: int, sample: float) -> int:
    """The range is clamped, then drawn from; `sample` is uniform in [0, 1)."""
    highest = ceiling(policy, retry)
    low, high = highest, highest
    if policy.jitter == "full":
        low = 0
    elif policy.jitter == "equal":
        low = highest // 2
    elif policy.jitter == "proportional":
        proportion = policy.jitter_proportion or 0.0
        low = part(highest, 1.0 - proportion)
        high = min(truncated(float(highest) * (1.0 + proportion)), policy.max_delay_ns)
    elif policy.jitter == "decorrelated":
        low = min(policy.initial_delay_ns, policy.max_delay_ns)
        before = max(previous_ns, policy.initial_delay_ns)
        high = min(3 * before, MAX_NS, policy.max_delay_ns)
    low = max(low, min(policy.min_delay_ns, policy.max_delay_ns))
    high = max(high, low)
    return min(low + part(high - low, sample), policy.max_delay_ns)
