"""Adds the entries of step statistics to a trace, for all formats that contain them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepwhy.base.columns.chunks import chunks, put, take
from stepwhy.base.columns.groups import distinct_rows
from stepwhy.base.columns.growing import NarrowColumn
from stepwhy.read.inputs.source import give_back
from stepwhy.read.shared.tensorflow.dataflow import Dataflow
from stepwhy.read.shared.tensorflow.entries import Activity, Entries, Execution
from stepwhy.read.shared.tensorflow.labels import edge_node
from stepwhy.read.shared.tensorflow.node_lines import NodeLines
from stepwhy.read.shared.tensorflow.ops import (
    TRANSFERS,
    copy_direction,
    copy_name,
    device_kind,
    executor_kind,
    normalise_op,
    phase_of,
)
from stepwhy.read.shared.tensorflow.repeats import DEVICE_TIME, repeats_of
from stepwhy.read.shared.tensorflow.rows import Row, RowKind
from stepwhy.trace import NULL, Copy, DeviceKind, Kind, Meta, Phase, Role

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from numpy.typing import NDArray

    from stepwhy.base.columns.types import AnyInts, Mask
    from stepwhy.trace import Health, TraceBuilder


# Columns of slices that follow from the template of an entry, and those that it has itself.
_TEMPLATE_COLUMNS = ("kind", "name", "phase", "copy", "scope", "source", "track")
_ENTRY_COLUMNS = ("start_ns", "dur_ns", "bytes")
_EXECUTION_COLUMNS = {
    "op_ns": "op_ns",
    "requested_bytes": "requested",
    "peak_bytes": "peak",
    "residual_bytes": "residual",
}

_REPEATS = "Rows like 'stream:all' and 'memcpy' repeat the activity of the numbered streams."
_GUESSED = (
    "The trace has no stream of this accelerator: the times of its ops on the host are used as "
    "device time. Trace again with FULL_TRACE to see the device itself."
)
_UNALIGNED = (
    "The server processes were timed by their own clocks, which are not aligned: order and gaps "
    "between machines are only as exact as their clocks agree."
)


class _Template(NamedTuple):
    """The properties that an entry's slice shares with others of its op, node and row."""

    role: Role
    kind: Kind
    name: str
    phase: Phase
    copy: Copy


def emit(
    builder: TraceBuilder,
    activities: Entries | Iterable[Activity],
    rows: Collection[Row],
    *,
    in_lanes: bool = False,
    lines: NodeLines | None = None,
) -> frozenset[str]:
    """Add the slices of all activities, which must be the first slices of the trace.

    `builder.health` counts repetitions as dropped, guesses as guessed, and the rest as kept.

    Args:
        builder: Receives the slices.
        activities: Entries of all rows, in any order; only their rows and names stay usable.
        rows: All rows of the file, including those without readable entries.
        in_lanes: Derive lanes from overlap, because the file records no threads.
        lines: Finds the line of the program that causes a node; None if it is not recorded.

    Returns:
        Signals of `Meta.signals` that the activities prove.
    """
    entries = activities if isinstance(activities, Entries) else Entries(activities)
    if not len(entries):
        return frozenset()
    kept, lanes, copies = _kept(builder.health, entries, in_lanes=in_lanes)
    has_streams = any(row.kind in DEVICE_TIME for row in rows)
    # Columns of the entries are freed as soon as they are part of the trace.
    give_back()
    _add_flows(builder, entries, kept)
    give_back()
    slices = _Slices(builder, entries, kept, lines or NodeLines({}), has_streams=has_streams)
    for chunk in chunks(len(kept)):
        slices.add(chunk, lanes, copies)
    del lanes, copies
    slices.finish()
    give_back()
    signals = _signals(entries, kept, builder.health, has_streams=has_streams)
    _add_executions(builder, entries, kept)
    give_back()
    builder.health.events_kept += len(kept)
    return signals


