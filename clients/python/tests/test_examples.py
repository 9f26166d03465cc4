"""Each example runs to its end, with the service and without."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"
NAMES = ["quickstart", "guarded_call", "two_step", "testing_mode"]


def run(name: str, *arguments: str) -> str:
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_these_are_all_examples() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs_without_a_service(name: str) -> None:
    said = run(name, "http://127.0.0.1:9")
    assert "the service is there" not in said and said


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs_with_a_service(name: str, service: str) -> None:
    said = run(name, service)
    if name == "two_step":
        assert "the service is there" in said
    elif name == "guarded_call":
        assert "1000 calls: 1000 without a hop, 0 asked, 0 decided here" in said
