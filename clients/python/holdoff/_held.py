"""Permission for one attempt, as both fronts show it."""

from __future__ import annotations

from typing import Optional

from ._permit import Permit
from ._rules.arithmetic import to_seconds
from .outcome import Outcome


class Held:
    """Permission for one attempt. One that is neither reported nor retried counts as cancelled
    once it is collected; `with permit:` says so at the end of the block.
    """

    __slots__ = ("_permit",)

    def __init__(self, permit: Permit) -> None:
        self._permit = permit

    @property
    def attempt(self) -> int:
        """1 for the first call."""
        return self._permit.attempt

    @property
    def delay(self) -> float:
        """Seconds to wait before the attempt, from now. `wait` does it."""
        return to_seconds(self._permit.delay())

    @property
    def limit(self) -> Optional[float]:
        """Seconds that the attempt may take from now. None: nothing limits it."""
        limit = self._permit.limit()
        return None if limit is None else to_seconds(limit)

    @property
    def suggested_timeout(self) -> Optional[float]:
        """A limit that the service finds sensible; it does not bind."""
        suggested = self._permit.terms.attempt_timeout_ns
        return None if suggested is None else to_seconds(suggested)

    @property
    def is_probe(self) -> bool:
        """Whether the attempt tests a dependency that is thought broken."""
        return self._permit.terms.is_probe

    @property
    def is_local(self) -> bool:
        """Whether it was granted without the service."""
        return self._permit.is_local

    def report(self, outcome: Outcome) -> None:
        """Says how the attempt ended. The call is over with it; only the first report counts."""
        self._permit.report(outcome)

    def cancel(self) -> None:
        """The attempt is not made, or is given up."""
        self._permit.cancel()

    def __exit__(self, *_: object) -> None:
        self._permit.cancel()

    def __del__(self) -> None:
        self._permit.collected()