def meta_of(name: str, rows: Collection[Row], signals: frozenset[str]) -> Meta:
    """Facts about a run of a graph.

    Args:
        name: Name of the format.
        rows: All rows of the file.
        signals: What the profiler could see.
    """
    tasks = {row.device.rpartition(" ")[0] for row in rows}
    return Meta(
        format=name,
        framework="tensorflow",
        # The step statistics of a run contain exactly that run.
        signals=signals | {"whole-step"},
        device_expected=any(row.device_kind is not DeviceKind.CPU for row in rows),
        notes=(_UNALIGNED,) if len(tasks) > 1 else (),
    )


# --- Slices ---


def _kept(health: Health, entries: Entries, *, in_lanes: bool) -> tuple[AnyInts, AnyInts, Mask]:
    """Select the entries that become slices.

    Returns:
        The entries that do not repeat others, in the order of their slices; (slices,). Of all
        entries the lanes, and whether they also are on a row of copies; (entries,) each.
    """
    everything = np.arange(len(entries), dtype=np.int32)
    order, lanes = entries.by_lanes() if in_lanes else (everything, entries.lanes())
    repeats, copies = repeats_of(entries, order)
    health.count("repeated-row", "info", _REPEATS, count=int(repeats.sum()), dropped=True)
    return order[~take(repeats, order)] if repeats.any() else order, lanes, copies


class _Slices:
    """Converts entries to slices, chunk by chunk.

    Args:
        builder: Receives the slices.
        entries: All entries.
        kept: The entries that become slices, in this order; (slices,).
        lines: Finds the lines of nodes.
        has_streams: Whether the file has rows of device time.
    """

    def __init__(
        self,
        builder: TraceBuilder,
        entries: Entries,
        kept: AnyInts,
        lines: NodeLines,
        *,
        has_streams: bool,
    ) -> None:
        self._builder, self._entries, self._has_streams = builder, entries, has_streams
        self._lines = lines
        self._kept = kept
        self._rows, self._names = list(entries.rows), list(entries.names)
        # A stream works in order; its lanes only reflect rounded times.
        in_lanes = [row.kind in {RowKind.OPS, RowKind.SYNC} for row in self._rows]
        self._in_lanes = np.asarray(in_lanes, dtype=bool)
        self._templates: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._tracks: dict[tuple[int, ...], int] = {}
        self._columns = {name: NarrowColumn() for name in _TEMPLATE_COLUMNS}

    def add(self, chunk: slice, lanes: AnyInts, copies: Mask) -> None:
        """Convert the next chunk of entries.

        Args:
            chunk: The chunk, of the kept entries.
            lanes: Lanes of all entries; (entries,).
            copies: Whether each entry also is on a row of copies; (entries,).
        """
        entries, which = self._entries, self._kept[chunk]
        row, op = entries["row"][which], entries["op"][which]
        distinct, group = distinct_rows(row, op, entries["node"][which], copies[which])
        templates = zip(*(self._template(*key) for key in distinct), strict=True)
        names = (*_Template._fields, "scope", "source", "is_transfer")
        columns = {
            name: np.asarray(values, dtype=np.int32)[group]
            for name, values in zip(names, templates, strict=True)
        }
        role, is_transfer = columns.pop("role"), columns.pop("is_transfer")
        lane = np.where(self._in_lanes[row], lanes[which], 0)
        distinct, track = distinct_rows(role, row, is_transfer, lane)
        tracks = np.asarray([self._track(*key) for key in distinct], dtype=np.int32)
        for name, values in (*columns.items(), ("track", tracks[track])):
            self._columns[name].append(values)

    def finish(self) -> None:
        """Add the slices with their times and sizes to the trace, and free the entries' columns."""
        self._entries.pop("node")
        columns = {name: column.values() for name, column in self._columns.items()}
        self._columns = {}
        if len(self._kept):
            for name in _ENTRY_COLUMNS:
                values = take(self._entries.pop(name), self._kept)
                columns[name] = values.astype(np.int64, copy=False)
            self._builder.slices_from(columns)

    def _template(self, row: int, op: int, node: int, copy: int) -> tuple[int, ...]:
        """Template of an entry with its name interned, its scope, line, and if it is a transfer."""
        key = row, op, node, copy
        if key not in self._templates:
            runtime_op, name = self._names[op], self._names[node]
            template = _template(
                self._rows[row],
                runtime_op,
                name,
                has_streams=self._has_streams,
                on_copies_row=bool(copy),
            )
            role, kind, text, phase, direction = template
            shared = role, kind, self._builder.intern(text), phase, direction
            scope = _scope(self._builder, name, kind)
            line = self._lines.of(edge_node(name) if kind is Kind.MEMCPY else name)
            source = self._builder.intern(line) if line else NULL
            self._templates[key] = (*shared, scope, source, int(runtime_op in TRANSFERS))
        return self._templates[key]

    def _track(self, role: int, row: int, is_transfer: int, lane: int) -> int:
        """Track of a row and lane; streams keep their number, others get the next one."""
        key = role, row, is_transfer, lane
        if key not in self._tracks:
            self._tracks[key] = _track(
                self._builder,
                self._rows[row],
                Role(role),
                len(self._tracks),
                lane,
                is_transfer=bool(is_transfer),
            )
        return self._tracks[key]


