"""What the adapters for HTTP have in common."""

from __future__ import annotations

import contextlib
from typing import Any, Optional
from urllib.parse import urlsplit

IDEMPOTENT = frozenset(("GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"))


def settings(said: Any, method: str, headers: Any, can_repeat: bool) -> Any:
    """A request with an `Idempotency-Key` is keyed, and RFC 9110, 9.2.2, says which methods are
    idempotent; the caller may know better. A body that can be read once is sent once.
    """
    known = dict(said)
    if "idempotent" not in known and "keyed" not in known:
        known["keyed"] = bool(headers.get("Idempotency-Key"))
        known["idempotent"] = method.upper() in IDEMPOTENT
    if not can_repeat:
        known["max_attempts"] = 1
    return known


def let_go(responses: list[Any]) -> None:
    """Closes what nobody reads any more, for it holds a place in a pool. That it cannot be closed
    is nobody's error.
    """
    while responses:
        with contextlib.suppress(Exception):
            responses.pop().close()


def least(timeout: Optional[float], limit: float) -> float:
    return limit if timeout is None else min(timeout, limit)


_DEFAULT_PORTS = {"http": 80, "https": 443}


def name_of(url: str) -> str:
    """The dependency that a URL names: its host, and its port unless that is the scheme's own.
    The clients of all languages name it so, and share its breaker."""
    parts = urlsplit(url)
    host = parts.hostname or "unknown"
    usual = parts.port is None or parts.port == _DEFAULT_PORTS.get(parts.scheme)
    return host if usual else f"{host}:{parts.port}"
