"""The three date forms of RFC 9110, 5.6.7, and nothing else.

Not `email.utils.parsedate`: it reads "120" and half-written dates too, and a wait must never
come from a guess.
"""

from __future__ import annotations

import calendar
import re
from typing import Optional

_SHORT = "Mon|Tue|Wed|Thu|Fri|Sat|Sun"
_LONG = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = "|".join(_MONTHS)
_DAY = r"(?P<day>[0-9]{2})"
_YEAR = r"(?P<year>[0-9]{4})"
_TIME = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"

_FORMS = (
    # Wed, 21 Oct 2015 07:28:00 GMT
    re.compile(rf"(?:{_SHORT}), {_DAY} (?P<month>{_MONTH}) {_YEAR} {_TIME} GMT"),
    # Wednesday, 21-Oct-15 07:28:00 GMT
    re.compile(rf"(?:{_LONG}), {_DAY}-(?P<month>{_MONTH})-(?P<year>[0-9]{{2}}) {_TIME} GMT"),
    # Wed Oct 21 07:28:00 2015
    re.compile(rf"(?:{_SHORT}) (?P<month>{_MONTH}) (?P<day>[0-9]{{2}}| [0-9]) {_TIME} {_YEAR}"),
)

_SECONDS_IN_A_YEAR = 31_556_952


def read_date(value: str, wall_seconds: int) -> Optional[int]:
    """Seconds since 1970. None: it is no date."""
    for form in _FORMS:
        match = form.fullmatch(value)
        if match:
            return _instant(match, wall_seconds)
    return None


def _instant(match: re.Match[str], wall_seconds: int) -> Optional[int]:
    year = int(match["year"])
    if len(match["year"]) == 2:
        # One that would lie more than 50 years ahead is a century back.
        this_year = 1970 + wall_seconds // _SECONDS_IN_A_YEAR
        year += 1900 if 2000 + year > this_year + 50 else 2000
    month, day = _MONTHS.index(match["month"]) + 1, int(match["day"])
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"])
    if not (hour < 24 and minute < 60 and second <= 60):
        return None
    if year < 1 or not 1 <= day <= calendar.monthrange(year, month)[1]:
        return None
    return calendar.timegm((year, month, day, hour, minute, 0)) + second
