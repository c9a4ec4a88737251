"""Number `Session.run` calls by what they fetch and feed, and group them into kinds.

Runs that execute the same operations for their effect (`train_op`) are of one kind, regardless
of what else they fetch: a step that also fetches a summary is a training step like the others.
"""

from __future__ import annotations

import re
import weakref
from typing import Any

# A growing graph fetches new names in every step. From this many kinds on, names that differ only
# in a trailing number count as one ...
_NAMED = 64
# ... and from this many on, all new names do.
_LIMIT = 512
# Nests of fetches and feeds that are cached by identity.
_KNOWN = 256
_COUNTER = re.compile(r"_\d+(?=[:/]|$)")

Key = tuple[Any, ...] | str


def names(structure: Any) -> Key:
    """The names in a nest of fetches or feeds, in order; of mappings, those of the values."""
    if isinstance(structure, str):
        return structure
    if isinstance(structure, (list, tuple)):
        return tuple(names(item) for item in structure)
    if isinstance(structure, dict):
        return tuple(names(item) for item in structure.values())
    name = getattr(structure, "name", None)
    return name if isinstance(name, str) else type(structure).__name__


def _identity(structure: Any) -> Any:
    """The nest with ids in place of objects; strings stay."""
    kind = type(structure)
    if kind is list or kind is tuple:
        return tuple([_identity(item) for item in structure])
    if kind is dict:
        return tuple([_identity(item) for item in structure.values()])
    return structure if kind is str else id(structure)


def _leaves(structure: Any) -> list[Any]:
    """The objects that `_identity` replaces by ids."""
    kind = type(structure)
    if kind is list or kind is tuple:
        return [leaf for item in structure for leaf in _leaves(item)]
    if kind is dict:
        return [leaf for item in structure.values() for leaf in _leaves(item)]
    return [] if kind is str else [structure]


def _without_counters(key: Key) -> Key:
    """The key without trailing numbers: `add_17:0` becomes `add:0`."""
    if isinstance(key, str):
        return _COUNTER.sub("", key)
    return tuple(_without_counters(item) for item in key)


def _operations(key: Key) -> list[str]:
    """The names of operations in a key; names of tensors have an output number."""
    if isinstance(key, str):
        return [] if ":" in key else [key]
    return [name for item in key for name in _operations(item)]


class Signatures:
    """Small numbers for runs and their kinds, in order of appearance.

    Names take microseconds to read, so nests of the same objects are looked up by id. When one of
    the objects is deleted, its id may be reused, and the cache is cleared.
    """

    def __init__(self) -> None:
        self._numbers: dict[Key, tuple[int, int]] = {}
        self._kinds: dict[Key, int] = {}
        self._effects: set[int] = set()
        self._known: dict[Any, tuple[int, int]] = {}
        self._alive: list[weakref.ref[Any]] = []
        # The last object fetched without feeds, and its numbers: most loops have only one.
        self._last_id = 0
        self._last = (0, 0)

    def of(self, fetches: Any, feeds: Any) -> tuple[int, int]:
        """The number of a run's kind, and that of its exact fetches and feeds.

        Args:
            fetches: Argument of `Session.run`: an element, or a nest of them.
            feeds: Its feed dictionary, or None.
        """
        if not feeds and id(fetches) == self._last_id:
            return self._last
        identity = (_identity(fetches), tuple(map(id, feeds)) if feeds else ())
        numbers = self._known.get(identity)
        if numbers is None:
            numbers = self._by_name(fetches, feeds)
            self._remember(identity, numbers, [*_leaves(fetches), *(feeds or ())])
        elif not feeds and identity[0] == id(fetches):
            self._last_id, self._last = id(fetches), numbers
        return numbers

    def has_effect(self, kind: int) -> bool:
        """Whether runs of a kind execute operations for their effect."""
        return kind in self._effects

    def _by_name(self, fetches: Any, feeds: Any) -> tuple[int, int]:
        """Look up the numbers by names."""
        key = (names(fetches), tuple(names(feed) for feed in feeds) if feeds else ())
        numbers = self._numbers.get(key)
        return numbers if numbers is not None else self._new(key)

    def _remember(self, identity: Any, numbers: tuple[int, int], objects: list[Any]) -> None:
        """Cache the numbers of these objects, if their deletion can be detected."""
        if len(self._known) >= _KNOWN:
            self._forget()
        try:
            watched = [weakref.ref(each, self._forget) for each in objects]
        except TypeError:
            return
        # In this order: otherwise a deletion in between could leave ids without objects.
        self._known[identity] = numbers
        self._alive += watched

    def _forget(self, _dead: object = None) -> None:
        """Clear the cache."""
        self._known.clear()
        self._alive = []
        self._last_id = 0

    def _new(self, key: Key) -> tuple[int, int]:
        """Assign the numbers of a run that is new by name."""
        if len(self._numbers) >= _NAMED:
            key = _without_counters(key)
        if len(self._numbers) >= _LIMIT:
            key = "others"
        numbers = self._numbers.get(key)
        if numbers is None:
            operations = () if key == "others" else tuple(sorted(_operations(key[0])))
            kind = self._kinds.setdefault(operations or key, len(self._kinds))
            self._effects.update({kind} if operations else ())
            numbers = self._numbers[key] = kind, len(self._numbers)
        return numbers
