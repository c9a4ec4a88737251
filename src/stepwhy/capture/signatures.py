"""Numbering the kinds of `Session.run` calls by what they fetch and feed."""

from __future__ import annotations

import re
from typing import Any

# A graph that grows fetches new names at every step. From this many kinds on, names that differ
# in a trailing number alone count as one ...
_NAMED = 64
# ... and from this many on, everything new does.
_LIMIT = 512
_COUNTER = re.compile(r"_\d+(?=[:/]|$)")

Key = tuple[Any, ...] | str


def names(structure: Any) -> Key:
    """The names in a nest of fetches or feeds, in order; mappings by their values or feed keys."""
    if isinstance(structure, str):
        return structure
    if isinstance(structure, (list, tuple)):
        return tuple(names(item) for item in structure)
    if isinstance(structure, dict):
        return tuple(names(item) for item in structure.values())
    name = getattr(structure, "name", None)
    return name if isinstance(name, str) else type(structure).__name__


def _without_counters(key: Key) -> Key:
    """The key with `add_17:0` as `add:0`."""
    if isinstance(key, str):
        return _COUNTER.sub("", key)
    return tuple(_without_counters(item) for item in key)


class Signatures:
    """Small numbers for kinds of runs, in order of appearance."""

    def __init__(self) -> None:
        self._numbers: dict[Key, int] = {}

    def number(self, fetches: Any, feeds: Any) -> int:
        """The number of the kind that a run with these fetches and feeds belongs to.

        Args:
            fetches: What `Session.run` takes: an element, or a nest of them.
            feeds: Its feed dictionary, or None.
        """
        key = (names(fetches), tuple(names(feed) for feed in feeds) if feeds else ())
        number = self._numbers.get(key)
        return number if number is not None else self._new(key)

    def _new(self, key: Key) -> int:
        """The number of a kind that has not been seen by this name."""
        if len(self._numbers) >= _NAMED:
            key = _without_counters(key)
        if len(self._numbers) >= _LIMIT:
            key = "others"
        return self._numbers.setdefault(key, len(self._numbers))
