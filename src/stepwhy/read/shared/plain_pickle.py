"""Pickles that hold plain values, read by an interpreter that can build nothing else.

A pickle is a program for a stack machine. Only the instructions for dictionaries, lists, tuples,
strings, numbers, booleans and None are known here; those that import or call something do not
exist, so that no file can run code. A file that ends early gives what was complete by then.

Source: CPython, `Lib/pickletools.py`; PEP 3154; the writer is `torch/csrc/jit/serialization`.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_STOP = ord(".")
# Numbers of fixed width behind an instruction.
_U1, _U2, _U4, _U8 = (struct.Struct(form) for form in ("<B", "<H", "<I", "<Q"))
_I4, _DOUBLE = struct.Struct("<i"), struct.Struct(">d")
_NUMBERS = {b"J": _I4, b"K": _U1, b"M": _U2, b"G": _DOUBLE}
# Strings, whose length comes first.
_TEXTS = {b"X": _U4, b"\x8c": _U1, b"\x8d": _U8, b"U": _U1, b"T": _I4}
_CONSTANTS = {b"N": None, b"\x88": True, b"\x89": False}
_TUPLES = {b"\x85": 1, b"\x86": 2, b"\x87": 3}
# Instructions that name a place in the memo.
_PUTS = {b"q": _U1, b"r": _U4}
_GETS = {b"h": _U1, b"j": _U4}
# What is skipped: the version, and the length of a frame.
_SKIPPED = {b"\x80": 1, b"\x95": 8}


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
        self._effects: list[Callable[[], None]] = [self._refuse] * 256
        for opcode, effect in self._known():
            self._effects[ord(opcode)] = effect

    def _known(self) -> Iterator[tuple[bytes, Callable[[], None]]]:
        """The instructions with what they do; one is found by its byte, as a file has millions."""
        yield b"(", self._mark
        yield b"}", lambda: self._stack.append({})
        yield b"]", lambda: self._stack.append([])
        yield b")", lambda: self._stack.append(())
        yield b"t", lambda: self._stack.append(tuple(self._marked()))
        yield b"a", lambda: self._extend(self._popped(1))
        yield b"e", lambda: self._extend(self._marked())
        yield b"s", lambda: self._update(self._popped(2))
        yield b"u", lambda: self._update(self._marked())
        yield b"\x94", lambda: self._put(len(self._memo))
        yield b"\x8a", self._push_long
        for opcode, value in _CONSTANTS.items():
            yield opcode, partial(self._push, value)
        for opcode, form in _NUMBERS.items():
            yield opcode, partial(self._push_number, form)
        for opcode, form in _TEXTS.items():
            yield opcode, partial(self._push_text, form)
        for opcode, count in _TUPLES.items():
            yield opcode, partial(self._push_tuple, count)
        for opcode, form in _PUTS.items():
            yield opcode, partial(self._put_at, form)
        for opcode, form in _GETS.items():
            yield opcode, partial(self._get_at, form)
        for opcode, count in _SKIPPED.items():
            yield opcode, partial(self._skip, count)

    def run(self) -> None:
        """Follow the instructions to the end.

        Raises:
            UnsafePickleError: One of them does not build a plain value.
            _CutOffError: The end is missing.
        """
        data, effects, size = self._data, self._effects, len(self._data)
        while self._at < size:
            opcode = data[self._at]
            self._at += 1
            if opcode == _STOP:
                return
            effects[opcode]()
        raise _CutOffError

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
            # A key without a value is left out.
            holder = self._stack[-1] if self._stack else None
            if isinstance(holder, list):
                holder.extend(items)
            elif isinstance(holder, dict):
                with suppress(_CutOffError):
                    self._set(holder, items[: len(items) // 2 * 2])
        return self._stack[0] if self._stack else None

    def _refuse(self) -> None:
        place = self._at - 1
        raise UnsafePickleError(self._data[place : place + 1], place)

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _push_number(self, form: struct.Struct) -> None:
        self._stack.append(self._number(form))

    def _push_text(self, form: struct.Struct) -> None:
        self._stack.append(self._take(self._number(form)).decode("utf-8", "replace"))

    def _push_long(self) -> None:
        self._stack.append(int.from_bytes(self._take(self._number(_U1)), "little", signed=True))

    def _push_tuple(self, count: int) -> None:
        self._stack.append(tuple(self._popped(count)))

    def _skip(self, count: int) -> None:
        self._take(count)

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._data):
            raise _CutOffError
        found = self._data[self._at : end]
        self._at = end
        return found

    def _number(self, form: struct.Struct) -> Any:
        end = self._at + form.size
        if end > len(self._data):
            raise _CutOffError
        (found,) = form.unpack_from(self._data, self._at)
        self._at = end
        return found

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

    def _put_at(self, form: struct.Struct) -> None:
        self._put(self._number(form))

    def _get_at(self, form: struct.Struct) -> None:
        place = self._number(form)
        if place not in self._memo:
            raise _CutOffError
        self._stack.append(self._memo[place])
