"""Numbering the kinds of `Session.run` calls by what they fetch and feed."""

from __future__ import annotations

import re
import weakref
from typing import Any

# A graph that grows fetches new names at every step. From this many kinds on, names that differ
# in a trailing number alone count as one ...
_NAMED = 64
# ... and from this many on, everything new does.
_LIMIT = 512
# Nests of fetches and feeds that are known by their objects.
_KNOWN = 256
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


def _identity(structure: Any) -> Any:
    """The nest with ids in place of its objects; strings stand for themselves."""
    kind = type(structure)
    if kind is list or kind is tuple:
        return tuple([_identity(item) for item in structure])
    if kind is dict:
        return tuple([_identity(item) for item in structure.values()])
    return structure if kind is str else id(structure)


def _leaves(structure: Any) -> list[Any]:
    """The objects that `_identity` knows by their ids."""
    kind = type(structure)
    if kind is list or kind is tuple:
        return [leaf for item in structure for leaf in _leaves(item)]
    if kind is dict:
        return [leaf for item in structure.values() for leaf in _leaves(item)]
    return [] if kind is str else [structure]


def _without_counters(key: Key) -> Key:
    """The key with `add_17:0` as `add:0`."""
    if isinstance(key, str):
        return _COUNTER.sub("", key)
    return tuple(_without_counters(item) for item in key)


class Signatures:
    """Small numbers for kinds of runs, in order of appearance.

    Names cost microseconds, so that a nest of the same objects is looked up by their ids. An id
    says nothing once its object has died: what is known is forgotten then.
    """

    def __init__(self) -> None:
        self._numbers: dict[Key, int] = {}
        self._known: dict[Any, int] = {}
        self._alive: list[weakref.ref[Any]] = []

    def number(self, fetches: Any, feeds: Any) -> int:
        """The number of the kind that a run with these fetches and feeds belongs to.

        Args:
            fetches: What `Session.run` takes: an element, or a nest of them.
            feeds: Its feed dictionary, or None.
        """
        identity = (_identity(fetches), tuple(map(id, feeds)) if feeds else ())
        number = self._known.get(identity)
        if number is None:
            number = self._by_name(fetches, feeds)
            self._remember(identity, number, [*_leaves(fetches), *(feeds or ())])
        return number

    def _by_name(self, fetches: Any, feeds: Any) -> int:
        """The number, by the names."""
        key = (names(fetches), tuple(names(feed) for feed in feeds) if feeds else ())
        number = self._numbers.get(key)
        return number if number is not None else self._new(key)

    def _remember(self, identity: Any, number: int, objects: list[Any]) -> None:
        """Know these objects from here on, if their death can be noticed."""
        if len(self._known) >= _KNOWN:
            self._forget()
        try:
            watched = [weakref.ref(each, self._forget) for each in objects]
        except TypeError:
            return
        # In this order: were it the other one, a death in between could leave ids without objects.
        self._known[identity] = number
        self._alive += watched

    def _forget(self, _dead: object = None) -> None:
        """Know no object any more."""
        self._known.clear()
        self._alive = []

    def _new(self, key: Key) -> int:
        """The number of a kind that has not been seen by this name."""
        if len(self._numbers) >= _NAMED:
            key = _without_counters(key)
        if len(self._numbers) >= _LIMIT:
            key = "others"
        return self._numbers.setdefault(key, len(self._numbers))
