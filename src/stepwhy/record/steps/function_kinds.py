"""Group calls by function, however often a program wraps the same function again."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING

from stepwhy.record.core.compiled_code import never_compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

# `fit` has its step function in the third closure; deeper ones hold user code of no interest.
_DEPTH = 4
# A loop that makes new functions over new objects would make a kind of each. From this many kinds
# on, only the code distinguishes functions.
_NAMED = 64
# Functions of one closure that are compared; what distinguishes two closures comes first.
_WIDTH = 8


class FunctionKinds:
    """Numbers of kinds, remembered per object while the object is alive.

    Args:
        number: Returns the number of a kind, which is hashable.
    """

    def __init__(self, number: Callable[[object], int]) -> None:
        self._number = number
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._seen = 0

    def of(self, owner: Any, function: Any) -> int:
        """The number of a compiled function; functions with the same code share one.

        Args:
            owner: The compiled function.
            function: The Python function that was compiled.
        """
        known = self._known.get(id(owner))
        if known is not None:
            return known[1]
        depth = _DEPTH if self._seen < _NAMED else -1
        return self.remembered(owner, lambda: code_of(function, depth))

    def of_object(self, owner: Any) -> int:
        """The number of an object without code: one per object, or one per class beyond a limit."""
        kind = type(owner)
        named = self._seen < _NAMED
        return self.remembered(owner, lambda: (kind, self._seen) if named else kind)

    def known(self, owner: Any) -> int | None:
        """The number of an owner's kind; None if it was not seen before."""
        known = self._known.get(id(owner))
        return None if known is None else known[1]

    def reference(self, owner: Any) -> Callable[[], Any] | None:
        """A weak reference to an owner that was seen before; None without."""
        known = self._known.get(id(owner))
        return None if known is None else known[0]

    def remembered(self, owner: Any, kind: Callable[[], object]) -> int:
        """The number of an owner's kind.

        Args:
            owner: Any object.
            kind: Returns its kind; called once while the owner is alive.
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
            return number  # its id could be reused unnoticed
        self._known[key] = (gone, number)
        return number


@never_compiled  # it is called while garbage is collected, which a compiled function may do
def _forget(known: dict[int, Any], key: int, _: object) -> None:
    """Remove an object that was deleted, so that its id may be reused."""
    known.pop(key, None)


def unwrap(function: Any) -> Any:
    """The function inside wrappers, partial applications and callable objects."""
    for _ in range(16):
        inner = getattr(function, "__wrapped__", None) or getattr(function, "func", None)
        if inner is None or not callable(inner):
            break
        function = inner
    if not hasattr(function, "__code__") and not hasattr(function, "__func__"):
        function = getattr(type(function), "__call__", function)  # noqa: B004
    return function


def code_of(function: Any, depth: int = _DEPTH) -> object:
    """Key of a function: its code, its object, and the functions in its closure.

    Args:
        function: A function, bound method, partial application or callable object.
        depth: How many levels of closures count; if negative, only the code counts.
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
    """The values in a function's closure."""
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # not filled yet
