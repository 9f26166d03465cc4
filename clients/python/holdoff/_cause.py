"""What an error without a response means, by its class and those that it names as its causes.

"Not sent" lets an unsafe call be made again, so it is said only where the call certainly did not
run: an error of making this attempt's own connection. It is not said by

- `__context__`, which an earlier error left behind that was handled: a cache was down, and the
  charge was sent after that;
- what is below an error of reading or writing: ICMP says "refused" and "unreachable" of
  connections that stand, too;
- an error after a library's own redirect or repetition, of which the traceback tells: the request
  before it was sent. tornado's traceback does not tell, which begins where it connected;
- a group of errors (`ExceptionGroup`): another of its tasks may have sent something.

Libraries are told by their names, so that none is imported.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Optional

from .outcome import OutcomeKind

_CAUSES = 16
_CONNECTING = frozenset(
    (
        "httpx.ConnectError",
        "httpcore.ConnectError",
        "urllib3.NewConnectionError",
        "aiohttp.ClientConnectorError",
    )
)
_ON_A_CONNECTION = frozenset(
    (
        "ChunkedEncodingError",
        "ClientOSError",
        "CloseError",
        "IncompleteRead",
        "ProtocolError",
        "ReadError",
        "WriteError",
    )
)
_REDIRECTING = frozenset(("resolve_redirects", "http_error_302"))  # requests, urllib
_REMEMBERING = {
    "_send_handling_redirects": "history",  # httpx
    "_request": "history",  # aiohttp
    "_conn_request": "seen_bad_status_line",  # httplib2, of a connection that was stale
}
_REPEATING = frozenset(("urlopen", "request"))
"""urllib3 and httplib2, which call themselves for a redirect."""


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it says is below it."""
    below: Optional[BaseException] = error
    for _ in range(_CAUSES):
        if below is None:
            return
        yield below
        below = below.__cause__ or _wrapped(below)


def members_of(error: BaseException) -> list[BaseException]:
    """Of a group of errors, which Python has since 3.11 and libraries had before."""
    said = getattr(error, "exceptions", None)
    members = said if isinstance(said, (list, tuple)) else ()
    return [member for member in members if isinstance(member, BaseException)]


def all_below(error: BaseException) -> Iterator[BaseException]:
    """As `causes`, with those of the members of groups. Each once."""
    seen: set[int] = set()
    left = [error]
    while left:
        for below in causes(left.pop()):
            if id(below) in seen:
                break
            seen.add(id(below))
            yield below
            left.extend(members_of(below))


def kind_of(error: BaseException) -> OutcomeKind:
    chain = list(causes(error))
    if _is_of_connecting(chain) and not any(_was_sent_before(below) for below in chain):
        return OutcomeKind.NOT_SENT
    if any(_is_timeout(below) for below in chain):
        return OutcomeKind.TIMEOUT
    return OutcomeKind.FAILURE


def _is_of_connecting(chain: list[BaseException]) -> bool:
    """Neither a handshake of TLS that fails nor a timeout is a refusal."""
    is_told = False
    for below in chain:
        names = {kind.__name__ for kind in type(below).__mro__}
        if "SSLError" in names or isinstance(below, TimeoutError):
            return False
        if isinstance(below, (ConnectionRefusedError, socket.gaierror)) or _is_named(below):
            is_told = True
        elif not is_told and (names & _ON_A_CONNECTION or members_of(below)):
            return False
    return is_told


def _is_named(error: BaseException) -> bool:
    """As an error of connecting, by its library."""
    return any(
        f"{kind.__module__.partition('.')[0]}.{kind.__name__}" in _CONNECTING
        for kind in type(error).__mro__
    )


def _was_sent_before(error: BaseException) -> bool:
    """By the same call of a library, to another place or over another connection."""
    seen = set()
    trace = error.__traceback__
    while trace is not None:
        frame, code = trace.tb_frame, trace.tb_frame.f_code
        if code.co_name in _REDIRECTING or code in seen:
            return True
        remembered = _REMEMBERING.get(code.co_name)
        if remembered is not None and frame.f_locals.get(remembered):
            return True
        if code.co_name in _REPEATING:
            seen.add(code)
        trace = trace.tb_next
    return False


def _is_timeout(error: BaseException) -> bool:
    """httpx.ReadTimeout, requests.Timeout, socket.timeout before Python 3.10, asyncio's. What
    urllib3 calls a timeout is none where the connection was refused.
    """
    return not _is_named(error) and any(
        kind.__name__.endswith(("Timeout", "TimeoutError", "timeout"))
        for kind in type(error).__mro__
    )


def _wrapped(error: BaseException) -> Optional[BaseException]:
    """urllib3 keeps the error below it in `reason`, requests in its arguments."""
    below = getattr(error, "reason", None)
    if isinstance(below, BaseException):
        return below
    first = error.args[0] if error.args else None
    return first if isinstance(first, BaseException) else None
