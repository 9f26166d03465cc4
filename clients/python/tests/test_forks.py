"""Children of `fork`: draws of their own, sessions of their own, and no call that hangs."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import pytest
from scripted import Scripted, granting, serving

import holdoff

CHILDREN = 8
PROGRAM = """
import json, os, sys
import holdoff, holdoff.aio
from holdoff import _entropy

def tell(write, what):
    os.write(write, json.dumps(what).encode())

def child(client):
    connected = client.connect(5.0)
    is_local = client.call("payments", lambda attempt: attempt.is_local)
    return {
        "connected": connected,
        "local": is_local,
        "flushed": client.flush(5.0),
        "instance": client._core.instance,
        "draws": [_entropy.unit() for _ in range(5)],
    }

client = holdoff.Client([sys.argv[1]], service="forks", follow=["payments"], timeout=1.0)
if sys.argv[2] == "connected":
    assert client.connect(5.0)
    client.call("payments", lambda attempt: None)
if sys.argv[2] == "busy":
    import grpc
    busy = grpc.insecure_channel(sys.argv[1].partition("//")[2])
    try:
        busy.unary_unary("/nowhere")(b"", timeout=5)
    except grpc.RpcError:
        pass
_entropy.unit()
told, pipes = [], []
for _ in range(int(sys.argv[3])):
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            tell(write, child(client))
        except BaseException as error:
            tell(write, repr(error))
        os._exit(0)
    os.close(write)
    pipes.append(read)
children = [json.loads(os.read(read, 10_000)) for read in pipes]
parent = child(client)
print(json.dumps([parent, *children]))
"""


def run(endpoint: str, how: str) -> list[dict[str, Any]]:
    import json

    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, endpoint, how, str(CHILDREN)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    told: list[dict[str, Any]] = json.loads(ended.stdout)
    assert all(isinstance(one, dict) for one in told), told
    return told


@pytest.mark.parametrize("how", ["connected", "fresh"])
def test_b06a_eight_children_draw_distinct_jitter_and_have_sessions_of_their_own(
    service: str, how: str
) -> None:
    processes = run(service, how)
    assert len({tuple(one["draws"]) for one in processes}) == CHILDREN + 1
    assert len({one["instance"] for one in processes}) == CHILDREN + 1
    assert [one["connected"] for one in processes] == [True] * (CHILDREN + 1)
    assert [one["local"] for one in processes] == [False] * (CHILDREN + 1)
    assert all(one["flushed"] for one in processes)


def test_children_of_a_program_that_uses_grpc_itself_do_not_hang(service: str) -> None:
    """The program itself has a connection of gRPC."""
    parent, *children = run(service, "busy")
    assert parent["connected"] and not parent["local"]
    # Whether gRPC was at work just then is chance; that each call ended is not.
    assert [one["local"] for one in children] == [not one["connected"] for one in children]


@contextlib.contextmanager
def parked(client: holdoff.Client) -> Iterator[None]:
    """As the parent, for other threads, while it forks."""
    client._leave_grpc()
    try:
        yield
    finally:
        client._return_to_grpc()


def is_local(client: holdoff.Client) -> bool:
    return client.call("payments", lambda attempt: attempt.is_local)


@pytest.mark.parametrize("has_sessions", [True, False])
def test_while_the_parent_forks_its_other_threads_decide_alone_at_once(has_sessions: bool) -> None:
    is_asked, may_answer = threading.Event(), threading.Event()

    def answer(request: Any) -> Any:
        if request.dependency == "slow":
            is_asked.set()
            may_answer.wait(30.0)
        return granting(request)

    scripted = Scripted(answer)
    scripted.has_sessions = has_sessions
    with serving(scripted) as endpoint, futures.ThreadPoolExecutor(4) as threads:
        client = holdoff.Client([endpoint], service="forks", timeout=10.0)
        assert client.connect(10.0) and not is_local(client)
        under_way = [
            threads.submit(client.call, "slow", lambda attempt: attempt.is_local) for _ in range(4)
        ]
        assert is_asked.wait(10.0)
        begun = time.monotonic()
        with parked(client):
            assert [call.result(10.0) for call in under_way] == [True] * 4
            assert [is_local(client) for _ in range(5)] == [True] * 5
        may_answer.set()
        assert client.connect(10.0)
        assert not is_local(client), "the service is not blamed"
        assert time.monotonic() - begun < 5.0
        client.close()
