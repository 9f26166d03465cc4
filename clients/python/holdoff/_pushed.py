"""The state that the service pushes: what to do with first attempts, and what to keep to when
it is away.

The service says what a first attempt does (go, ask, refuse) and for how long that may be relied
on; the client obeys and derives nothing from the state of the breaker. What is unknown, unsaid
or out of range is "ask". Nothing is forgotten when a session breaks: what was said holds to its
own end, and the policy for as long as the client lives.

Reading takes no lock: an entry is replaced, never changed, but for when it was last used.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Callable, Optional

from . import _clock
from ._rules.arithmetic import NS, to_seconds
from ._rules.duration import read_duration
from ._rules.policy import Policy, read_policy
from .denial import Denied, DeniedBy, Reason

VALID_MAX_NS = 300 * NS
DEPENDENCIES_MAX = 10_000
NAME_BYTES_MAX = 200
IDLE_NS = 600 * NS

GO, ASK, REFUSE = 1, 2, 3
_CLOSED, _OPEN, _FORCED_OPEN, _FORCED_CLOSED = 1, 2, 5, 6
_REASONS = {_OPEN: Reason.BREAKER_OPEN, _FORCED_OPEN: Reason.FORCED_OPEN}


class Heard:
    """One update, read. It is never mended by a default that lets a call go."""

    __slots__ = (
        "epoch",
        "first_attempts",
        "is_left",
        "known_clients",
        "let_go_at",
        "policy",
        "said",
        "slow_after_ns",
        "state",
        "terms",
        "used",
        "valid_until",
    )

    def __init__(self, update: Any, before: Optional[Heard], own: Policy, now: int) -> None:
        self.state: int = update.state
        self.epoch: int = update.epoch
        self.first_attempts = _first_attempts(update)
        self.valid_until = now + _valid_for(update)
        self.said = (
            update.policy if update.HasField("policy") else None,
            update.offline_allowance if update.HasField("offline_allowance") else None,
        )
        allowance = self.said[1]
        self.known_clients: int = 0 if allowance is None else allowance.known_clients
        """Who share the allowance; 0: it was not said."""
        is_known = before is not None and before.said == self.said
        self.policy: Policy = before.policy if before and is_known else read_policy(*self.said, own)
        self.slow_after_ns = self.policy.slow_after_ns
        self.let_go_at: Optional[int] = before.let_go_at if before else None
        if self.first_attempts == GO:
            self.let_go_at = now
        self.used: int = before.used if before else now
        self.is_left = False
        """It is followed no longer."""
        self.terms: Any = None
        """Of a first attempt that goes; made once, and never changed."""

    @property
    def is_open(self) -> bool:
        return self.state in (_OPEN, _FORCED_OPEN)

    @property
    def refuses(self) -> bool:
        """Retries are denied, whatever first attempts do."""
        return self.is_open or self.first_attempts == REFUSE

    def word(self, now: int) -> int:
        """What a first attempt does now."""
        return self.first_attempts if now < self.valid_until else ASK

    def denied(self, now: int) -> Denied:
        """A refusal that nobody explains otherwise is a hold."""
        left = to_seconds(max(self.valid_until - now, 0))
        detail = f"as pushed to this client; ask again in {left:.3f} s"
        return Denied(DeniedBy.FLEET, _REASONS.get(self.state, Reason.HELD), detail, left)

    def drops(self, granted_in: int, attempt: int, now: int) -> Optional[Denied]:
        """Why an attempt granted in that epoch may not be made any more."""
        has_tripped = self.is_open and self.epoch > granted_in and now < self.valid_until
        binds = attempt > 1 or self.first_attempts == REFUSE
        return self.denied(now) if has_tripped and binds else None

    def refuses_since(self, epoch: int, now: int) -> Optional[Denied]:
        """Why there is no retry of an attempt made on the state of that epoch. None: the service
        has not said so since, or not said it validly.
        """
        is_later = self.epoch > epoch and now < self.valid_until
        return self.denied(now) if self.refuses and is_later else None

    def refuses_alone(self, attempt: int, since: int, now: int) -> Optional[Denied]:
        """Why a question that the service does not answer is denied all the same: what it has
        pushed in that epoch or later still stands. None: this process decides.
        """
        stands = now < self.valid_until and self.epoch >= since
        is_let_go = attempt == 1 and self.first_attempts == GO
        return self.denied(now) if stands and self.refuses and not is_let_go else None

    def stands_by(self, granted_in: int, now: int) -> bool:
        """Whether the service is known to stand by what it granted in that epoch."""
        return (
            self.state in (_CLOSED, _FORCED_CLOSED)
            and self.epoch == granted_in
            and self.first_attempts != REFUSE
            and now < self.valid_until
        )


def _says(heard: Heard) -> tuple[bool, bool, int]:
    return heard.is_open, heard.refuses, heard.epoch


def _first_attempts(update: Any) -> int:
    is_known = 1 <= update.state <= 6 and 0 <= update.first_attempts <= 3
    return (update.first_attempts or ASK) if is_known else ASK


def _valid_for(update: Any) -> int:
    _, span = read_duration(update.valid_for if update.HasField("valid_for") else None)
    return min(span or 0, VALID_MAX_NS)


class Pushed:
    """All that was heard, by dependency. `wished` is wanted from the beginning."""

    def __init__(self, own: Policy, wished: Iterable[str] = ()) -> None:
        self.own = own
        self.wished = frozenset(wished)
        self._heard: dict[str, Heard] = {}
        self._lock = threading.Lock()
        self._on_trip: set[Callable[[], None]] = set()
        self.get = self._heard.get
        """What was last heard of a dependency, valid or not."""

    def store(self, update: Any) -> bool:
        """True: it is heard of for the first time."""
        name, now = update.dependency, _clock.now_ns()
        if len(name) > NAME_BYTES_MAX:
            return False
        with self._lock:
            before = self._heard.get(name)
            if before is None and not self._has_room(now):
                return False
            heard = Heard(update, before, self.own, now)
            self._heard[name] = heard
            has_tripped = heard.refuses and (before is None or _says(before) != _says(heard))
            listeners = list(self._on_trip) if has_tripped else []
        for tell in listeners:
            tell()
        return before is None

    def inherit(self, parents: Pushed) -> None:
        """What the process was told before it was forked."""
        self._heard.update(parents._heard)

    def listen(self, tell: Callable[[], None]) -> None:
        """Told whenever the service begins to refuse all of anything, until `ignore`."""
        with self._lock:
            self._on_trip.add(tell)

    def ignore(self, tell: Callable[[], None]) -> None:
        with self._lock:
            self._on_trip.discard(tell)

    def has_heard_all_wished(self) -> bool:
        return all(name in self._heard for name in self.wished)

    def followed(self) -> list[str]:
        """What a new session subscribes to."""
        now = _clock.now_ns()
        with self._lock:
            in_use = {name for name, heard in self._heard.items() if now - heard.used < IDLE_NS}
            for name in in_use:
                self._heard[name].is_left = False
        return sorted(in_use | self.wished)

    def leave_idle(self) -> list[str]:
        """What is called no longer, unless it was wanted from the beginning; each once. Its
        policy is kept.
        """
        now = _clock.now_ns()
        with self._lock:
            idle = [
                name
                for name, heard in self._heard.items()
                if now - heard.used >= IDLE_NS and not heard.is_left and name not in self.wished
            ]
            for name in idle:
                self._heard[name].is_left = True
        return idle

    def _has_room(self, now: int) -> bool:
        if len(self._heard) >= DEPENDENCIES_MAX:
            for name in [n for n, heard in self._heard.items() if now - heard.used >= IDLE_NS]:
                del self._heard[name]
        return len(self._heard) < DEPENDENCIES_MAX
