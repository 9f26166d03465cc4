"""How results and errors are read as outcomes.

| | |
|---|---|
| `default` | any value is a success; an error by what it is, below |
| `http` | a response by its status, with `Retry-After`; an error as `default` |
| `http_status` | the same of a status and headers |
| `grpc_status` | of a code and trailers, with `grpc-retry-pushback-ms` |

A classifier is any `(value, error) -> Outcome`; exactly one of the two is given, and `error` is
never one that Python itself makes to end things (`KeyboardInterrupt`, `CancelledError`).

Errors are read by what they carry, not by whose they are, so that no library is imported. The
first that applies:

| an error | |
|---|---|
| that ended a guarded call below | that of its last real error, and `retried_below` |
| … where no attempt was made (`Denied`) | ignored |
| `Cancelled` | cancelled |
| with a `response` that has a `status_code` (httpx, requests) | by HTTP |
| with a `code()` (grpc) | by gRPC |
| of making this attempt's connection: refused, unreachable, unknown | not sent |
| a timeout of any layer | timeout |
| any other, and a group of several (`ExceptionGroup`) | failure |

`retried_below` where more than one attempt was made there. What an error names as its cause is
looked at, too. So are the members of a group: it is `retried_below` where one of them is, and
ignored where all are denials.

A gRPC status is never "not sent", whatever its text says: gRPC for Python does not tell whether
the server sent it, and a server may relay the words of another.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Callable, Optional, Union

from ._cause import causes, kind_of, members_of
from ._rules import pushback
from ._rules.arithmetic import to_seconds
from .denial import Cancelled, Denied, stop_of, was_retried_below
from .outcome import Outcome, OutcomeKind

Classify = Callable[[Any, Optional[BaseException]], Outcome]
Headers = Union[Mapping[str, str], Iterable[tuple[str, str]]]

_GRPC_KINDS = {
    0: OutcomeKind.SUCCESS,
    1: OutcomeKind.CANCELLED,
    4: OutcomeKind.TIMEOUT,
    8: OutcomeKind.THROTTLED,
    2: OutcomeKind.FAILURE,
    13: OutcomeKind.FAILURE,
    14: OutcomeKind.FAILURE,
    15: OutcomeKind.FAILURE,
}
_PUSHBACK = "grpc-retry-pushback-ms"
_SUCCESS = Outcome(OutcomeKind.SUCCESS)


def default(value: Any, error: Optional[BaseException]) -> Outcome:
    """Any value is a success."""
    return _SUCCESS if error is None else of_error(error)


def http(value: Any, error: Optional[BaseException]) -> Outcome:
    """For functions that return responses rather than raise for their status."""
    if error is not None:
        return of_error(error)
    status = _status_of(value)
    return _SUCCESS if status is None else http_status(status, value.headers)


def http_status(status: int, headers: Headers = (), *, now: Optional[int] = None) -> Outcome:
    """408 and 504 are timeouts, 429 throttled, 421 and 425 failures, other 4xx, 501 and 505
    rejected, other 5xx failures, 1xx ignored. `Retry-After` counts on 408, 429 and all 5xx.
    `now` is the wall clock, in seconds.
    """
    kind = _http_kind(status)
    wait = None
    if status in (408, 429) or status >= 500:
        wait = _retry_after(headers, int(time.time()) if now is None else now)
    return Outcome(
        kind, pushback=None if wait is None else to_seconds(wait), status_code=max(status, 0)
    )


def grpc_status(code: int, trailers: Headers = ()) -> Outcome:
    """OK is success, 1 cancelled, 4 timeout, 8 throttled, 2, 13, 14 and 15 failures, all others
    rejected. One `grpc-retry-pushback-ms` that is a wait is the pushback; anything else in its
    place says "do not retry".
    """
    kind = _GRPC_KINDS.get(code, OutcomeKind.REJECTED)
    said = [value for name, value in _pairs(trailers) if name == _PUSHBACK] if code else []
    if not said:
        return Outcome(kind, status_code=max(code, 0))
    wait = pushback.read_grpc_pushback(said[0]) if len(said) == 1 else None
    return Outcome(
        kind,
        pushback=None if wait is None else to_seconds(wait),
        pushback_restarts_backoff=wait is not None,
        do_not_retry=wait is None,
        status_code=max(code, 0),
    )


def of_error(error: BaseException) -> Outcome:
    """By what a guarded call below says of it, by what the error carries, and else by the errors
    that caused it.
    """
    for below in causes(error):
        if isinstance(below, Cancelled):
            return Outcome.cancelled()
        if stop_of(below) is not None or _is_denied(below):
            error = below
            break
    return replace(_of_carried(error), retried_below=was_retried_below(error))


def _is_denied(error: BaseException) -> bool:
    """No attempt was made; of a group of errors, none by any of its tasks."""
    members = members_of(error)
    return isinstance(error, Denied) or (bool(members) and all(map(_is_denied, members)))


def _of_carried(error: BaseException) -> Outcome:
    if _is_denied(error):
        return Outcome(OutcomeKind.IGNORED)
    code = _grpc_code_of(error)
    if code is not None:
        # grpc.aio's Metadata is pairs in every version, but not a mapping of its keys in old ones.
        return grpc_status(code, tuple(getattr(error, "trailing_metadata", tuple)() or ()))
    response = getattr(error, "response", None)
    carrier = response if response is not None else error
    status = _status_of(carrier)
    if status is not None:
        return http_status(status, getattr(carrier, "headers", None) or ())
    return Outcome(kind_of(error))


def _http_kind(status: int) -> OutcomeKind:
    if status < 200:
        return OutcomeKind.IGNORED
    if status < 400:
        return OutcomeKind.SUCCESS
    if status in (408, 504):
        return OutcomeKind.TIMEOUT
    if status == 429:
        return OutcomeKind.THROTTLED
    if status in (421, 425):
        return OutcomeKind.FAILURE
    if status < 500 or status in (501, 505):
        return OutcomeKind.REJECTED
    return OutcomeKind.FAILURE


def _retry_after(headers: Headers, now: int) -> Optional[int]:
    pairs = list(_pairs(headers))
    values = [value for name, value in pairs if name == "retry-after"]
    if len(values) != 1:  # Two contradict each other, so neither is an instruction.
        return None
    date = next((value for name, value in pairs if name == "date"), None)
    return pushback.read_retry_after(values[0], date, now)


def _pairs(headers: Any) -> Iterable[tuple[str, str]]:
    items = getattr(headers, "multi_items", None) or getattr(headers, "items", None)
    for name, value in items() if items is not None else headers:
        for one in value if isinstance(value, list) else (value,):  # grpc.aio's Metadata
            yield _text(name).lower(), _text(one)


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _status_of(carrier: Any) -> Optional[int]:
    for name in ("status_code", "status"):
        status = getattr(carrier, name, None)
        if isinstance(status, int) and hasattr(carrier, "headers"):
            return status
    return None


def _grpc_code_of(error: BaseException) -> Optional[int]:
    code = getattr(error, "code", None)
    if not callable(code) or not hasattr(error, "trailing_metadata"):
        return None
    value = getattr(code(), "value", None)  # grpc.StatusCode.UNAVAILABLE.value is (14, text)
    return value[0] if isinstance(value, tuple) else None
