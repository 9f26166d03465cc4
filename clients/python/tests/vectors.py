"""Reads the vectors that all languages share, and holds readers to what they say."""

from __future__ import annotations

import json
import pathlib
from types import SimpleNamespace
from typing import Any, Optional

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "tests" / "vectors"


class Reading(dict):  # type: ignore[type-arg]
    """A JSON object that knows which of its fields were read: a misspelt one checks nothing."""

    def __init__(self, pairs: Any) -> None:
        super().__init__(pairs)
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def whole(self) -> dict[str, Any]:
        """As a plain value, to be compared or taken whole."""
        self.read.update(self)
        for value in self.values():
            if isinstance(value, Reading):
                value.whole()
        return dict(self)


def load(name: str) -> list[Reading]:
    text = (FOLDER / f"{name}.json").read_text()
    vectors = json.loads(text, object_pairs_hook=Reading)["vectors"]
    names = [dict.__getitem__(vector, "name") for vector in vectors]
    assert len(set(names)) == len(names), f"{name}: a name twice"
    return list(vectors)


def assert_all_read(value: Any, at: str = "") -> None:
    if isinstance(value, Reading):
        unread = set(value) - value.read - {"name", "about", "note"}
        assert not unread, f"{at}: nobody read {sorted(unread)}"
        for key, below in value.items():
            assert_all_read(below, f"{at}.{key}")
    elif isinstance(value, list):
        for below in value:
            assert_all_read(below, at)


def optional_ns(text: Optional[str]) -> Optional[int]:
    return None if text is None else int(text)


def as_text(ns: Optional[int]) -> Optional[str]:
    return None if ns is None else str(ns)


def message(fields: dict[str, Any], **defaults: Any) -> Any:
    """A stand-in for a message of the wire, with `HasField`; it also holds what no real message
    can, such as an unknown enum or an unreadable duration.
    """
    if isinstance(fields, Reading):
        fields.whole()
    values = {**defaults, **fields}
    numbers = {name: number(value) for name, value in values.items()}
    has = {name for name, value in fields.items() if value is not None}
    return SimpleNamespace(**numbers, HasField=lambda name: name in has)


def number(value: Any) -> Any:
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, dict) and set(value) == {"seconds", "nanos"}:
        return SimpleNamespace(seconds=int(value["seconds"]), nanos=value["nanos"])
    return value
