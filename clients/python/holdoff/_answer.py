"""A question on its way to the service, and what may come of it other than an answer."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Protocol, Union


class Lack(enum.Enum):
    """Why there is no answer."""

    AWAY = "not connected"
    BUSY = "too many questions wait"
    LOST = "the connection broke"
    LATE = "no answer in time"
    FAILED = "the service answered with an error"
    UNASKED = "not asked"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class NoAnswer:
    lack: Lack
    code: int = 0
    """The gRPC code, where the service answered with an error."""
    text: str = ""

    def __str__(self) -> str:
        return f"{self.lack.value}: {self.text[:200]}" if self.text else self.lack.value

    @property
    def may_have_arrived(self) -> bool:
        """Whether the service may have taken the question."""
        return self.lack in (Lack.LATE, Lack.LOST, Lack.UNREADABLE)

    @property
    def is_configuration(self) -> bool:
        """The question is wrong; the service is not ill."""
        return self.lack is Lack.FAILED and self.code in (3, 5, 7, 16)


AWAY = NoAnswer(Lack.AWAY)
BUSY = NoAnswer(Lack.BUSY)
LOST = NoAnswer(Lack.LOST)
LATE = NoAnswer(Lack.LATE)
UNASKED = NoAnswer(Lack.UNASKED)

Reply = Union[Any, NoAnswer]


class Slot(Protocol):
    """Where a reply goes."""

    def put(self, reply: Reply) -> bool:
        """False: nobody waits for it any longer."""

    @property
    def is_gone(self) -> bool: ...


class Ask:
    """A question, or without a request the wish for a connection."""

    __slots__ = ("is_sent", "request", "slot")

    def __init__(self, request: Any, slot: Slot) -> None:
        self.request = request
        self.slot = slot
        self.is_sent = False
        """The service may have it."""


class Nobody:
    """Nobody waits."""

    is_gone = True

    def put(self, reply: Reply) -> bool:
        return False
