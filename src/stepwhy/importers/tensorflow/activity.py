"""From what rows of step statistics hold to slices: one rule book for both file formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepwhy.importers.tensorflow.dataflow import Dataflow
from stepwhy.importers.tensorflow.distinct import distinct, groups
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

    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_DEVICE_TIME = (RowKind.STREAM, RowKind.ALL_STREAMS, RowKind.COPIES)

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
    kept = order[~repeats[order]]
    has_streams = any(row.kind in _DEVICE_TIME for row in rows)
    _add_slices(builder, entries, kept, lanes[kept], copies[kept], has_streams=has_streams)
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


def _add_slices(
    builder: TraceBuilder,
    entries: Entries,
    kept: Ints,
    lanes: Ints,
    copies: Flags,
    *,
    has_streams: bool,
) -> None:
    """Append a slice for each entry that is kept.

    Args:
        builder: The trace to append to.
        entries: All of them.
        kept: Places of those that are kept, in order; (kept,).
        lanes: Their lanes; (kept,).
        copies: Whether they are alike to one on a row of copies; (kept,).
        has_streams: Whether the file has rows of device time.
    """
    row, names = entries["row"][kept], list(entries.names)
    rows = list(entries.rows)
    alike, which = distinct(row, entries["op"][kept], entries["node"][kept], copies)
    looks = [
        _look(rows[r], names[op], names[node], has_streams=has_streams, on_copies_row=bool(copy))
        for r, op, node, copy in alike
    ]
    scopes = [
        _scope(builder, names[node], look.kind)
        for (_, _, node, _), look in zip(alike, looks, strict=True)
    ]
    role = _each([look.role for look in looks], which)
    builder.slices_from(
        {
            "track": _tracks(builder, rows, (role, row, entries.is_transfer()[kept], lanes)),
            "kind": _each([look.kind for look in looks], which),
            "name": _each([builder.intern(look.name) for look in looks], which),
            "start_ns": entries["start_ns"][kept],
            "dur_ns": entries["dur_ns"][kept],
            "scope": _each(scopes, which),
            "phase": _each([look.phase for look in looks], which),
            "copy": _each([look.copy for look in looks], which),
            "bytes": entries["bytes"][kept],
        }
    )


def _each(values: list[int], which: NDArray[np.int32]) -> NDArray[np.int32]:
    """One of the values for each row; (rows,)."""
    return np.asarray(values, dtype=np.int32)[which]


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


def _tracks(
    builder: TraceBuilder,
    rows: list[Row],
    where: tuple[NDArray[np.int32], Ints, Flags, Ints],
) -> NDArray[np.int32]:
    """Tracks of slices; streams keep their number, others are numbered as they come; (slices,).

    Args:
        builder: The trace to append to.
        rows: All rows.
        where: Role, number of the row, whether it is a transfer, and lane of every slice.
    """
    role, row, transfers, lanes = where
    # A stream works in order; its lanes only reflect rounded times.
    has_lanes = np.asarray([r.kind in {RowKind.OPS, RowKind.SYNC} for r in rows], dtype=bool)
    alike, which = distinct(role, row, transfers, np.where(has_lanes[row], lanes, 0))
    found = [
        _track(builder, rows[r], Role(role), number, lane, is_transfer=bool(is_transfer))
        for number, (role, r, is_transfer, lane) in enumerate(alike)
    ]
    return _each(found, which)


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
        builder.rows_from(
            "executions",
            {
                "slice": slices[told],
                "written": written[entries["op"][some]],
                "op_ns": entries["op_ns"][some],
                "requested_bytes": entries["requested"][some],
                "peak_bytes": entries["peak"][some],
                "residual_bytes": entries["residual"][some],
            },
        )


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
