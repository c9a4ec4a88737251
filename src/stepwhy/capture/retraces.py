"""Why a function is traced or compiled again: what differs from the nearest earlier time.

Functions are known by their code, so that one that is made anew in the loop is recognised. Of
values only numbers, booleans and None are told; of tensors their type.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

# What came before is remembered for so many functions, and so many of each one's traces.
_MOST_FUNCTIONS = 512
_MOST_TRACES = 16
_MOST_DIFFERENCES = 3


class Argument(NamedTuple):
    """What a function was traced for, of one argument or one leaf of it.

    Args:
        what: 'tensor', a number as written in Python, or the class of another object.
        dtype: Of a tensor.
        shape: Of a tensor, as text.
        placement: Of a tensor, where that is part of what is compiled.
        identity: Tells objects of one class apart.
    """

    what: str
    dtype: str = ""
    shape: str = ""
    placement: str = ""
    identity: int = 0

    def __str__(self) -> str:
        """What a person reads."""
        return f"{self.dtype} {self.shape}" if self.dtype else self.what


def of_value(value: Any) -> Argument:
    """The argument for a value that is no tensor: traced for itself, not for its type."""
    if value is None or isinstance(value, (bool, int, float, complex)):
        return Argument(repr(value))
    try:
        identity = hash(value)
    except TypeError:
        identity = id(value)
    return Argument(type(value).__name__, identity=identity)


class _Known:
    """What is remembered of a function.

    Attributes:
        count: How often it was traced.
        owner: The last compiled object that was made of it.
        traces: What it was traced for, the latest last.
    """

    __slots__ = ("count", "owner", "traces")

    def __init__(self) -> None:
        self.count = 0
        self.owner: weakref.ref[Any] | None = None
        self.traces: deque[Mapping[str, Argument]] = deque(maxlen=_MOST_TRACES)


class Retraces:
    """Remembers what functions were traced for.

    Args:
        anew: What to say when a new object of the same code is traced for the same arguments.
        unchanged: What to say when the same object is.
    """

    def __init__(self, anew: str, unchanged: str) -> None:
        self._anew = anew
        self._unchanged = unchanged
        self._known: dict[object, _Known] = {}

    def add(
        self, code: object, owner: Any, arguments: Mapping[str, Argument] | None
    ) -> tuple[str, int]:
        """A function is traced.

        Args:
            code: What functions of the same code have in common; hashable.
            owner: The object that is traced; a weak reference is kept.
            arguments: By name, for what; None when that is not known.

        Returns:
            Why, '' for the first time, and how often it was traced.
        """
        known = self._known.get(code)
        if known is None:
            if len(self._known) >= _MOST_FUNCTIONS:
                return "", 1
            known = self._known[code] = _Known()
        same = known.owner is not None and known.owner() is owner
        known.count += 1
        known.owner = _reference(owner)
        if arguments is None:
            return "", known.count
        reason = self._reason(known, arguments, same=same) if known.traces else ""
        if arguments not in known.traces:
            known.traces.append(arguments)
        return reason, known.count

    def _reason(self, known: _Known, arguments: Mapping[str, Argument], *, same: bool) -> str:
        if arguments in known.traces:
            return self._unchanged if same else self._anew
        nearest = min(reversed(known.traces), key=lambda earlier: _distance(earlier, arguments))
        return explain(nearest, arguments)


def _reference(owner: Any) -> weakref.ref[Any] | None:
    """A weak reference; None where an object takes none, which is then always another one."""
    try:
        return weakref.ref(owner)
    except TypeError:
        return None


def _distance(one: Mapping[str, Argument], other: Mapping[str, Argument]) -> int:
    """In how many arguments two traces differ."""
    return sum(one.get(name) != other.get(name) for name in one.keys() | other.keys())


def explain(earlier: Mapping[str, Argument], later: Mapping[str, Argument]) -> str:
    """What differs, in words: 'batch: shape (16, 8) -> (12, 8)'."""
    names = [*later, *(name for name in earlier if name not in later)]
    found = [
        f"{name}: {_difference(earlier.get(name), later.get(name))}"
        for name in names
        if earlier.get(name) != later.get(name)
    ]
    more = len(found) - _MOST_DIFFERENCES
    return "; ".join(found[:_MOST_DIFFERENCES]) + (f"; and {more} more" if more > 0 else "")


def _difference(old: Argument | None, new: Argument | None) -> str:
    """How one argument has changed."""
    if old is None:
        return f"added, {new}"
    if new is None:
        return "no longer given"
    if old.what != new.what or not old.dtype:
        return f"another {new}" if old.what == new.what else f"{old} -> {new}"
    return ", ".join(
        f"{part} {getattr(old, part) or 'anywhere'} -> {getattr(new, part) or 'anywhere'}"
        for part in ("shape", "dtype", "placement")
        if getattr(old, part) != getattr(new, part)
    )
