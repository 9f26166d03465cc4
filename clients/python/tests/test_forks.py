"""Children of `fork`: draws of their own, sessions of their own, and no call that hangs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

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
