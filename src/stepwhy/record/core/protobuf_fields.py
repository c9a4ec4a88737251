"""Fields of a protobuf file around given positions, without its schema.

Only the headers of fields are decoded: those before a position are skipped by their lengths, and
those that contain it are entered. Memory does not grow with the file.

Source: "Encoding" in the Protocol Buffers documentation.
"""

from __future__ import annotations

import codecs
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    Range = tuple[int, int]

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_VARINT = 10
_LONGEST_HEADER = 2 * _LONGEST_VARINT
_LARGEST_NUMBER = (1 << 29) - 1
_BLOCK_BYTES = 1 << 15
# So many fields in ascending order are no coincidence.
_ENOUGH_FIELDS = 256
_HEAD_BYTES = 1 << 12
_INVALID = "Not valid protobuf wire format"
# Text may contain line breaks and tabs but does not start with one; a message with field 1 does,
# because the tag of that field is a line break.
_NOT_TEXT = re.compile(rb"\A[\t\n\r]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class LeafFields:
    """Length-delimited fields that hold no further message: strings and bytes.

    The wire format does not distinguish strings from messages. A field counts as a message if its
    content parses as fields in ascending order, as serialisers write them, and is not text. A
    message with a field below 4 is never text: the tags of these fields are control characters.

    Args:
        handle: Descriptor of the file, open for reading.
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._block, self._block_start = b"", 0
        # Messages around the last position, outermost first: their next field, and their end.
        self._messages: list[Range] = [(0, os.fstat(handle).st_size)]

    def overlapping(self, start: int, end: int) -> list[Range]:
        """Start and end of the payload of each leaf field that overlaps a range, in order.

        Args:
            start: Offset in the file, not less than in the previous call.
            end: Offset of the end of the range.

        Raises:
            ValueError: If the file is not valid wire format there.
        """
        self._seek(start)
        messages = list(self._messages)
        for outer in range(len(messages) - 1):
            messages[outer] = (messages[outer + 1][1], messages[outer][1])
        found = []
        while messages and messages[-1][0] < end:
            position, message_end = messages.pop()
            if position == message_end:
                continue
            _, payload, field_end = self._field(position, message_end)
            messages.append((field_end, message_end))
            if payload < min(field_end, end):
                if self._is_message(payload, field_end):
                    messages.append((payload, field_end))
                else:
                    found.append((payload, field_end))
        return found

    def _seek(self, place: int) -> None:
        """Update `_messages` to end with the innermost message around a place."""
        while len(self._messages) > 1 and self._messages[-1][1] <= place:
            self._messages.pop()
        while True:
            payload, field_end = self._skip_to(place)
            if not payload <= place or not self._is_message(payload, field_end):
                return
            self._messages.append((payload, field_end))

    def _skip_to(self, place: int) -> Range:
        """Skip the fields of the innermost message that end before a place.

        Returns:
            Payload and end of the field there.
        """
        position, message_end = self._messages[-1]
        try:
            _, payload, field_end = self._field(position, message_end)
            while field_end <= place:
                position = self._skip_short(field_end, place)
                _, payload, field_end = self._field(position, message_end)
        finally:
            self._messages[-1] = (position, message_end)
        return payload, field_end

    def _skip_short(self, position: int, place: int) -> int:
        """Quickly skip length-delimited fields with a header of two bytes, the most frequent ones.

        Returns:
            Offset of the first field that is different, or that ends after a place or the block.
        """
        block, at = self._block, position - self._block_start
        last = min(place - self._block_start, len(block) - _LONGEST_HEADER)
        field_end = at
        while field_end <= last:
            at = field_end
            length = block[at + 1]
            if block[at] & 0x87 != _LENGTH or length > 0x7F:
                break
            field_end = at + 2 + length
        return self._block_start + at

    def _is_message(self, start: int, end: int) -> bool:
        if self._is_text(start, end):
            return False
        position, previous = start, 0
        for _ in range(_ENOUGH_FIELDS):
            try:
                number, _, position = self._field(position, end)
            except ValueError:
                return False
            if number < previous or position == end:
                return number >= previous
            previous = number
        return True

    def _is_text(self, start: int, end: int) -> bool:
        """Whether the head of a payload is UTF-8 without control characters."""
        head = os.pread(self._handle, min(end - start, _HEAD_BYTES), start)
        if _NOT_TEXT.search(head):
            return False
        try:
            # The last character of the head may be cut.
            codecs.getincrementaldecoder("utf-8")().decode(head, len(head) == end - start)
        except UnicodeDecodeError:
            return False
        return True

    def _field(self, position: int, message_end: int) -> tuple[int, int, int]:
        """Number, payload and end of the field at a position.

        A field that is not length-delimited has an empty payload at its end.

        Raises:
            ValueError: If there is no valid field, or it ends after its message.
        """
        at = position - self._block_start
        if not 0 <= at <= len(self._block) - _LONGEST_HEADER:
            self._block = os.pread(self._handle, _BLOCK_BYTES, position)
            self._block_start, at = position, 0
        tag, at = _varint(self._block, at)
        wire, length = tag & 7, 0
        if wire == _LENGTH:
            length, at = _varint(self._block, at)
        elif wire == _VARINT:
            _, at = _varint(self._block, at)
        elif wire in _FIXED_BYTES:
            at += _FIXED_BYTES[wire]
        else:
            raise ValueError(_INVALID)
        payload = self._block_start + at
        if not 0 < tag >> 3 <= _LARGEST_NUMBER or payload + length > message_end:
            raise ValueError(_INVALID)
        return tag >> 3, payload, payload + length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Value of a varint, and where it ends."""
    value = 0
    for index, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise ValueError(_INVALID)
