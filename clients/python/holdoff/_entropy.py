"""The only place where random numbers are drawn: from a generator that the operating system
seeds, in each process anew. A child of `fork` would otherwise draw what its parent and all its
siblings draw, and jitter would exist in the code and not in the traffic.
"""

from __future__ import annotations

import os
import random

_generator = random.Random()

unit = _generator.random
"""Uniform in [0, 1)."""


def number() -> int:
    return _generator.getrandbits(64)


def name() -> str:
    return f"{number():016x}"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_generator.seed)
