"""How many callers wait for a service of which nothing has been heard yet: three in all, at once or
one after the other.

The others decide alone at once, while the connection is made at nobody's cost. So a process that
begins with a burst of calls pays for three of them, and being slow to start is not taken for the
service's silence: the gate is for questions that were sent.
"""

from __future__ import annotations

import threading
from typing import Any

WAITING_MAX = 3


class Patience:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_heard = False
        """The service has said something on the connection that stands."""
        self._waiting: set[Any] = set()
        self._in_vain = 0
        """Since it was last heard of."""

    def enter(self, who: Any) -> bool:
        """Whether one more caller may wait."""
        with self._lock:
            if not self._is_heard and len(self._waiting) + self._in_vain >= WAITING_MAX:
                return False
            self._waiting.add(who)
            return True

    def leave(self, who: Any, was_late: bool = False) -> None:
        """It waits no longer. Said twice, it counts once."""
        with self._lock:
            if who in self._waiting:
                self._waiting.discard(who)
                self._in_vain += was_late and not self._is_heard

    @property
    def is_over(self) -> bool:
        """Three have waited in vain."""
        return not self._is_heard and self._in_vain >= WAITING_MAX

    def heard(self) -> None:
        with self._lock:
            self._is_heard, self._in_vain = True, 0

    def lost(self) -> None:
        """The connection is over."""
        with self._lock:
            self._is_heard = False
