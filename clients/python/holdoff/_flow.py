"""What is common to threads and tasks is written once, as generators that yield what they must
wait for. A front performs it: blocking, or awaiting.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Callable, Optional, TypeVar, Union

from ._pushed import Pushed

T = TypeVar("T")


@dataclass(frozen=True)
class AskFleet:
    """Sends the question; the answer is an `AcquireResponse` or a `NoAnswer`."""

    request: Any


@dataclass(frozen=True)
class PlanCheck:
    """The same for a check: a `PlanCheckResponse` or a `NoAnswer`."""

    request: Any
    seconds: float


@dataclass(frozen=True)
class Sleep:
    """Waits; where `is_over` is given, no longer than until a trip after which that is true."""

    seconds: float
    pushed: Optional[Pushed] = None
    is_over: Optional[Callable[[], bool]] = None


Effect = Union[AskFleet, PlanCheck, Sleep]
Flow = Generator[Effect, Any, T]
