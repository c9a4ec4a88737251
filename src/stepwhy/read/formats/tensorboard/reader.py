"""TensorBoard's event files: the fill levels of TensorFlow 1 queues, and how long steps took.

`tf.train.batch` and its kin summarise how full their queues are, `StepCounterHook` and estimators
how many steps a second they make. Everything else in the file is left alone. Levels are as rare as
summaries: one every hundred steps, or every two minutes.

Source: `record_writer.cc` and `hash/crc32c.h` of TensorFlow for the framing, `event.proto`,
`summary.proto`; `input.py` for the tags of queues, `basic_session_run_hooks.py` for that of steps.
"""

from __future__ import annotations

import math
import struct
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.base.errors import EmptyInputError
from stepwhy.base.patterns import regex
from stepwhy.read.inputs.source import let_go
from stepwhy.read.shared.several_files import count_joined
from stepwhy.read.shared.tensorflow.messages import parse_message
from stepwhy.trace import Meta, TraceBuilder

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator
    from typing import Any

    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Health, Trace

    Data = bytes | mmap.mmap

_HEADER = struct.Struct("<QI")
_FOOTER_BYTES = 4
# Bytes of a mapped file that stay in memory behind the record that is read.
_HELD = 1 << 22
_FLOAT = struct.Struct("<f")
_VERSION = b"brain.Event:"
# Older releases put all of them under 'queue/'. What a shuffling queue keeps back is not in the
# fraction: 'over 200 of 192 full' is a queue of 392.
_LEVEL = regex(
    r"(?:queue/)?(?P<queue>.*?)/*fraction_(?:of_(?P<capacity>\d+)|"
    r"over_(?P<reserve>\d+)_of_(?P<room>\d+))_full(?:_\d+)?"
)
_RATE = regex(r"(?:.*/)?global_step/sec")
_NS_PER_S, _US_PER_S = 1e9, 1e6
# Times beyond this would leave int64 when added up; rates beyond it are no steps of a training.
_LATEST_S = 4e9
_LONGEST_STEP_S = 1e6


class _Scalar(NamedTuple):
    """One value of one summary."""

    time_ns: int
    tag: str
    value: float


_MOST_QUEUES = 4096  # an input has a few


class _Queue(NamedTuple):
    """A queue, from the tag of its fill level."""

    name: str
    capacity: int
    reserve: int


def recognise(source: Source) -> bool:
    """Whether the file begins with the record of an event file's version."""
    head = source.head
    if len(head) < _HEADER.size:
        return False
    length, checksum = _HEADER.unpack_from(head)
    return checksum == _masked_crc(head[:8]) and _VERSION in head[_HEADER.size :][: min(length, 64)]


def read(source: Source) -> Trace:
    """The fill levels and step times of an event file.

    Raises:
        EmptyInputError: It holds neither.
    """
    builder = TraceBuilder()
    stepped = False
    queues: set[str] = set()
    for scalar in _scalars(source.mapped, builder.health):
        queue = _queue(scalar.tag)
        if queue is not None and (queue.name in queues or len(queues) < _MOST_QUEUES):
            queues.add(queue.name)
            _add_level(builder, scalar, queue)
        elif queue is not None:
            _count_queue(builder.health)
        else:
            stepped |= _add_step(builder, scalar)
    signals = frozenset({"summaries"})
    meta = Meta("tensorboard", "tensorflow", signals=signals, notes=_notes(stepped=stepped))
    trace = builder.finish(meta)
    if not len(trace.levels) and not len(trace.marks):
        raise EmptyInputError(
            f"{source.origin} is a TensorBoard event file without fill levels of queues and "
            "without global_step/sec",
            "Record the run with 'stepwhy run', or give the framework's own trace of it",
        )
    return trace


def _notes(*, stepped: bool) -> tuple[str, ...]:
    if not stepped:
        return ("The fill levels are those that the training's own summaries hold.",)
    return (
        "Step times are means between two summaries (global_step/sec), so single steps vary more.",
    )


