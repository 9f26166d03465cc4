"""What a client is made of, whichever front it has."""

from __future__ import annotations

import enum
import os
import socket
import sys
from dataclasses import dataclass, field
from typing import Any, Callable, Literal, Optional

from . import _entropy
from ._channel import Endpoint, Tls, Token
from ._counters import Counters, Seldom
from ._link import Link
from ._local import Local
from ._pushed import Heard, Pushed
from ._rules.arithmetic import from_seconds
from ._rules.policy import Policy
from ._rules.record import LocalPermit
from ._wire import is_name
from .outcome import Outcome, OutcomeKind

OnNoDecision = Literal["local", "allow", "deny"]

DEFAULT_ENDPOINT = "http://127.0.0.1:7460"
TESTING_ATTEMPTS = 3
NAMES_MAX = 10_000
# An enum looks its members up in Python, which each call would pay for.
_SUCCESS = OutcomeKind.SUCCESS


class Mode(enum.Enum):
    FLEET = "fleet"
    BYPASS = "bypass"
    """An operator took holdoff out: all calls pass, retries are local."""
    TESTING = "testing"
    """No service and no waiting."""


@dataclass(frozen=True)
class OnState:
    """The pushed state that an attempt was made on, without asking."""

    epoch: int
    slow_after_ns: int


@dataclass(frozen=True)
class Configuration:
    """Settings that were found to be sound. Only what can never work is refused."""

    endpoints: list[Endpoint]
    service: str
    instance: Optional[str]
    namespace: str
    timeout: float
    on_no_decision: OnNoDecision
    follow: tuple[str, ...]
    policy: Policy
    mode: Mode
    pid: int = field(default_factory=os.getpid)

    @classmethod
    def checked(
        cls,
        endpoints: Optional[tuple[str, ...]],
        service: Optional[str],
        instance: Optional[str],
        namespace: str,
        timeout: float,
        on_no_decision: OnNoDecision,
        follow: tuple[str, ...],
        policy: Policy,
        tls: Tls,
        token: Optional[Token],
    ) -> Configuration:
        if not 0.0 < timeout <= 10.0:
            raise ValueError(f"timeout {timeout!r}: it must be above 0 and at most 10 s")
        if on_no_decision not in ("local", "allow", "deny"):
            raise ValueError(
                f"on_no_decision {on_no_decision!r}: it must be 'local', 'allow' or 'deny'"
            )
        setting = "endpoint"
        if endpoints is None:
            said = os.environ.get("HOLDOFF_SERVER")
            endpoints, setting = (said or DEFAULT_ENDPOINT,), "HOLDOFF_SERVER"
        if not endpoints:
            raise ValueError("endpoints (): at least one is needed")
        if token is None:
            token = os.environ.get("HOLDOFF_TOKEN") or None
        for name in follow:
            if not is_name(name):
                raise bad_name("follow", name)
        if namespace and not is_name(namespace):
            raise bad_name("namespace", namespace)
        service = _program() if service is None else service
        for what, value in (("service", service), ("instance", instance or "")):
            if len(value.encode()) > 200:
                raise ValueError(f"{what} {value[:40]!r}…: it must be at most 200 bytes")
        bypass = os.environ.get("HOLDOFF_BYPASS") == "1"
        return cls(
            [Endpoint.parse(endpoint, tls, token, setting) for endpoint in endpoints],
            service,
            instance,
            namespace,
            timeout,
            on_no_decision,
            follow,
            policy,
            Mode.BYPASS if bypass else Mode.FLEET,
        )

    @classmethod
    def testing(cls) -> Configuration:
        policy = Policy(
            max_attempts=TESTING_ATTEMPTS, initial_delay_ns=0, floor_micros_per_second=2**63
        )
        return cls([], "test", None, "", 0.0, "local", (), policy, Mode.TESTING)

    def instance_here(self) -> str:
        """No two processes may share a name: a child of `fork` is told from its parent."""
        pid = os.getpid()
        if self.instance is None:
            return f"{socket.gethostname()[:80]}/{pid}/{_entropy.name()}"
        return self.instance if pid == self.pid else f"{self.instance[:180]}/{pid}"


