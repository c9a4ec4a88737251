"""Rows of step statistics: activity of ops, of device streams, or summaries of streams.

Source: `device_tracer.cc` (row names ``/device:GPU:0/stream:7<MemcpyH2D>``, ``/stream:all``,
``/memcpy``, ``/sync``; old releases write ``/gpu:0/stream:7``) and `step_stats_collector.cc`.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

import msgspec

from stepwhy.base.patterns import regex
from stepwhy.read.shared.tensorflow.device_spec import DeviceSpec, canonical, parse_device
from stepwhy.trace import NULL, Copy, DeviceKind

_ACTIVITY = regex(
    r"(?P<device>.*)/(?:stream:(?P<stream>\d*|all)(?:<(?P<what>\w+)>)?|(?P<other>memcpy|sync))"
)

_KINDS = {
    "CPU": DeviceKind.CPU,
    "XLA_CPU": DeviceKind.CPU,
    "GPU": DeviceKind.GPU,
    "TPU": DeviceKind.TPU,
}

_COPIES = {
    "MemcpyH2D": Copy.H2D,
    "MemcpyD2H": Copy.D2H,
    "MemcpyD2D": Copy.D2D,
    "MemcpyP2P": Copy.PEER,
}


class RowKind(Enum):
    """What the entries of a row are."""

    OPS = "ops"  # ops as the executor scheduled them
    STREAM = "stream"  # device activity of one stream
    ALL_STREAMS = "all streams"  # summary: kernels of all streams
    COPIES = "copies"  # summary: copies of all streams
    SYNC = "sync"  # host threads that wait for the device


class Row(msgspec.Struct, frozen=True):
    """One row.

    Args:
        kind: What its entries are.
        device: Canonical name of the device.
        device_kind: Kind of the device.
        stream: Number of the stream; NULL if the name has none.
        copy: Direction of its copies; NONE if the name has none.
    """

    kind: RowKind
    device: str
    device_kind: DeviceKind
    stream: int = NULL
    copy: Copy = Copy.NONE


@lru_cache(maxsize=1024)
def parse_row(name: str) -> Row | None:
    """Parse a device name of step statistics; None if it names no row."""
    match = _ACTIVITY.fullmatch(name)
    spec = parse_device(match["device"] if match else name)
    if spec is None or not spec.type or (match is None and not spec.index):
        return None
    device, kind = canonical(spec), device_kind(spec)
    if match is None:
        return Row(RowKind.OPS, device, kind)
    if match["other"]:
        return Row(RowKind.SYNC if match["other"] == "sync" else RowKind.COPIES, device, kind)
    if match["stream"] == "all":
        return Row(RowKind.ALL_STREAMS, device, kind)
    stream = int(match["stream"]) if match["stream"] and len(match["stream"]) < 18 else NULL
    return Row(RowKind.STREAM, device, kind, stream, _COPIES.get(match["what"] or "", Copy.NONE))


def device_kind(spec: DeviceSpec) -> DeviceKind:
    """Kind of a device, by its type."""
    return _KINDS.get(spec.type, DeviceKind.OTHER)
