"""What a dependency says about when to come back.

Two headers carry it, and the same number means different things in them. HTTP's `Retry-After`
(RFC 9110, 10.2.3) is a whole number of seconds or a date; anything else is no instruction.
gRPC's `grpc-retry-pushback-ms` (gRFC A6) is a whole number of milliseconds; anything else says
"do not retry".
"""

from __future__ import annotations

import re
from typing import Optional

from .arithmetic import MAX_NS, NS
from .http_date import read_date

_DIGITS = re.compile(r"[0-9]+")
_MILLISECONDS = re.compile(r"0|[1-9][0-9]{0,9}")
_I32_MAX = 2**31 - 1


def read_retry_after(value: str, date: Optional[str], wall_seconds: int) -> Optional[int]:
    """In ns. A date counts from the response's own `date` where that can be read, else from the
    wall clock; a past one is 0. None: no instruction.
    """
    value = value.strip(" \t")
    if _DIGITS.fullmatch(value):
        # More digits than a time has, which Python would refuse to read.
        return min(int(value) * NS, MAX_NS) if len(value.lstrip("0")) <= 20 else MAX_NS
    then = read_date(value, wall_seconds)
    if then is None:
        return None
    own = None if date is None else read_date(date.strip(" \t"), wall_seconds)
    now = wall_seconds if own is None else own
    return min(max(then - now, 0) * NS, MAX_NS)


def read_grpc_pushback(value: str) -> Optional[int]:
    """In ns. None: do not retry."""
    if _MILLISECONDS.fullmatch(value) and int(value) <= _I32_MAX:
        return int(value) * 1_000_000
    return None
