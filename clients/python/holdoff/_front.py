"""What both clients have in common: settings, counters, and what happens at a `fork`."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, Optional, TypeVar, Union

from . import _fork
from ._channel import Tls, Token
from ._core import Configuration, Core, OnNoDecision
from ._counters import Counters
from ._link import Link, log
from ._rules.policy import Policy

F = TypeVar("F", bound="Front")


class Front:
    """Settings of a client. Nothing is connected before the first question, and only settings
    that can never work are refused, with `ValueError`.

    Args:
        endpoints: `http://host:port`, `https://host:port` or `host:port`, in order of
            preference. `HOLDOFF_SERVER` in the environment unless said.
        service: what this process is; the program's name unless said.
        instance: which process of it; no two may share a name. Host name, process id and a random
            part unless said.
        namespace: the tenant; `default` unless said.
        timeout: the longest that a call waits for the service, in seconds; up to 10.
        on_no_decision: what happens where the service decides nothing. `local`: the same rules
            over what this process knows. `allow`: first attempts pass, retries stay local.
            `deny`.
        follow: dependencies to be pushed from the first connection on.
        local_policy: the policy of local decisions before one is pushed; see
            `holdoff.local_policy`.
        tls: whom `https://` endpoints must be, and who this client is to them.
        token: sent as `authorization: Bearer …`; a function is asked anew for each stream and
            each request. `HOLDOFF_TOKEN` in the environment unless said.
    """

    _core: Core

    def __init__(
        self,
        endpoints: Union[str, Iterable[str], None] = None,
        *,
        service: Optional[str] = None,
        instance: Optional[str] = None,
        namespace: str = "",
        timeout: float = 0.05,
        on_no_decision: OnNoDecision = "local",
        follow: Iterable[str] = (),
        local_policy: Optional[Policy] = None,
        tls: Optional[Tls] = None,
        token: Optional[Token] = None,
    ) -> None:
        self._begin(
            Configuration.checked(
                _listed(endpoints),
                service,
                instance,
                namespace,
                timeout,
                on_no_decision,
                tuple(follow),
                local_policy or Policy(),
                tls or Tls(),
                token,
            )
        )

    @classmethod
    def testing(cls: type[F]) -> F:
        """For tests of code that makes calls: no service, no waiting, no breaker, at most three
        attempts a call. What can never be retried is not retried here either.
        """
        client = cls.__new__(cls)
        client._begin(Configuration.testing())
        return client

    def counters(self) -> Counters:
        """What it has done so far."""
        return self._core.counters.copy()

    def _begin(self, configuration: Configuration) -> None:
        self._core = Core(configuration, self._make_link)
        _CLIENTS.add(self)

    @staticmethod
    def _make_link(*settings: Any) -> Link:
        raise NotImplementedError

    def _begin_anew(self, can_connect: bool) -> None:
        """In a child of `fork` no thread, lock or connection of the parent is of use. They are
        kept for good, since to close them would wait for threads that are not there.
        """
        inherited = self._core
        _INHERITED.append(inherited)
        self._core = Core(inherited.configuration, self._make_link)
        # What was pushed holds to its own end, in this process too.
        self._core.pushed.inherit(inherited.pushed)
        if not can_connect and self._core.link is not None:
            self._core.link = None
            log.warning(
                "forked from a process in which threads of gRPC were at work, which no child "
                "survives; this one decides locally"
            )

    def _used_grpc(self) -> bool:
        return False

    def _leave_grpc(self) -> None:
        """Before a `fork`."""

    def _return_to_grpc(self) -> None:
        """In the parent."""


def _listed(endpoints: Union[str, Iterable[str], None]) -> Optional[tuple[str, ...]]:
    if endpoints is None or isinstance(endpoints, str):
        return None if endpoints is None else (endpoints,)
    if not isinstance(endpoints, Iterable):
        return (endpoints,)  # It is no text either, which is said where texts are read.
    return tuple(endpoints)


_CLIENTS: Any = weakref.WeakSet()
_INHERITED: list[Core] = []
_fork.watch(_CLIENTS)
