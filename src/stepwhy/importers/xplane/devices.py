"""Planes of accelerators: streams of GPUs, instruction lines of TPUs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stepwhy.importers.tensorflow.ops import phase_of
from stepwhy.importers.xplane.names import copy_details, graph_op, hlo_kind, stream_kind
from stepwhy.trace import DeviceKind, Kind, Phase, Role

if TYPE_CHECKING:
    from stepwhy.importers.xplane.planes import Event, Line, Plane
    from stepwhy.importers.xplane.table import SliceTable

_PLANE = re.compile(r"/device:(?P<type>[A-Z_]+):(?P<number>\d+)(?P<part>.*)", re.DOTALL)
_STREAM = re.compile(r"Stream\s*#?(?P<number>\d+)(?:\((?P<what>[^)]*)\))?")
# Lines that show what a device without streams ran; the others on its plane repeat it.
_INSTRUCTIONS = ("XLA Ops", "Async XLA Ops", "Sparse Core Ops")
_MODULES = "XLA Modules"
_STEPS = "Steps"
_KINDS = {"GPU": DeviceKind.GPU, "TPU": DeviceKind.TPU}


def device_name(plane: str) -> str:
    """Name of the device that a plane is about ('GPU:0'), '' for other planes."""
    match = _PLANE.fullmatch(plane)
    if match is None or match["type"] in {"CUSTOM", "CPU"}:
        return ""
    return f"{match['type']}:{match['number']}{match['part'].rstrip()}"


def add_device(table: SliceTable, plane: Plane) -> bool:
    """Add what a device ran.

    Lines that TensorFlow derives from the streams (steps, modules, ops, name scopes) repeat them
    and are counted instead.

    Args:
        table: Takes the slices.
        plane: A plane with a `device_name`.

    Returns:
        Whether the device ran a kernel.
    """
    lines, derived = _sort(plane)
    table.builder.health.count(
        "derived-row",
        "info",
        "Rows that repeat, by step, module, op or name scope, what the device rows show.",
        count=sum(len(line.events) for line in derived),
        dropped=True,
    )
    ran = False
    for line in lines:
        track = _track(table, plane, line)
        for event in line.events:
            ran |= _add(table, track, line, event) is Kind.KERNEL
    return ran


def steps_of(plane: Plane) -> list[Event]:
    """The steps that a TPU itself marks, empty for other devices."""
    if not plane.name.startswith("/device:TPU:"):
        return []
    return [e for line in plane.lines if line.name == _STEPS for e in line.events]


def _sort(plane: Plane) -> tuple[list[Line], list[Line]]:
    """Lines that count, and lines that repeat them."""
    named = {line.name for line in plane.lines if line.events}
    if any(_STREAM.match(name) for name in named):
        chosen = {name for name in named if _STREAM.match(name)}
    else:
        chosen = named.intersection(_INSTRUCTIONS) or named & {_MODULES}
    return (
        [line for line in plane.lines if line.name in chosen],
        [line for line in plane.lines if line.name not in chosen],
    )


def _track(table: SliceTable, plane: Plane, line: Line) -> int:
    name = device_name(plane.name)
    kind = _KINDS.get(name.partition(":")[0], DeviceKind.OTHER)
    model = plane.stats.get("device_type_string") or plane.stats.get("gpu_device_name") or ""
    device = table.builder.device(name, kind, str(model))
    stream = _STREAM.match(line.name)
    if stream is None:
        return table.builder.track(Role.STREAM, line.name, device=device)
    number = int(stream["number"])
    return table.builder.track(Role.STREAM, f"stream {number}", thread=number, device=device)


def _add(table: SliceTable, track: int, line: Line, event: Event) -> Kind:
    """Add one activity; returns its kind."""
    if line.name in _INSTRUCTIONS:
        kind = hlo_kind(event.name.lstrip("%"), event.text("hlo_category"))
        table.add(event, track, kind, event.name.lstrip("%"), phase=_phase(event))
        return kind
    details = event.text("memcpy_details")
    kind = Kind.MEMCPY if details else stream_kind(event.name)
    if kind is Kind.MEMCPY:
        copy, size, pageable = copy_details(event.name, details)
        table.add(event, track, kind, copy=copy, size=size, pageable=pageable)
    elif kind is Kind.MEMSET:
        size = copy_details(event.name, event.text("memset_details")).bytes
        table.add(event, track, kind, size=size)
    else:
        table.add(event, track, kind, phase=_phase(event))
    return kind


def _phase(event: Event) -> Phase:
    """The phase of a kernel, as the graph op or the JAX primitive behind it tells."""
    op = graph_op(event.text("tf_op"))
    if op is not None and op[1]:
        return phase_of(op[1], op[0], Kind.KERNEL)
    return phase_of_primitive(event.text("name") or event.text("tf_op"))


def phase_of_primitive(name: str) -> Phase:
    """The phase of a JAX operation from its stack of transformations.

    Args:
        name: E.g. 'jit(step)/transpose(jvp(loss))/dot_general'.
    """
    if "transpose(" in name:
        return Phase.BACKWARD
    return Phase.FORWARD if "jvp(" in name else Phase.UNKNOWN
