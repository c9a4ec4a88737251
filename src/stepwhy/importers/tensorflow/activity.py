"""From what rows of step statistics hold to slices: one rule book for both file formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepwhy.importers.slice_columns import SliceColumns
from stepwhy.importers.tensorflow.dataflow import Dataflow
from stepwhy.importers.tensorflow.distinct import distinct, groups, pieces
from stepwhy.importers.tensorflow.entries import Activity, Entries, Execution
from stepwhy.importers.tensorflow.labels import edge_node
from stepwhy.importers.tensorflow.ops import (
    TRANSFERS,
    copy_direction,
    copy_name,
    device_kind,
    executor_kind,
    normalise_op,
    phase_of,
)
from stepwhy.importers.tensorflow.rows import Row, RowKind
from stepwhy.trace import NULL, Copy, DeviceKind, Kind, Meta, Phase, Role

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from numpy.typing import NDArray

    from stepwhy.trace import Health, TraceBuilder

    Ints = NDArray[np.signedinteger[Any]]
    Flags = NDArray[np.bool_]

_DEVICE_TIME = (RowKind.STREAM, RowKind.ALL_STREAMS, RowKind.COPIES)

_EXECUTION_COLUMNS = {
    "op_ns": "op_ns",
    "requested_bytes": "requested",
    "peak_bytes": "peak",
    "residual_bytes": "residual",
}

_REPEATS = "Rows like 'stream:all' and 'memcpy' repeat what lies on the numbered streams."
_GUESSED = (
    "The trace has no stream of this accelerator: the times of its ops, taken on the host, stand "
    "in for device time. Trace again with FULL_TRACE to see the device itself."
)
_UNALIGNED = (
    "The server processes were timed by their own clocks, which nothing has aligned: between "
    "machines, order and gaps are as good as their clocks agree."
)


class _Look(NamedTuple):
    """What an activity becomes."""

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
) -> frozenset[str]:
    """Append the slices of all activities, each once; nothing else has appended slices before.

    Repetitions are counted as dropped, guesses as guessed, the rest as kept in `builder.health`.

    Args:
        builder: The trace to append to.
        activities: Entries of all rows, in any order.
        rows: All rows of the file, also those of which no entry could be read.
        in_lanes: Whether lanes are to be derived from overlap, as no thread was recorded.

    Returns:
        Signals of `Meta.signals` that the activities are evidence for.
    """
    entries = activities if isinstance(activities, Entries) else Entries(activities)
    if not len(entries):
        return frozenset()
    order, lanes = entries.by_lanes() if in_lanes else (np.arange(len(entries)), entries["lane"])
    repeats, copies = _repeats(entries, order)
    builder.health.count("repeated-row", "info", _REPEATS, count=int(repeats.sum()), dropped=True)
    kept = order[~repeats[order]] if repeats.any() else order
    has_streams = any(row.kind in _DEVICE_TIME for row in rows)
    slices = _Slices(builder, entries, has_streams=has_streams)
    for piece in pieces(len(kept)):
        slices.add(kept[piece], lanes[kept[piece]], copies[kept[piece]])
    slices.hand_over()
    _add_runs(builder, entries, kept)
    builder.health.events_kept += len(kept)
    return _signals(entries, kept, builder.health, has_streams=has_streams)


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
        # The step statistics of one run hold that run and nothing else.
        signals=signals | {"whole-step"},
        device_expected=any(row.device_kind is not DeviceKind.CPU for row in rows),
        notes=(_UNALIGNED,) if len(tasks) > 1 else (),
    )


# --- Entries that repeat others ---


def _repeats(entries: Entries, order: Ints) -> tuple[Flags, Flags]:
    """Which entries repeat others, and which are alike to one on a row of copies; (entries,) each.

    Repetition is judged entry by entry: where the numbered streams are cut off or absent, what
    only the summary rows still have is kept.
    """
    repeats, copies = np.zeros((2, len(entries)), dtype=bool)
    on_device = order[entries.is_kind(*_DEVICE_TIME)[order]]
    once_more = entries.is_kind(RowKind.ALL_STREAMS, RowKind.COPIES)[on_device]
    if once_more.any():
        group = _alike(entries, on_device)
        streams = np.bincount(group[~once_more], minlength=len(on_device))
        again = group[once_more]
        repeats[on_device[once_more]] = _occurrence(again) < streams[again]
        on_copies = entries.is_kind(RowKind.COPIES)[on_device]
        copies[on_device] = np.isin(group, group[on_copies])
    return repeats, copies


def _alike(entries: Entries, which: Ints) -> Ints:
    """Numbers of what is the same device, node, op and time; (which,)."""
    devices: dict[str, int] = {}
    device = entries.of_rows(devices.setdefault(r.device, len(devices)) for r in entries.rows)
    columns = (device, *(entries[c] for c in ("node", "op", "start_ns", "dur_ns")))
    return groups(*(column[which] for column in columns))


def _occurrence(values: Ints) -> Ints:
    """How many of the values before each are the same; (values,)."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    found = np.empty_like(order)
    found[order] = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return found


