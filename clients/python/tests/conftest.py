"""Both fronts under one test, and a real service."""

from __future__ import annotations

import asyncio
import inspect
import os
import pathlib
import re
import subprocess
from collections.abc import Iterator
from typing import Any, Callable, Optional

import pytest
from scripted import nowhere

import holdoff
import holdoff.aio

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
BINARY = pathlib.Path(os.environ.get("HOLDOFF_BINARY", REPOSITORY / "target/debug/holdoff"))


class Both:
    """A client of either front, used the same way: what is awaitable is awaited here."""

    def __init__(self, name: str) -> None:
        self.is_aio = name == "aio"
        self._loop = asyncio.new_event_loop() if self.is_aio else None
        self._clients: list[Any] = []

    def client(self, endpoint: Optional[str] = None, **settings: Any) -> Any:
        kind: Any = holdoff.aio.Client if self.is_aio else holdoff.Client
        client = kind([endpoint or nowhere()], service="test", **settings)
        self._clients.append(client)
        return client

    def testing(self) -> Any:
        return (holdoff.aio.Client if self.is_aio else holdoff.Client).testing()

    def do(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._loop is None:
            return function(*args, **kwargs)

        async def awaited() -> Any:
            result = function(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        return self._loop.run_until_complete(awaited())

    def call(self, client: Any, dependency: str, function: Any, **settings: Any) -> Any:
        """`function` is an ordinary one for both."""

        async def awaited(attempt: holdoff.Attempt) -> Any:
            return function(attempt)

        given = awaited if self.is_aio else function
        return self.do(client.call, dependency, given, **settings)

    def close(self) -> None:
        for client in self._clients:
            self.do(client.close)
        if self._loop is not None:
            self._loop.close()


@pytest.fixture(params=["threads", "aio"])
def both(request: pytest.FixtureRequest) -> Iterator[Both]:
    both = Both(request.param)
    yield both
    both.close()


@pytest.fixture
def service(tmp_path: pathlib.Path) -> Iterator[str]:
    """The endpoint of a real service, whose `payments` is checked every 200 ms."""
    policies = tmp_path / "policies.yaml"
    policies.write_text(
        "version: 1\nnamespaces:\n  default:\n    auto_create: true\n    dependencies:\n"
        "      payments:\n        check: {period: 200ms, offset: 0ms, first_within: 200ms,"
        " timeout: 50ms, detection_budget: 10s}\n"
    )
    command = [str(BINARY), "serve", "--listen", "127.0.0.1:0", "--http", "off"]
    process = subprocess.Popen(
        [*command, "--policies", str(policies)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        said = ""
        for line in process.stdout:
            said += line
            found = re.search(r"gRPC on (127\.0\.0\.1:\d+)", line)
            if found:
                yield f"http://{found[1]}"
                break
        else:
            raise AssertionError(f"the service did not start: {said}")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
