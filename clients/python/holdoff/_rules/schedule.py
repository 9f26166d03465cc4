"""When to check without the service: run k starts at `anchor + k * period`.

The anchor is the time that the service planned last, so that a fleet which loses it stays as
spread as it was. Before any plan it is a hash of dependency and checker into the period, as the
service's own `phase: hash` has it. A run that is late or long takes the next time.
"""

from __future__ import annotations

_MASK = 2**64 - 1


def checker_name(*parts: str) -> int:
    """FNV-1a over each part behind its length, then mixed: the same after a restart."""
    h = 0xCBF29CE484222325
    for part in parts:
        text = part.encode()
        for byte in len(text).to_bytes(8, "little") + text:
            h = ((h ^ byte) * 0x100000001B3) & _MASK
    h ^= h >> 30
    h = (h * 0xBF58476D1CE4E5B9) & _MASK
    h ^= h >> 27
    h = (h * 0x94D049BB133111EB) & _MASK
    return h ^ (h >> 31)


def part_of(name: int, period_ns: int) -> int:
    return name * period_ns >> 64


def next_after(anchor: int, period_ns: int, now: int) -> int:
    """The first time of the grid after now."""
    if now < anchor:
        return anchor
    period_ns = max(period_ns, 1)
    return anchor + ((now - anchor) // period_ns + 1) * period_ns
