"""Numbers as all languages count them: 64-bit times, IEEE doubles.

Python's integers have no end and its doubles are IEEE already, so only the ends of the
range are written down here.
"""

from __future__ import annotations

NS = 1_000_000_000
MAX_NS = 2**64 - 1


def truncated(value: float) -> int:
    """A double as a time: what is no number or negative is 0, and the range has an end."""
    if not value > 0.0:
        return 0
    return int(value) if value < 2.0**64 else MAX_NS


def part(whole_ns: int, unit: float) -> int:
    """So much of a time; `unit` in [0, 1]."""
    return truncated(float(whole_ns) * min(max(unit, 0.0), 1.0))


def power(base: float, exponent: int) -> float:
    """By squaring, in the order that decides the last digit. Overflows to infinity."""
    product, square = 1.0, base
    while exponent > 0:
        if exponent & 1:
            product *= square
        square *= square
        exponent >>= 1
    return product


def from_seconds(seconds: float) -> int:
    """Seconds as ns, to the nanosecond; what is no number or negative is 0."""
    if not seconds > 0.0:
        return 0
    if seconds >= MAX_NS / NS:
        return MAX_NS
    whole = int(seconds)
    return min(whole * NS + round((seconds - whole) * NS), MAX_NS)


def to_seconds(whole_ns: int) -> float:
    return whole_ns / NS