# --- Slices ---


class _Slices:
    """Makes slices of entries, a piece of them at a time.

    Args:
        builder: The trace to append to.
        entries: All of them.
        has_streams: Whether the file has rows of device time.
    """

    def __init__(self, builder: TraceBuilder, entries: Entries, *, has_streams: bool) -> None:
        self._builder, self._entries, self._has_streams = builder, entries, has_streams
        self._rows, self._names = list(entries.rows), list(entries.names)
        # A stream works in order; its lanes only reflect rounded times.
        in_lanes = [row.kind in {RowKind.OPS, RowKind.SYNC} for row in self._rows]
        self._in_lanes = np.asarray(in_lanes, dtype=bool)
        self._looks: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._tracks: dict[tuple[int, ...], int] = {}
        self._slices = SliceColumns()

    def add(self, which: Ints, lanes: Ints, copies: Flags) -> None:
        """Take some entries.

        Args:
            which: Their places; (slices,).
            lanes: Their lanes; (slices,).
            copies: Whether they are alike to one on a row of copies; (slices,).
        """
        entries = self._entries
        row, op = entries["row"][which], entries["op"][which]
        alike, look = distinct(row, op, entries["node"][which], copies)
        known = zip(*(self._look(*key) for key in alike), strict=True)
        names = (*_Look._fields, "scope", "is_transfer")
        columns = {
            name: np.asarray(values, dtype=np.int32)[look]
            for name, values in zip(names, known, strict=True)
        }
        role, is_transfer = columns.pop("role"), columns.pop("is_transfer")
        alike, track = distinct(role, row, is_transfer, np.where(self._in_lanes[row], lanes, 0))
        tracks = np.asarray([self._track(*key) for key in alike], dtype=np.int32)
        times = {name: entries[name][which] for name in ("start_ns", "dur_ns", "bytes")}
        self._slices.add({**columns, **times, "track": tracks[track]})

    def hand_over(self) -> None:
        """Append what was taken to the trace."""
        self._slices.hand_over(self._builder)

    def _look(self, row: int, op: int, node: int, copy: int) -> tuple[int, ...]:
        """What an entry becomes, texts as numbers; its scope; and whether it is a transfer."""
        key = row, op, node, copy
        if key not in self._looks:
            written, name = self._names[op], self._names[node]
            look = _look(
                self._rows[row],
                written,
                name,
                has_streams=self._has_streams,
                on_copies_row=bool(copy),
            )
            text = self._builder.intern(look.name)
            scope = _scope(self._builder, name, look.kind)
            known = (look.role, look.kind, text, look.phase, look.copy, scope)
            self._looks[key] = (*known, int(written in TRANSFERS))
        return self._looks[key]

    def _track(self, role: int, row: int, is_transfer: int, lane: int) -> int:
        """Tracks by row and lane; streams keep their number, others are numbered as they come."""
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
    """The node's name; for a copy that of the node whose output travels."""
    name = edge_node(node) if kind is Kind.MEMCPY else node
    return builder.intern(name) if name else NULL


