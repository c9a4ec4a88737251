"""Which calls are of one kind: those of one function, however often it is wrapped anew."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

# `fit` keeps the step in the third closure; deeper ones hold user code that says nothing new.
_DEPTH = 4
# Functions made anew in the loop, over objects made anew, would each be a kind of its own. From
# this many kinds on, the code alone tells them apart.
_NAMED = 64
# Of one closure; what tells functions apart comes first or not at all.
_WIDTH = 8


class Kinds:
    """Remembers the number of each object's kind as long as the object lives.

    Args:
        number: Gives a kind, which is hashable, its number.
    """

    def __init__(self, number: Callable[[object], int]) -> None:
        self._number = number
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._seen = 0

    def of(self, owner: Any, function: Any) -> int:
        """The number of a compiled function; functions made from the same code share it.

        Args:
            owner: The compiled function.
            function: The Python function that it was made from.
        """
        known = self._known.get(id(owner))
        if known is not None:
            return known[1]
        depth = _DEPTH if self._seen < _NAMED else -1
        return self.remembered(owner, lambda: code_of(function, depth))

    def of_object(self, owner: Any) -> int:
        """The number of an object that is not made from code: one per object, or per class."""
        kind = type(owner)
        named = self._seen < _NAMED
        return self.remembered(owner, lambda: (kind, self._seen) if named else kind)

    def known(self, owner: Any) -> int | None:
        """The number of an owner's kind, when it was seen before."""
        known = self._known.get(id(owner))
        return None if known is None else known[1]

    def remembered(self, owner: Any, kind: Callable[[], object]) -> int:
        """The number of an owner's kind.

        Args:
            owner: Any object.
            kind: Finds its kind; called once as long as the owner lives.
        """
        key = id(owner)
        known = self._known.get(key)
        if known is not None:
            return known[1]
        self._seen += 1
        number = self._number(kind())
        try:
            gone = weakref.ref(owner, functools.partial(_forget, self._known, key))
        except TypeError:
            return number  # nothing would tell when its id is free again
        self._known[key] = (gone, number)
        return number


def _forget(known: dict[int, Any], key: int, _: object) -> None:
    """The object is gone, and its id is free for another one."""
    known.pop(key, None)


def unwrap(function: Any) -> Any:
    """The function that wrappers, partial applications and callable objects lead to."""
    for _ in range(16):
        inner = getattr(function, "__wrapped__", None) or getattr(function, "func", None)
        if inner is None or not callable(inner):
            break
        function = inner
    if not hasattr(function, "__code__") and not hasattr(function, "__func__"):
        function = getattr(type(function), "__call__", function)  # noqa: B004
    return function


def code_of(function: Any, depth: int = _DEPTH) -> object:
    """What tells a function from others: its code, its object, and the functions it encloses.

    Args:
        function: A function, bound method, partial application or callable object.
        depth: How many closures deep to look; below 0 the code alone counts.
    """
    owner = getattr(function, "__self__", None)
    plain = unwrap(function)
    code = getattr(plain, "__code__", None)
    if code is None:
        return type(function).__qualname__
    if depth < 0:
        return code
    inner = tuple(code_of(each, depth - 1) for each in _enclosed(plain)) if depth else ()
    return (code, id(owner) if owner is not None else None, inner)


def _enclosed(function: Any) -> list[Any]:
    """The functions in a function's closure."""
    contents = (getattr(each, "_python_function", each) for each in enclosed(function))
    return [c for c in contents if hasattr(c, "__code__") or hasattr(c, "__func__")][:_WIDTH]


def enclosed(function: Any) -> Iterator[Any]:
    """What a function's closure holds."""
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # not filled yet
