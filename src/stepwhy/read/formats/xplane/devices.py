"""Planes of accelerators: streams of GPUs, instruction lines of TPUs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.base.columns.groups import distinct
from stepwhy.base.patterns import regex
from stepwhy.read.formats.xplane.groups import equal_rows
from stepwhy.read.formats.xplane.kernels.layout import MISSING
from stepwhy.read.formats.xplane.names import (
    async_hlo_kind,
    copy_details,
    graph_op,
    hlo_copy,
    hlo_kind,
    stream_kind,
)
from stepwhy.read.formats.xplane.programs import phase_of_primitive
from stepwhy.read.formats.xplane.table import SliceTemplate
from stepwhy.read.shared.tensorflow.ops import phase_of
from stepwhy.trace import DeviceKind, Kind, Phase, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.read.formats.xplane.events import Events, Labels, Line
    from stepwhy.read.formats.xplane.planes import Plane, Space
    from stepwhy.read.formats.xplane.table import SliceTable
    from stepwhy.read.formats.xplane.unneeded import Unneeded

_PLANE = regex(r"/device:(?P<type>[A-Z_]+):(?P<number>\d+)(?P<part>.*)", re.DOTALL)
_STREAM = regex(r"Stream\s*#?(?P<number>\d+)(?:\((?P<what>[^)]*)\))?")
# Lines with the operations of a device without streams; its other lines repeat them.
_ASYNC = "Async XLA Ops"
_INSTRUCTIONS = ("XLA Ops", _ASYNC, "Sparse Core Ops")
# Lines derived from the others; with several streams, ' - from #7' is appended.
_DERIVED = regex(
    r"(?:(?:Sparse Core )?(?:Steps|Modules|Ops)|XLA (?:Modules|Ops)|Async XLA Ops|Source code"
    r"|(?:Framework|TensorFlow) (?:Ops|Name Scope)|Launch Stats)(?: - from #\d+)?"
)
_MODULES = ("XLA Modules", "Sparse Core Modules")
_STEPS = "Steps"
_KINDS = {"GPU": DeviceKind.GPU, "TPU": DeviceKind.TPU}
# Statistics that decide the template of an activity, beside its name.
_DETAILS = ("memcpy_details", "Memset_details", "memset_details", "hlo_category", "tf_op", "name")


def device_name(plane: str) -> str:
    """Name of a plane's device ('GPU:0'), '' for planes of no device."""
    match = _PLANE.fullmatch(plane)
    if match is None or match["type"] in {"CUSTOM", "CPU"}:
        return ""
    return f"{match['type']}:{match['number']}{match['part'].rstrip()}"


def add_device(table: SliceTable, plane: Plane, space: Space) -> bool:
    """Add the activities of a device.

    Lines that TensorFlow derives from the streams (steps, modules, ops, name scopes) repeat them
    and are only counted.

    Args:
        table: Receives the slices.
        plane: A plane with a `device_name`.
        space: The file that contains the plane.

    Returns:
        Whether the device ran a kernel.
    """
    chosen = _chosen(plane)
    events = plane.events.labelled(chosen[plane.events.labels.line])
    events.number_labels()
    _count_others(table, plane, chosen)
    labels = events.labels
    details = [labels.texts[stat] for stat in _DETAILS if stat in labels.texts]
    if space.programs:
        details += [labels.text("hlo_op"), labels.number("program_id")]
    first, group = equal_rows(labels.line, labels.name, *details)
    reader = _Reader(table, plane, labels.take(first), space)
    templates = [reader.template(row) for row in range(len(first))]
    unneeded = [reader.unneeded(row) for row in range(len(first))]
    places = group.tolist()
    table.add(
        events, [templates[place] for place in places], None, [unneeded[place] for place in places]
    )
    return any(t.kind is Kind.KERNEL for t in templates)


def steps_of(plane: Plane) -> Events:
    """Steps that a TPU marks itself, empty for other devices."""
    is_tpu = plane.name.startswith("/device:TPU:")
    marks = np.array([is_tpu and line.name == _STEPS for line in plane.lines], dtype=np.bool_)
    return plane.events.labelled(marks[plane.events.labels.line])


def _chosen(plane: Plane) -> NDArray[np.bool_]:
    """Mask of the lines to read; the others repeat them; (lines,)."""
    used = {plane.lines[place].name for place in distinct(plane.events.labels.line).tolist()}
    chosen = {name for name in used if _STREAM.match(name)}
    chosen = chosen or used.intersection(_INSTRUCTIONS) or used.intersection(_MODULES)
    return np.array([line.name in chosen for line in plane.lines], dtype=np.bool_)


