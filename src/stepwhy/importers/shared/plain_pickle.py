"""Pickles that hold plain values, read by an interpreter that can build nothing else.

A pickle is a program for a stack machine. Only the instructions for dictionaries, lists, tuples,
strings, numbers, booleans and None are known here; those that import or call something do not
exist, so that no file can run code. A file that ends early gives what was complete by then.

Source: CPython, `Lib/pickletools.py`; PEP 3154; the writer is `torch/csrc/jit/serialization`.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

# Instructions with a number of fixed width behind them.
_NUMBERS = {
    b"J": struct.Struct("<i"),
    b"K": struct.Struct("<B"),
    b"M": struct.Struct("<H"),
    b"G": struct.Struct(">d"),
}
# Instructions with a string behind them, whose length comes first.
_TEXTS = {
    b"X": struct.Struct("<I"),
    b"\x8c": struct.Struct("<B"),
    b"\x8d": struct.Struct("<Q"),
    b"U": struct.Struct("<B"),
    b"T": struct.Struct("<i"),
}
_LONG = b"\x8a"
_CONSTANTS = {b"N": None, b"\x88": True, b"\x89": False}
_TUPLES = {b"\x85": 1, b"\x86": 2, b"\x87": 3}
# Instructions that name a place in the memo.
_PUTS = {b"q": struct.Struct("<B"), b"r": struct.Struct("<I")}
_GETS = {b"h": struct.Struct("<B"), b"j": struct.Struct("<I")}
# What is skipped: the version, and the length of a frame.
_SKIPPED = {b"\x80": 1, b"\x95": 8}
_STOP = b"."


class UnsafePickleError(Exception):
    """A pickle with an instruction that builds something else than plain values.

    Args:
        opcode: The instruction.
        place: Its offset in the file.
    """

    def __init__(self, opcode: bytes, place: int) -> None:
        super().__init__(f"instruction {opcode!r} at byte {place}")


class _CutOffError(Exception):
    """The file ends, or makes no sense from here on."""


class Loaded(NamedTuple):
    """What a pickle holds.

    Args:
        value: Its value, as far as it was read; None if nothing was.
        complete: Whether the end of the pickle was reached.
        rest: Bytes that follow the pickle.
    """

    value: Any
    complete: bool
    rest: int = 0


def load_plain(data: bytes) -> Loaded:
    """The value of a pickle; of one that is cut off or damaged, what comes before that.

    Args:
        data: The pickle.

    Raises:
        UnsafePickleError: It is not made of plain values alone.
    """
    machine = _Machine(data)
    try:
        machine.run()
    except _CutOffError:
        return Loaded(machine.close(), complete=False)
    return Loaded(machine.value(), complete=True, rest=machine.rest)


class _Machine:
    """The stack machine.

    Args:
        data: The pickle.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._effects: dict[bytes, Callable[[], None]] = {
            b"(": self._mark,
            b"}": lambda: self._stack.append({}),
            b"]": lambda: self._stack.append([]),
            b")": lambda: self._stack.append(()),
            b"t": lambda: self._stack.append(tuple(self._marked())),
            b"a": lambda: self._extend(self._popped(1)),
            b"e": lambda: self._extend(self._marked()),
            b"s": lambda: self._update(self._popped(2)),
            b"u": lambda: self._update(self._marked()),
            b"\x94": lambda: self._put(len(self._memo)),
        }

    def run(self) -> None:
        """Follow the instructions to the end.

        Raises:
            UnsafePickleError: One of them does not build a plain value.
            _CutOffError: The end is missing.
        """
        while (opcode := self._take(1)) != _STOP:
            self._follow(opcode)

    @property
    def rest(self) -> int:
        """Bytes that were not read."""
        return len(self._data) - self._at

    def value(self) -> Any:
        """The value at the end."""
        return self._stack[-1] if self._stack else None

    def close(self) -> Any:
        """The outermost value, with what its open parts hold so far."""
        while self._below:
            items = self._stack
            self._stack = self._below.pop()
            self._add(items)
        return self._stack[0] if self._stack else None

    def _add(self, items: list[Any]) -> None:
        """Add items to the innermost open container; a key without a value is left out."""
        holder = self._stack[-1] if self._stack else None
        if isinstance(holder, list):
            holder.extend(items)
        elif isinstance(holder, dict):
            with suppress(_CutOffError):
                self._set(holder, items[: len(items) // 2 * 2])

    def _follow(self, opcode: bytes) -> None:
        if opcode in self._effects:
            self._effects[opcode]()
        elif opcode in _GETS:
            self._get(self._number(_GETS[opcode]))
        elif opcode in _PUTS:
            self._put(self._number(_PUTS[opcode]))
        elif opcode in _TUPLES:
            self._stack.append(tuple(self._popped(_TUPLES[opcode])))
        elif opcode in _SKIPPED:
            self._take(_SKIPPED[opcode])
        else:
            self._stack.append(self._literal(opcode))

    def _literal(self, opcode: bytes) -> Any:
        """A constant, a number or a string."""
        if opcode in _CONSTANTS:
            return _CONSTANTS[opcode]
        if opcode in _NUMBERS:
            return self._number(_NUMBERS[opcode])
        if opcode in _TEXTS:
            return self._take(self._number(_TEXTS[opcode])).decode("utf-8", "replace")
        if opcode == _LONG:
            return int.from_bytes(self._take(self._take(1)[0]), "little", signed=True)
        raise UnsafePickleError(opcode, self._at - 1)

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._data):
            raise _CutOffError
        found = self._data[self._at : end]
        self._at = end
        return found

    def _number(self, form: struct.Struct) -> Any:
        return form.unpack(self._take(form.size))[0]

    def _mark(self) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _marked(self) -> list[Any]:
        """Everything since the last mark, which is removed."""
        if not self._below:
            raise _CutOffError
        items, self._stack = self._stack, self._below.pop()
        return items

    def _popped(self, count: int) -> list[Any]:
        if len(self._stack) < count:
            raise _CutOffError
        items = self._stack[-count:]
        del self._stack[-count:]
        return items

    def _extend(self, items: list[Any]) -> None:
        if not self._stack or not isinstance(self._stack[-1], list):
            raise _CutOffError
        self._stack[-1].extend(items)

    def _update(self, items: list[Any]) -> None:
        if not self._stack or not isinstance(self._stack[-1], dict) or len(items) % 2:
            raise _CutOffError
        self._set(self._stack[-1], items)

    def _set(self, holder: dict[Any, Any], items: list[Any]) -> None:
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, (str, int, float, type(None))):
                raise _CutOffError
            holder[key] = value

    def _put(self, place: int) -> None:
        if not self._stack:
            raise _CutOffError
        self._memo[place] = self._stack[-1]

    def _get(self, place: int) -> None:
        if place not in self._memo:
            raise _CutOffError
        self._stack.append(self._memo[place])


__all__ = ["Loaded", "UnsafePickleError", "load_plain"]
