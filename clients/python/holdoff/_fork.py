"""What a `fork` needs: gRPC survives one only where none of its threads is at work.

So sessions are left before it, which takes a fifth of a second where one stands, and taken up
again when they are wanted, by parent and child. Where threads of gRPC go on (asyncio's poller,
calls of the program's own), a child that uses gRPC may hang, with all of Python. Such a child
does without the service instead.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Protocol

PATIENCE_SECONDS = 0.6
_LOOK_SECONDS = 0.002
_TASKS = "/proc/self/task"
_NATIVE = ("event_engine", "grpc_", "lifeguard", "timer_manager")


class Forked(Protocol):
    """A client, to `watch`."""

    def _used_grpc(self) -> bool: ...

    def _leave_grpc(self) -> None: ...

    def _return_to_grpc(self) -> None: ...

    def _begin_anew(self, can_connect: bool) -> None: ...


class Forks:
    def __init__(self, clients: set[Forked]) -> None:
        self._clients = clients
        self._can_connect = True

    def before(self) -> None:
        clients = list(self._clients)
        used = [client for client in clients if client._used_grpc()]
        for client in used:
            client._leave_grpc()
        patience = PATIENCE_SECONDS if used else 0.0
        self._can_connect = not clients or _may_survive(patience)

    def in_parent(self) -> None:
        for client in list(self._clients):
            client._return_to_grpc()

    def in_child(self) -> None:
        for client in list(self._clients):
            client._begin_anew(self._can_connect)


def watch(clients: set[Forked]) -> None:
    forks = Forks(clients)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=forks.before, after_in_parent=forks.in_parent, after_in_child=forks.in_child
        )


def _may_survive(patience: float) -> bool:
    said = os.environ.get("GRPC_ENABLE_FORK_SUPPORT", "").lower()
    if said in ("1", "true", "yes", "on"):
        return True  # gRPC itself waits for its threads.
    by = time.monotonic() + patience
    while _is_grpc_at_work():
        if time.monotonic() >= by:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _is_grpc_at_work() -> bool:
    try:
        return any(_name_of(task).startswith(_NATIVE) for task in os.listdir(_TASKS))
    except OSError:  # Not Linux: those that Python knows.
        return any(map(_is_inside_grpc, threading.enumerate()))


def _name_of(task: str) -> str:
    try:
        with open(f"{_TASKS}/{task}/comm") as name:
            return name.read()
    except OSError:  # It has ended.
        return ""


def _is_inside_grpc(thread: threading.Thread) -> bool:
    target = getattr(thread, "_target", None)
    return str(getattr(target, "__module__", "")).startswith("grpc")