def _count_others(table: SliceTable, plane: Plane, chosen: NDArray[np.bool_]) -> None:
    derived = np.array(
        [bool(_DERIVED.fullmatch(line.name)) for line in plane.lines], dtype=np.bool_
    )
    health, labels, counts = table.builder.health, plane.events.labels, plane.events.counts()
    health.count(
        "derived-row",
        "info",
        "Rows that repeat, by step, module, op or name scope, what the device rows show.",
        count=int(counts[(derived & ~chosen)[labels.line]].sum()),
        dropped=True,
    )
    health.count(
        "other-row",
        "info",
        "Rows of a device without operations or copies: flags, counters, marks.",
        count=int(counts[(~derived & ~chosen)[labels.line]].sum()),
        dropped=True,
    )


class _Reader:
    """Builds slice templates for the activities of one device.

    Args:
        table: Receives the device and its tracks.
        plane: The device.
        labels: Labels of the activities, one per template.
        space: The file that contains the plane.
    """

    def __init__(self, table: SliceTable, plane: Plane, labels: Labels, space: Space) -> None:
        self._builder = table.builder
        self._plane = plane
        texts = space.texts
        self._line = labels.line.tolist()
        self._names = [texts[code] for code in labels.name.tolist()]
        self._texts = {
            stat: [texts[code] for code in column.tolist()] for stat, column in labels.texts.items()
        }
        self._program = labels.numbers.get("program_id")
        self._programs = space.programs
        self._lines_of_nodes = space.lines
        # Properties of lines, by row.
        self._lines: list[tuple[int, bool, bool] | None] = [None] * len(plane.lines)

    def template(self, row: int) -> SliceTemplate:
        """The template of one activity."""
        place = self._line[row]
        track, is_instruction, is_async = self._lines[place] or self._read_line(place)
        name = self._names[row]
        if is_instruction:
            name = name.lstrip("%") or name
            category = self._text(row, "hlo_category")
            kind = async_hlo_kind(name, category) if is_async else hlo_kind(name, category)
            return SliceTemplate(
                track, kind, name, self._source(row), self._phase(row), hlo_copy(category)
            )
        details = self._text(row, "memcpy_details")
        kind = Kind.MEMCPY if details else stream_kind(name)
        if kind is Kind.MEMCPY:
            copy, size, pageable = copy_details(name, details)
            return SliceTemplate(track, kind, name, copy=copy, bytes=size, pageable=pageable)
        if kind is Kind.MEMSET:
            details = self._text(row, "Memset_details") or self._text(row, "memset_details")
            return SliceTemplate(track, kind, name, bytes=copy_details(name, details).bytes)
        source = self._source(row)
        if self._programs:
            self._programs.note(name, source, self._compiled_from(row))
        return SliceTemplate(track, kind, name, source, self._phase(row))

    def _text(self, row: int, stat: str) -> str:
        column = self._texts.get(stat)
        return "" if column is None else column[row]

    def _read_line(self, place: int) -> tuple[int, bool, bool]:
        """Track of a line, whether it has HLO instructions, and whether these are asynchronous."""
        line = self._plane.lines[place]
        found = self._track(line), line.name in _INSTRUCTIONS, line.name == _ASYNC
        self._lines[place] = found
        return found

    def _track(self, line: Line) -> int:
        name = device_name(self._plane.name)
        stats = self._plane.stats
        kind = _KINDS.get(name.partition(":")[0], DeviceKind.OTHER)
        model = stats.get("device_type_string") or stats.get("gpu_device_name") or ""
        device = self._builder.device(name, kind, str(model))
        stream = _STREAM.match(line.name)
        if stream is None:
            return self._builder.track(Role.STREAM, line.name, device=device)
        number = int(stream["number"])
        return self._builder.track(Role.STREAM, f"stream {number}", thread=number, device=device)

    def _phase(self, row: int) -> Phase:
        """Phase of a kernel, derived from its graph op or JAX primitive."""
        written = self._text(row, "tf_op")
        op = graph_op(written)
        if op is not None and op[1]:
            return phase_of(op[1], op[0], Kind.KERNEL)
        return phase_of_primitive(self._text(row, "name") or self._compiled_from(row) or written)

    def _compiled_from(self, row: int) -> str:
        """Name of the operation that a kernel was compiled from, '' if unknown."""
        if not self._programs:
            return ""
        return self._programs.op_name(self._program_id(row), self._text(row, "hlo_op"))

    def unneeded(self, row: int) -> Unneeded | None:
        """Why an activity is not needed; None if nothing is known against it."""
        instruction = self._text(row, "hlo_op")
        return self._programs.unneeded(self._program_id(row), instruction) if instruction else None

    def _source(self, row: int) -> str:
        """Line of the program that a kernel comes from, '' if unknown."""
        op = graph_op(self._text(row, "tf_op"))
        if op is not None:
            return self._lines_of_nodes.of(op[0])
        if not self._programs:
            return ""
        return self._programs.line(self._program_id(row), self._text(row, "hlo_op"))

    def _program_id(self, row: int) -> int:
        """Id of the program of an activity."""
        return MISSING if self._program is None else int(self._program[row])
