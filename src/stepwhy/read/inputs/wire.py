"""Protobuf's wire format, to recognise messages and to repair torn ones.

The messages themselves are parsed by `google.protobuf`, which rejects torn messages completely.

Source: "Encoding" in the Protocol Buffers documentation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator

    Data = bytes | mmap.mmap

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5

Nested: TypeAlias = "dict[int, Nested]"
"""Fields of a message that are messages to repair, too, by field number."""


class Field(NamedTuple):
    """Location of a field; `end` is beyond the end of a torn message."""

    number: int
    is_message: bool
    key: int
    start: int
    end: int


def fields(data: Data, start: int = 0, end: int | None = None) -> Iterator[Field]:
    """Fields of a message, up to the first one that is not valid wire format.

    Args:
        data: Bytes that contain the message.
        start: Offset of its start.
        end: Offset of its end; by default the end of `data`.
    """
    end = len(data) if end is None else end
    position = start
    while position < end:
        field = _field_at(data, position, end)
        if field is None:
            return
        yield field
        position = field.end


def dig(data: bytes, *path: int) -> Iterator[bytes]:
    """Payloads of all fields under a path of field numbers, in order."""
    if not path:
        yield data
        return
    for field in fields(data):
        if field.number == path[0] and field.is_message:
            yield from dig(data[field.start : field.end], *path[1:])


def integer(data: Data, field: Field) -> int | None:
    """Value of a varint field; None if it is torn or of another type."""
    value = _read_varint(data, field.start, len(data))
    is_whole = value is not None and not field.is_message and value[1] == field.end
    return value[0] if value is not None and is_whole else None


def close_torn(data: bytes, nested: Nested) -> bytes:
    """Repair a torn message: keep the fields that are complete.

    Args:
        data: A message whose end may be missing.
        nested: Fields that are kept in part, each with its own such fields.
    """
    position = 0
    for field in fields(data):
        if field.end > len(data):
            inner = nested.get(field.number) if field.is_message else None
            if inner is None:
                break
            body = close_torn(data[field.start :], inner)
            return (
                data[:position] + _varint(field.number << 3 | _LENGTH) + _varint(len(body)) + body
            )
        position = field.end
    return data[:position]


def _field_at(data: Data, position: int, end: int) -> Field | None:
    tag = _read_varint(data, position, end)
    if tag is None or tag[0] >> 3 == 0:
        return None
    value, start = tag
    wire = value & 7
    if wire == _VARINT:
        number = _read_varint(data, start, end)
        return Field(value >> 3, False, position, start, number[1] if number else end + 1)
    if wire == _LENGTH:
        length = _read_varint(data, start, end)
        if length is None:
            return Field(value >> 3, True, position, start, end + 1)
        return Field(value >> 3, True, position, length[1], length[1] + length[0])
    size = {_FIXED64: 8, _FIXED32: 4}.get(wire)
    return None if size is None else Field(value >> 3, False, position, start, start + size)


def _read_varint(data: Data, position: int, end: int) -> tuple[int, int] | None:
    """Value of a varint and the position after it; None if it is longer than ten bytes."""
    value = 0
    for shift in range(10):
        if position + shift >= end:
            return None
        byte = data[position + shift]
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, position + shift + 1
    return None


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
