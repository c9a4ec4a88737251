"""Extreme traces in stepwhy's own formats: stored ones, and exported timelines."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.show.export.chrome_trace import write_chrome_trace
from stepwhy.trace import DeviceKind, Kind, Meta, Role, TraceBuilder
from stepwhy.trace.store import save

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.trace import Trace

    Fill = Callable[[TraceBuilder, int], None]


def _many(builder: TraceBuilder, count: int, kind: Kind, name: str) -> None:
    track = builder.track(Role.HOST_THREAD, "thread", process=1, thread=1)
    columns = {"track": track, "kind": int(kind), "name": builder.intern(name), "dur_ns": 9}
    builder.slices_from(
        {
            "start_ns": np.arange(count, dtype=np.int64) * 10,
            **{key: np.broadcast_to(np.int64(value), count) for key, value in columns.items()},
        }
    )


def _slices(builder: TraceBuilder, count: int) -> None:
    _many(builder, count, Kind.OP, "aten::mm")


def _steps(builder: TraceBuilder, count: int) -> None:
    _many(builder, count, Kind.STEP, "step")


def _devices(builder: TraceBuilder, count: int) -> None:
    for number in range(count):
        device = builder.device(f"GPU:{number}", DeviceKind.GPU)
        track = builder.track(Role.STREAM, "stream", process=1, thread=number, device=device)
        builder.slice(track, Kind.KERNEL, "kernel", number, 5)


def _threads(builder: TraceBuilder, count: int) -> None:
    for number in range(count):
        track = builder.track(Role.HOST_THREAD, "thread", process=1, thread=number)
        builder.slice(track, Kind.OP, "aten::mm", number, 5)


def _names(builder: TraceBuilder, count: int) -> None:
    track = builder.track(Role.HOST_THREAD, "thread", process=1, thread=1)
    for number in range(count):
        builder.slice(track, Kind.OP, f"op{number * 7919}", 10 * number, 5)


def _built(fill: Fill, count: int, write: Callable[[Trace, Path], None]) -> bytes:
    builder = TraceBuilder()
    fill(builder, count)
    builder.health.events_read = builder.health.events_kept = count
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace")
        write(builder.finish(Meta("kineto")), path)
        return path.read_bytes()


def _of(
    fill: Fill, bytes_per_slice: float, write: Callable[[Trace, Path], None]
) -> Callable[[int], bytes]:
    return lambda size: _built(fill, max(int(size / bytes_per_slice), 1), write)


STORE: dict[str, Callable[[int], bytes]] = {
    "slices": _of(_slices, 3.3, save),
    "steps": _of(_steps, 3.3, save),
    "devices": _of(_devices, 22, save),
    "threads": _of(_threads, 11, save),
    "names": _of(_names, 12, save),
}

EXPORTED: dict[str, Callable[[int], bytes]] = {
    "slices": _of(_slices, 195, write_chrome_trace),
    "steps": _of(_steps, 193, write_chrome_trace),
    "devices": _of(_devices, 458, write_chrome_trace),
    "threads": _of(_threads, 271, write_chrome_trace),
    "names": _of(_names, 105, write_chrome_trace),
}