class Core:
    """The state of one client in one process. A child of `fork` gets a new one."""

    def __init__(self, configuration: Configuration, make_link: Callable[..., Link]) -> None:
        self.configuration = configuration
        self.mode = configuration.mode
        self.on_no_decision = configuration.on_no_decision
        self.timeout = configuration.timeout
        self.counters = Counters()
        retries_only = self.mode is not Mode.FLEET or self.on_no_decision == "allow"
        self.local = Local(configuration.policy, retries_only)
        self.pushed = Pushed(configuration.policy, configuration.follow)
        self.warned_classifier = Seldom()
        self._names: set[str] = set()
        self.link: Optional[Link] = None
        if self.mode is Mode.FLEET:
            caller = (configuration.service, configuration.instance_here())
            self.link = make_link(
                configuration.endpoints,
                caller,
                configuration.namespace,
                self.pushed,
                self.counters,
            )

    def check_name(self, dependency: str) -> None:
        """Raises `ValueError` where no dependency has such a name. A bypass takes any."""
        if dependency in self._names:
            return
        if self.mode is not Mode.BYPASS and not is_name(dependency):
            raise bad_name("dependency", dependency)
        if len(self._names) < NAMES_MAX:
            self._names.add(dependency)

    @property
    def instance(self) -> str:
        return self.link.caller.instance if self.link else self.configuration.instance_here()

    def kept(self, dependency: str) -> Optional[Heard]:
        """What the service last said about being alone with a dependency."""
        return self.pushed.get(dependency)

    def report(self, dependency: str, made: Any, outcome: Outcome) -> None:
        """How the attempt ended that was made under a permit, or on a pushed state."""
        if isinstance(made, LocalPermit):
            self.local.report(dependency, self.kept(dependency), made, outcome)
        elif self.link is None:
            return
        elif isinstance(made, bytes):
            self.link.reports.push(made, outcome)
        else:
            latency = None if outcome.latency is None else from_seconds(outcome.latency)
            self.count(dependency, made, outcome.kind, latency)

    def count(
        self, dependency: str, made: OnState, kind: OutcomeKind, latency_ns: Optional[int]
    ) -> None:
        """How an attempt on pushed state ended."""
        if self.link is not None:
            self.link.reports.tally(dependency, made.epoch, kind, latency_ns, made.slow_after_ns)

    def count_success(self, dependency: str, made: OnState, latency_ns: int) -> None:
        """The same, and `count_if_lost`: what most calls end with."""
        link = self.link
        if link is not None:
            epoch, slow_after_ns = made.epoch, made.slow_after_ns
            link.reports.count(dependency, epoch, _SUCCESS, latency_ns, slow_after_ns, False)
            if not link.is_asked():
                self.count_if_lost(dependency, _SUCCESS)

    def count_if_lost(self, dependency: str, kind: OutcomeKind) -> None:
        """How an attempt on pushed state ended that no question tells of. Where the service was
        lost meanwhile it counts in this process's own record too: of a burst that was under way
        just then it would see the failures alone.
        """
        link = self.link
        if link is not None and not link.is_asked() and self.on_no_decision == "local":
            self.local.ended(dependency, self.kept(dependency), Outcome(kind))

    def count_late(self, dependency: str, made: OnState, outcome: Outcome) -> None:
        """The same of a state that another has taken the place of."""
        if self.link is not None:
            latency = None if outcome.latency is None else from_seconds(outcome.latency)
            self.link.reports.tally_late(
                dependency, made.epoch, outcome.kind, latency, made.slow_after_ns
            )


def bad_name(setting: str, name: str) -> ValueError:
    allowed = "it must be 1 to 200 ASCII letters, digits and . _ / : @ -"
    return ValueError(f"{setting} {str(name)[:80]!r}: {allowed}")


def _program() -> str:
    name = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else ""
    return (name or "python")[:200]
