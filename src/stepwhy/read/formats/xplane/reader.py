"""XPlane profiles (`.xplane.pb`) of TensorFlow 2, Keras and JAX, on CPU, GPU and TPU.

`tf.profiler.experimental`, the TensorBoard callback and `jax.profiler.start_trace` write one file
per host: an XSpace of planes (a device, the host, the session), their lines (streams, threads)
and events. Times are picoseconds from the start of a line, lines count from the session's start.

Source: tsl/profiler/protobuf/xplane.proto, tsl/profiler/utils/xplane_schema.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.errors import CorruptInputError, EmptyInputError
from stepwhy.base.patterns import regex
from stepwhy.read.formats.xplane.devices import add_device, device_name, steps_of
from stepwhy.read.formats.xplane.events import Events
from stepwhy.read.formats.xplane.host import HostReader
from stepwhy.read.formats.xplane.planes import merge, read_space
from stepwhy.read.formats.xplane.run import count_missing, count_unread, meta_of, session_of
from stepwhy.read.formats.xplane.table import SliceTable, SliceTemplate
from stepwhy.read.inputs.wire import dig
from stepwhy.trace import NULL, Kind, Role, TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepwhy.read.formats.xplane.planes import Plane, Space
    from stepwhy.read.formats.xplane.run import Session
    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Trace

_PLANE = regex(rb"/(?:host|device):[\w-]+(?::\d+)?.{0,80}|Task Environment|#\w[^\n]{0,80}")
# Calls of the device API and Python frames can be on separate planes. The ids of their lines are
# those of threads of '/host:CPU'. A number in brackets is the id of another process.
_HOST = regex(
    r"/host:(?:CPU|CUPTI|NVTX-CUPTI|ROCTRACER|python-tracer|TPU-runtime)\b"
    r"(?:.*\[(?P<process>\d{1,18})\]$|.*)"
)


def recognise(source: Source) -> bool:
    """Whether the file is an XSpace with the profiler's plane names."""
    return any(len(name) < 200 and _PLANE.fullmatch(name) for name in dig(source.head, 1, 2))


def read(source: Source) -> Trace | None:
    """Read an XPlane profile; None if it is too damaged to contain any event.

    Raises:
        CorruptInputError: Nothing of the message can be read.
        EmptyInputError: It contains no event that shows what ran.
    """
    builder = TraceBuilder()
    space = read_space(source, builder.health)
    session = session_of(space)
    table = SliceTable(builder, session.start_ns)
    ran = _add_all(table, space, session)
    if not table.kinds:
        _refuse_empty(source, builder)
        return None
    missing = session.used - ran if ran else frozenset()
    count_missing(builder.health, missing)
    # Add what the instructions of compiled programs were compiled from.
    for (name, line), op_name in space.programs.scopes.items():
        texts = {"name": name, "source": line, "scope": op_name}
        builder.add("instruction_scopes", **{k: builder.intern(v) for k, v in texts.items()})
    count_unread(builder.health, space.programs.unread)
    table.fill_copy_details()
    meta = meta_of(source, session, table, missing)
    table.finish()
    return builder.finish(meta)


def _add_all(table: SliceTable, space: Space, session: Session) -> set[str]:
    """Add all planes; returns the devices that ran a kernel.

    Each plane is released as soon as it is added, because its columns are as large as the trace.
    """
    devices = [p for p in space.planes if device_name(p.name)]
    hosts = [p for p in space.planes if _HOST.fullmatch(p.name)]
    others = [p for p in space.planes if p not in devices and p not in hosts]
    _leave_out(table.builder, others)
    steps = next((found for p in devices if len(found := steps_of(p))), None)
    ran = set()
    ran = set(_add_devices(table, devices, space))
    _add_hosts(table, _processes(hosts), space, session)
    if steps is not None and Kind.STEP not in table.kinds:
        _add_steps(table, steps, space)
    return ran


def _add_devices(table: SliceTable, planes: list[Plane], space: Space) -> Iterator[str]:
    """Add and release device planes; yields the names of devices that ran a kernel."""
    for place, plane in enumerate(planes):
        if add_device(table, plane, space):
            yield device_name(plane.name)
        planes[place].events = Events.empty()


def _add_hosts(
    table: SliceTable, processes: dict[int, list[Plane]], space: Space, session: Session
) -> None:
    """Add the threads of processes, and release their planes."""
    for process, planes in processes.items():
        if planes:
            plane = merge("/host:CPU", planes)
            for part in planes:
                part.events = Events.empty()
            used = bool(session.used)
            HostReader(table, plane, space, has_accelerator=used, process=process).add()


def _refuse_empty(source: Source, builder: TraceBuilder) -> None:
    """Raise the error for a file without events, unless it is truncated and may be no trace.

    Raises:
        CorruptInputError: A plane or event is damaged.
        EmptyInputError: The file is intact but has no events.
    """
    if builder.health.has("protobuf-truncated"):
        return
    if builder.health.has("plane-damaged") or builder.health.has("event-damaged"):
        raise CorruptInputError(
            f"{source.origin} is a damaged XPlane profile", "Record the profile again"
        )
    raise EmptyInputError(
        f"{source.origin} is an XPlane profile without an event",
        "Start the profiler before the training steps and stop it after them",
    )


def _processes(hosts: Sequence[Plane]) -> dict[int, list[Plane]]:
    """Host planes by process id; the training process, `NULL`, comes first."""
    found: dict[int, list[Plane]] = {NULL: []}
    for plane in sorted(hosts, key=lambda p: not p.name.startswith("/host:CPU")):
        match = _HOST.fullmatch(plane.name)
        process = match["process"] if match else None
        found.setdefault(int(process) if process else NULL, []).append(plane)
    return found


def _leave_out(builder: TraceBuilder, planes: Sequence[Plane]) -> None:
    builder.health.count(
        "other-plane",
        "info",
        "Events of planes that are neither a device nor a thread of the host.",
        count=sum(len(p.events) for p in planes),
        dropped=True,
    )


def _add_steps(table: SliceTable, events: Events, space: Space) -> None:
    """Add the steps that a TPU marks, if the host marked none; all TPUs of a host share them."""
    track = table.builder.track(Role.HOST_THREAD, "steps of the device")
    events.number_labels()
    names = [space.texts[code] for code in events.labels.name.tolist()]
    table.add(events, [SliceTemplate(track, Kind.STEP, f"step {name}") for name in names])
    table.builder.health.events_read += len(events)