def _scope(builder: TraceBuilder, node: str, kind: Kind) -> int:
    """The node's name; for a copy the name of the node whose output is copied."""
    name = edge_node(node) if kind is Kind.MEMCPY else node
    return builder.intern(name) if name else NULL


def _template(
    row: Row, runtime_op: str, node: str, *, has_streams: bool, on_copies_row: bool
) -> _Template:
    op = normalise_op(runtime_op) or node
    if row.kind is RowKind.SYNC:
        return _Template(Role.HOST_THREAD, Kind.SYNC, op, Phase.UNKNOWN, Copy.NONE)
    if runtime_op in TRANSFERS:
        role = Role.EXECUTOR if row.device_kind is DeviceKind.CPU else Role.STREAM
        return _Template(role, Kind.MEMCPY, op, Phase.COMMUNICATION, Copy.PEER)
    if row.kind is not RowKind.OPS:
        return _stream_template(row, op, node, on_copies_row=on_copies_row)
    kind = executor_kind(op, node)
    phase = phase_of(op, node, kind)
    if row.device_kind is DeviceKind.CPU:
        return _Template(Role.EXECUTOR, kind, op, phase, Copy.NONE)
    if not has_streams:
        return _Template(Role.STREAM, kind, op, phase, Copy.NONE)
    # The executor of an accelerator only measures the time to launch.
    scheduled = Kind.OP if kind in {Kind.KERNEL, Kind.COLLECTIVE} else kind
    return _Template(Role.HOST_THREAD, scheduled, op, phase, Copy.NONE)


def _stream_template(row: Row, op: str, node: str, *, on_copies_row: bool) -> _Template:
    copy = row.copy or copy_direction(op)
    if copy or on_copies_row:
        return _Template(Role.STREAM, Kind.MEMCPY, copy_name(copy), Phase.UNKNOWN, copy)
    kind = device_kind(op, node)
    return _Template(Role.STREAM, kind, op, phase_of(op, node, kind), Copy.NONE)


# --- Tracks ---


def _track(
    builder: TraceBuilder, row: Row, role: Role, number: int, lane: int, *, is_transfer: bool
) -> int:
    device = builder.device(row.device, row.device_kind)
    return builder.track(
        role,
        f"arriving tensors {lane}" if is_transfer else _track_name(row, role, lane),
        thread=row.stream if row.kind is RowKind.STREAM else number,
        device=NULL if role is Role.HOST_THREAD else device,
    )


def _track_name(row: Row, role: Role, lane: int) -> str:
    if row.kind is RowKind.STREAM:
        return "stream" if row.stream == NULL else f"stream {row.stream}"
    if row.kind is RowKind.SYNC:
        return f"thread {lane}"
    if row.kind is not RowKind.OPS:
        return str(row.kind.value)
    return f"{row.device} scheduling {lane}" if role is Role.HOST_THREAD else f"executor {lane}"


