"""XPlane profiles (`.xplane.pb`) of TensorFlow 2, Keras and JAX, on CPU, GPU and TPU.

`tf.profiler.experimental`, the TensorBoard callback and `jax.profiler.start_trace` write one file
per host: an XSpace of planes (a device, the host, the session), their lines (streams, threads)
and events. Times are picoseconds from the start of a line, lines count from the session's start.

Source: tsl/profiler/protobuf/xplane.proto, tsl/profiler/utils/xplane_schema.cc.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stepwhy.errors import EmptyInputError
from stepwhy.importers.tensorflow.wire import dig
from stepwhy.importers.xplane.devices import add_device, device_name, steps_of
from stepwhy.importers.xplane.host import HostReader
from stepwhy.importers.xplane.planes import read_planes
from stepwhy.importers.xplane.run import (
    count_missing,
    meta_of,
    session_start_ns,
    used_devices,
)
from stepwhy.importers.xplane.table import SliceTable
from stepwhy.trace import Kind, Role, TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.importers.source import Source
    from stepwhy.importers.xplane.planes import Plane
    from stepwhy.trace import Trace

FORMAT = "xplane"

_PLANE = re.compile(rb"/(?:host|device):[\w-]+(?::\d+)?.{0,80}|Task Environment|#\w[^\n]{0,80}")
# Calls of the device API and Python frames can stand on planes of their own; the lines' ids tell
# which thread of '/host:CPU' they belong to.
_HOST = re.compile(r"/host:(?:CPU|CUPTI|ROCTRACER|python-tracer|TPU-runtime)\b.*")


def recognise(source: Source) -> bool:
    """Whether the file is an XSpace: its planes are named as the profiler names them."""
    return any(len(name) < 200 and _PLANE.fullmatch(name) for name in dig(source.head, 1, 2))


def read(source: Source) -> Trace | None:
    """Read an XPlane profile; None for one so damaged that not a single event is left.

    Raises:
        CorruptInputError: Nothing of the message can be read.
        EmptyInputError: It holds not a single event that says what ran.
    """
    builder = TraceBuilder()
    planes = read_planes(source, builder.health)
    table = SliceTable(builder, session_start_ns(planes))
    devices = [p for p in planes if device_name(p.name)]
    ran = {device_name(p.name) for p in devices if add_device(table, p)}
    used = used_devices(planes)
    hosts = [p for p in planes if _HOST.fullmatch(p.name)]
    HostReader(table, hosts, has_accelerator=bool(used)).add()
    _leave_out(builder, [p for p in planes if p not in devices and p not in hosts])
    _device_steps(table, devices)
    if not table.kinds and builder.health.has("protobuf-truncated"):
        return None
    if not table.kinds:
        raise EmptyInputError(
            f"{source.origin} is an XPlane profile without an event",
            "Start the profiler before the training steps and stop it after them",
        )
    missing = used - ran if ran else set()
    count_missing(builder.health, missing)
    table.sizes_from_calls()
    meta = meta_of(FORMAT, planes, table, used, missing)
    table.finish()
    return builder.finish(meta)


def _leave_out(builder: TraceBuilder, planes: Sequence[Plane]) -> None:
    builder.health.count(
        "other-plane",
        "info",
        "Events of planes that are neither a device nor a thread of the host.",
        count=sum(len(line.events) for p in planes for line in p.lines),
        dropped=True,
    )


def _device_steps(table: SliceTable, devices: Sequence[Plane]) -> None:
    """Steps as a TPU marks them, where the host marked none; all TPUs of a host share them."""
    if Kind.STEP in table.kinds:
        return
    events = next((steps for p in devices if (steps := steps_of(p))), [])
    track = table.builder.track(Role.HOST_THREAD, "steps of the device") if events else -1
    for event in events:
        table.add(event, track, Kind.STEP, f"step {event.name}")
    table.builder.health.events_read += len(events)