def _look(row: Row, written: str, node: str, *, has_streams: bool, on_copies_row: bool) -> _Look:
    op = normalise_op(written) or node
    if row.kind is RowKind.SYNC:
        return _Look(Role.HOST_THREAD, Kind.SYNC, op, Phase.UNKNOWN, Copy.NONE)
    if written in TRANSFERS:
        role = Role.EXECUTOR if row.device_kind is DeviceKind.CPU else Role.STREAM
        return _Look(role, Kind.MEMCPY, op, Phase.COMMUNICATION, Copy.PEER)
    if row.kind is not RowKind.OPS:
        return _on_stream(row, op, node, on_copies_row=on_copies_row)
    kind = executor_kind(op, node)
    phase = phase_of(op, node, kind)
    if row.device_kind is DeviceKind.CPU:
        return _Look(Role.EXECUTOR, kind, op, phase, Copy.NONE)
    if not has_streams:
        return _Look(Role.STREAM, kind, op, phase, Copy.NONE)
    # What the executor of an accelerator spends is the time to launch, not to compute.
    scheduled = Kind.OP if kind in {Kind.KERNEL, Kind.COLLECTIVE} else kind
    return _Look(Role.HOST_THREAD, scheduled, op, phase, Copy.NONE)


def _on_stream(row: Row, op: str, node: str, *, on_copies_row: bool) -> _Look:
    copy = row.copy or copy_direction(op)
    if copy or on_copies_row:
        return _Look(Role.STREAM, Kind.MEMCPY, copy_name(copy), Phase.UNKNOWN, copy)
    kind = device_kind(op, node)
    return _Look(Role.STREAM, kind, op, phase_of(op, node, kind), Copy.NONE)


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


def _add_runs(builder: TraceBuilder, entries: Entries, kept: Ints) -> None:
    """Append what is known of the runs of operations beside their times."""
    slices = np.flatnonzero(entries.is_kind(RowKind.OPS)[kept])
    runs = kept[slices]
    counts = entries["reads"][runs]
    if counts.any():
        begins = (np.cumsum(entries["reads"]) - entries["reads"])[runs]
        start_ns, nodes = entries["start_ns"][runs], entries["node"][runs]
        flow = Dataflow(slices, nodes, start_ns, entries.names)
        flow.emit(builder, slices, entries.inputs, begins, counts)
    _add_executions(builder, entries, slices, runs, _written(builder, entries, runs))


def _written(builder: TraceBuilder, entries: Entries, runs: Ints) -> NDArray[np.int32]:
    """For every name the op type, where the program wrote another one, else NULL; (names,)."""
    ops = set(np.unique(entries["op"][runs]).tolist())
    told = (
        builder.intern(op) if number in ops and op != normalise_op(op) else NULL
        for op, number in entries.names.items()
    )
    return np.fromiter(told, dtype=np.int32, count=len(entries.names))


def _add_executions(
    builder: TraceBuilder, entries: Entries, slices: Ints, runs: Ints, written: NDArray[np.int32]
) -> None:
    """Append what the executor recorded of runs, where it did.

    Args:
        builder: The trace to append to.
        entries: All of them.
        slices: Slices of the runs; (runs,).
        runs: Places of the runs; (runs,).
        written: For each of the names, what `_written` says; (names,).
    """
    told = written[entries["op"][runs]] != NULL
    for column in Execution._fields:
        told |= entries[column][runs] != NULL
    some = runs[told]
    if len(some):
        held = {n: entries.take(column)[some] for n, column in _EXECUTION_COLUMNS.items()}
        op = written[entries["op"][some]]
        rows = slices[told].astype(np.int32)
        builder.rows_from("executions", {"slice": rows, "written": op, **held})


def _signals(entries: Entries, kept: Ints, health: Health, *, has_streams: bool) -> frozenset[str]:
    """What could be seen; an accelerator without any device time was not looked at."""
    scheduled = entries.is_kind(RowKind.OPS)[kept]
    elsewhere = entries.of_rows(r.device_kind is not DeviceKind.CPU for r in entries.rows)[kept]
    on_accelerator = int((scheduled & (elsewhere != 0)).sum())
    on_streams = bool(entries.is_kind(*_DEVICE_TIME)[kept].any())
    guessed = 0 if has_streams else on_accelerator
    health.count("guessed-device-time", "warning", _GUESSED, count=guessed, dropped=False)
    found = {
        "host-ops": bool(scheduled.any()),
        "device-activity": on_streams or not (has_streams or on_accelerator),
        "copies": on_streams or bool(entries.is_transfer()[kept].any()),
        "sync-calls": bool(entries.is_kind(RowKind.SYNC)[kept].any()),
    }
    return frozenset(name for name, seen in found.items() if seen and len(kept))


__all__ = ["Activity", "Entries", "Execution", "emit", "meta_of"]
