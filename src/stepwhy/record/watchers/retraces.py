"""Explain why a function is traced or compiled again, by comparison with the nearest earlier trace.

Functions are identified by their code, so that a function recreated in the loop is recognised.
Explanations contain the values of numbers, booleans and None only, and the types of tensors.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

# Limits of what is remembered: functions, and traces of each.
_MOST_FUNCTIONS = 512
_MOST_TRACES = 16
_MOST_DIFFERENCES = 3


class Argument(NamedTuple):
    """One argument that a function was traced for, or one leaf of it.

    Args:
        what: 'tensor', a number as Python prints it, or the class of another object.
        dtype: Type of a tensor's elements.
        shape: Shape of a tensor, as text.
        placement: Device or sharding of a tensor, if compiled in.
        identity: Distinguishes objects of one class.
    """

    what: str
    dtype: str = ""
    shape: str = ""
    placement: str = ""
    identity: int = 0

    def __str__(self) -> str:
        """The argument as reports show it."""
        return f"{self.dtype} {self.shape}" if self.dtype else self.what


def of_value(value: Any) -> Argument:
    """The argument for a value that is no tensor: traced by value, not by type."""
    if value is None or isinstance(value, (bool, int, float, complex)):
        return Argument(repr(value))
    try:
        identity = hash(value)
    except TypeError:
        identity = id(value)
    return Argument(type(value).__name__, identity=identity)


class _Known:
    """The history of one function.

    Attributes:
        count: Number of traces.
        owner: The last compiled object made of it.
        traces: Arguments of its traces, latest last.
    """

    __slots__ = ("count", "owner", "traces")

    def __init__(self) -> None:
        self.count = 0
        self.owner: weakref.ref[Any] | None = None
        self.traces: deque[Mapping[str, Argument]] = deque(maxlen=_MOST_TRACES)


class Retraces:
    """Remember the arguments that functions were traced for.

    Args:
        new_object: Reason if a new object of the same code is traced for the same arguments.
        unchanged: Reason if the same object is.
    """

    def __init__(self, new_object: str, unchanged: str) -> None:
        self._new_object = new_object
        self._unchanged = unchanged
        self._known: dict[object, _Known] = {}

    def add(
        self, code: object, owner: Any, arguments: Mapping[str, Argument] | None
    ) -> tuple[str, int]:
        """Add a trace of a function.

        Args:
            code: Key that functions with the same code share; hashable.
            owner: The object that is traced; a weak reference is kept.
            arguments: Its arguments by name; None if unknown.

        Returns:
            The reason, '' for the first trace, and the number of traces so far.
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
            return self._unchanged if same else self._new_object
        nearest = min(reversed(known.traces), key=lambda earlier: _distance(earlier, arguments))
        return explain(nearest, arguments)


def _reference(owner: Any) -> weakref.ref[Any] | None:
    """A weak reference; None if the object supports none, and then never equals another."""
    try:
        return weakref.ref(owner)
    except TypeError:
        return None


def _distance(one: Mapping[str, Argument], other: Mapping[str, Argument]) -> int:
    """Number of arguments in which two traces differ."""
    return sum(one.get(name) != other.get(name) for name in one.keys() | other.keys())


def explain(earlier: Mapping[str, Argument], later: Mapping[str, Argument]) -> str:
    """The differences in words: 'batch: shape (16, 8) -> (12, 8)'."""
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