def _add_level(builder: TraceBuilder, scalar: _Scalar, queue: _Queue) -> None:
    room = queue.capacity - queue.reserve
    if not 0 <= scalar.value <= 1:
        _drop(builder.health, "A fill level outside 0..1 was left out.")
        return
    builder.add(
        "levels",
        time_ns=scalar.time_ns,
        queue=builder.intern(queue.name),
        kind=builder.intern("tf1-queue"),
        value=queue.reserve + round(scalar.value * room),
        capacity=queue.capacity,
        reserve=queue.reserve,
    )
    builder.health.events_kept += 1


def _count_queue(health: Health) -> None:
    health.count(
        "queue-left-out",
        "warning",
        f"Fill levels of queues beyond the first {_MOST_QUEUES:,} were left out.",
        dropped=True,
    )


def _add_step(builder: TraceBuilder, scalar: _Scalar) -> bool:
    """Add the mean step before a summary; whether that was possible."""
    if not 1 / _LONGEST_STEP_S <= scalar.value < _NS_PER_S:
        _drop(builder.health, "A rate of steps that no training has was left out.")
        return False
    dur_ns = round(_NS_PER_S / scalar.value)
    builder.add("marks", start_ns=max(scalar.time_ns - dur_ns, 0), dur_ns=dur_ns, profiled=0)
    builder.health.events_kept += 1
    return True


def _drop(health: Health, text: str) -> None:
    health.count("value-out-of-range", "warning", text, dropped=True)


def _queue(tag: str) -> _Queue | None:
    """Parse the tag of a fill level; None if it is another tag."""
    match = _LEVEL.fullmatch(tag)
    if match is None:
        return None
    reserve = int(match["reserve"] or 0)
    capacity = int(match["capacity"] or 0) or reserve + int(match["room"] or 0)
    is_known = reserve < capacity < 1 << 62
    return _Queue(match["queue"] or "queue", capacity, reserve) if is_known else None


def _scalars(data: Data, health: Health) -> Iterator[_Scalar]:
    """The scalars of queues and steps, in the order of the file; others are not counted."""
    versions = 0
    for record in _records(data, health):
        event = parse_message("Event", record)
        versions += event is not None and bool(event.file_version)
        if event is None:
            health.count(
                "record-damaged",
                "warning",
                "A record that is no event was left out.",
                dropped=False,
            )
            continue
        if not 0 < event.wall_time < _LATEST_S:
            continue
        for value in event.summary.value:
            tag = value.tag.decode("utf-8", "replace")
            if _queue(tag) is None and not _RATE.fullmatch(tag):
                continue
            health.events_read += 1
            # A double resolves some tenths of a microsecond today.
            yield _Scalar(round(event.wall_time * _US_PER_S) * 1000, tag, _value(value))
    count_joined(health, max(versions - 1, 0))


def _value(value: Any) -> float:
    """A scalar as TensorFlow 1 writes it, or as a tensor of one float; NaN when it is neither."""
    if not value.HasField("tensor"):
        return float(value.simple_value)
    if len(value.tensor.float_val) == 1:
        return float(value.tensor.float_val[0])
    content = value.tensor.tensor_content
    return float(_FLOAT.unpack(content)[0]) if len(content) == _FLOAT.size else math.nan


def _records(data: Data, health: Health) -> Iterator[bytes]:
    """The records of a file up to its end or to where its framing is damaged."""
    position = let_go_from = 0
    while position < len(data):
        if position - let_go_from > _HELD:
            let_go(data, let_go_from, position)
            let_go_from = position
        start = position + _HEADER.size
        if start > len(data):
            return _torn(health)
        length, checksum = _HEADER.unpack_from(data, position)
        if checksum != _masked_crc(data[position : position + 8]):
            health.count(
                "framing-damaged",
                "error",
                "The file is damaged: what comes after that place was not read. Copy it again.",
                dropped=False,
            )
            return None
        if start + length + _FOOTER_BYTES > len(data):
            return _torn(health)
        yield data[start : start + length]
        position = start + length + _FOOTER_BYTES
    return None


def _torn(health: Health) -> None:
    health.count(
        "record-torn",
        "info",
        "The last record was not written to its end: the training was still going, or was killed.",
        dropped=False,
    )


def _masked_crc(data: bytes) -> int:
    """CRC-32C of a few bytes, rotated and shifted as the framing has it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _table()[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    """Remainders of all bytes for the Castagnoli polynomial, bits reversed."""
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)
