"""Mutations of TensorBoard's event files: of events, and of the frames that they come in.

Source: `record_writer.cc` of TensorFlow.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from fuzz.mutate.havoc import havoc
from fuzz.mutate.wire import mutate_wire
from stepwhy.read.formats.tensorboard.reader import _masked_crc

if TYPE_CHECKING:
    from random import Random

_HEADER = struct.Struct("<QI")
_FOOTER_BYTES = 4
_LENGTHS = (0, 1, 2**31, 2**32, 2**62, 2**63, 2**64 - 1, 2**64 - 16)


def mutate_records(data: bytes, random: Random) -> bytes:
    """Some events changed, in frames that are whole, or frames that are not."""
    events = _events(data)
    if not events:
        return havoc(data, random)
    for _ in range(1 + random.randrange(3)):
        at = random.randrange(len(events))
        how = random.randrange(6)
        if how == 0:
            events.insert(at, events[at])
        elif how == 1 and len(events) > 1:
            del events[at]
        else:
            events[at] = mutate_wire(events[at], random)
    frames = [frame(event) for event in events]
    if random.random() < 0.2:
        at = random.randrange(len(frames))
        frames[at] = _damaged(frames[at], random)
    return b"".join(frames)


def _events(data: bytes) -> list[bytes]:
    events, at = [], 0
    while at + _HEADER.size <= len(data):
        start = at + _HEADER.size
        end = start + _HEADER.unpack_from(data, at)[0]
        events.append(data[start:end])
        at = end + _FOOTER_BYTES
    return events


def frame(event: bytes, length: int | None = None) -> bytes:
    """A record with the right checksum of its length, whatever that is."""
    written = struct.pack("<Q", len(event) if length is None else length)
    return written + struct.pack("<I", _masked_crc(written)) + event + bytes(_FOOTER_BYTES)


def _damaged(whole: bytes, random: Random) -> bytes:
    if random.random() < 0.5:
        return havoc(whole, random)
    return frame(whole[_HEADER.size : -_FOOTER_BYTES], random.choice(_LENGTHS))