# --- Runs of operations ---


def _runs(entries: Entries, kept: AnyInts) -> tuple[AnyInts, AnyInts]:
    """The slices that are runs of operations, and their entries; (runs,) each."""
    slices = np.flatnonzero(take(entries.is_kind(RowKind.OPS), kept)).astype(np.int32)
    return slices, take(kept, slices)


def _add_flows(builder: TraceBuilder, entries: Entries, kept: AnyInts) -> None:
    """Add flows from the producers of tensors to their consumers, and free the entries' column."""
    slices, runs = _runs(entries, kept)
    lists = take(entries.pop("reads"), runs)
    if lists.any():
        inputs, first, counts = entries.inputs()
        start_ns, nodes = (take(entries[name], runs) for name in ("start_ns", "node"))
        flow = Dataflow(slices, nodes, start_ns, entries.names)
        del start_ns, nodes
        flow.add_flows(builder, slices, inputs, take(first, lists), take(counts, lists))


def _runtime_ops(builder: TraceBuilder, entries: Entries, ops: AnyInts) -> NDArray[np.int32]:
    """Interned op type of each name if the runtime renamed the program's op, else NULL; (names,).

    Args:
        builder: Interns the op types.
        entries: All entries.
        ops: Names of the ops that ran; (runs,).
    """
    ran = np.zeros(len(entries.names), dtype=bool)
    put(ran, ops, True)
    interned = (
        builder.intern(op) if is_run and op != normalise_op(op) else NULL
        for op, is_run in zip(entries.names, ran.tolist(), strict=True)
    )
    return np.fromiter(interned, dtype=np.int32, count=len(entries.names))


def _add_executions(builder: TraceBuilder, entries: Entries, kept: AnyInts) -> None:
    """Add the measurements of the executor, and free the entries' columns."""
    slices, runs = _runs(entries, kept)
    ops = take(entries.pop("op"), runs)
    op = take(_runtime_ops(builder, entries, ops), ops)
    del ops
    number = np.full(len(entries), NULL, dtype=np.int32)
    recorded = entries.pop("recorded")
    put(number, recorded, np.arange(len(recorded), dtype=np.int32))
    number = take(number, runs)
    has_some = (op != NULL) | (number != NULL)
    columns = {"slice": slices[has_some], "runtime_op": op[has_some]}
    number = number[has_some]
    del op, slices, runs, has_some
    if len(number):
        for name, field in _EXECUTION_COLUMNS.items():
            columns[name] = _values_or_null(entries.pop(field), number)
        builder.rows_from("executions", columns)


def _values_or_null(values: AnyInts, number: AnyInts) -> AnyInts:
    """The values at the given positions; NULL where the position is NULL; (numbers,)."""
    if not len(values):
        return np.full(len(number), NULL, dtype=values.dtype)
    found = take(values, number).astype(np.int64, copy=False)
    found[number == NULL] = NULL
    return found


def _signals(
    entries: Entries, kept: AnyInts, health: Health, *, has_streams: bool
) -> frozenset[str]:
    """Signals of the profiler; an accelerator without any device time was not observed."""
    scheduled = take(entries.is_kind(RowKind.OPS), kept)
    elsewhere = take(entries.is_on(lambda row: row.device_kind is not DeviceKind.CPU), kept)
    on_accelerator = int((scheduled & elsewhere).sum())
    on_streams = bool(take(entries.is_kind(*DEVICE_TIME), kept).any())
    guessed = 0 if has_streams else on_accelerator
    health.count("guessed-device-time", "warning", _GUESSED, count=guessed, dropped=False)
    found = {
        "host-ops": bool(scheduled.any()),
        "device-activity": on_streams or not (has_streams or on_accelerator),
        "copies": on_streams or bool(take(entries.is_transfer(), kept).any()),
        "sync-calls": bool(entries.is_kind(RowKind.SYNC)[kept].any()),
    }
    return frozenset(name for name, seen in found.items() if seen and len(kept))


__all__ = ["Activity", "Entries", "Execution", "emit", "meta_of"]
