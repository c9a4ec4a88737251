"""TensorFlow's `RunMetadata` and `StepStats` in protobuf form, read without TensorFlow.

`Session.run(options=..., run_metadata=md)` fills it: times of every op per device, transfers
between server processes (FULL_TRACE only) and, on demand, the partition graphs.

Source: `config.proto`, `step_stats.proto`, `step_stats_collector.cc`, `worker_cache_logger.cc`.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from stepwhy.base.errors import CorruptInputError, EmptyInputError
from stepwhy.read.formats.run_metadata.step_stats import Chunks, DamagedError, Whole
from stepwhy.read.inputs.wire import dig
from stepwhy.read.shared.chrome_json import count_untimed
from stepwhy.read.shared.several_files import count_joined, messages_joined
from stepwhy.read.shared.tensorflow.activity import emit, meta_of
from stepwhy.read.shared.tensorflow.allocations import Allocations
from stepwhy.read.shared.tensorflow.batches import add_batch, common_rows, output_rows
from stepwhy.read.shared.tensorflow.entries import Activity, Entries, Execution
from stepwhy.read.shared.tensorflow.graphs import text
from stepwhy.read.shared.tensorflow.labels import (
    parse_activity_label,
    parse_inputs,
    parse_op_label,
    parse_size,
    parse_transfer_label,
)
from stepwhy.read.shared.tensorflow.ops import TRANSFERS, normalise_op
from stepwhy.read.shared.tensorflow.placement import (
    Moved,
    Observed,
    Requested,
    add_placement,
    read_placed,
)
from stepwhy.read.shared.tensorflow.rows import Row, RowKind, parse_row
from stepwhy.read.shared.tensorflow.sidecars import program_sources, requested_graph, run_window
from stepwhy.trace import NULL, Kind, Role, TraceBuilder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stepwhy.read.formats.run_metadata.step_stats import Device
    from stepwhy.read.inputs.source import Source
    from stepwhy.read.shared.tensorflow.node_lines import NodeLines
    from stepwhy.read.shared.tensorflow.placement import Placed
    from stepwhy.read.shared.tensorflow.sidecars import SessionValue, Window
    from stepwhy.trace import Health, Trace

# How many labels of ops are known: those of a loop come again and again.
_KNOWN_LABELS = 1 << 14
_REPLACED = "\N{REPLACEMENT CHARACTER}"
# Times beyond this would leave int64 when added up.
_LARGEST_NS = 1 << 62
# Fields of a RunMetadata that occur once: step statistics and the cost graph.
_SINGLE = (1, 2)


def recognise(source: Source) -> bool:
    """Whether the file is step statistics or run metadata: its devices are TensorFlow's."""
    return _message_name(source.head) is not None


def read(source: Source) -> Trace | None:
    """The trace of one run of a graph; None when the file is another message.

    Reads 'graph.pb', 'sources.json.gz' and 'window.json' beside the file where they exist.

    Args:
        source: The file.

    Raises:
        CorruptInputError: Nothing of the message can be read.
        EmptyInputError: It names devices, but neither an op that ran nor a placed node.
    """
    name = _message_name(source.head)
    if name is None:
        return None
    try:
        return _read(Chunks(name, source.mapped), source)
    except DamagedError:
        pass  # protobuf may still read parts of the message
    try:
        return _read(Whole(name, source.data), source)
    except DamagedError:
        raise CorruptInputError(
            f"{source.origin} is a damaged TensorFlow {name}",
            "Write the RunMetadata of a traced run again",
        ) from None


def _read(message: Chunks | Whole, source: Source) -> Trace:
    """The trace of a message.

    Raises:
        DamagedError: A part of it is none.
        EmptyInputError: As `read`.
    """
    builder = TraceBuilder()
    _count_torn(builder.health, is_torn=message.is_torn)
    count_joined(builder.health, _joined(source))
    placed = read_placed(message.graphs)
    statistics = _Statistics(builder, placed)
    for device in message.devices():
        statistics.add(device)
    window = _window(source, builder.health, statistics.entries["start_ns"])
    sources = program_sources(source, builder.health)
    requested = Requested(requested_graph(source, builder.health), sources.ops)
    signals = statistics.emit(sources.node_lines(requested.graph))
    if add_placement(builder, placed, requested, statistics.observed):
        signals |= {"placement"}
    elif not len(statistics.entries):
        raise EmptyInputError(
            f"{source.origin} holds no op that ran and no placed node",
            "Run the step with trace_level FULL_TRACE and write its RunMetadata again",
        )
    if message.graphs:
        signals |= {"copies"}
    # Add the devices of the session, including unused ones.
    for row in map(parse_row, sources.devices):
        if row is not None:
            builder.device(row.device, row.device_kind)
    if window is not None:
        _add_step(builder, window)
    meta = meta_of("tf-run-metadata", statistics.devices, signals)
    del statistics  # its columns are the builder's now
    return builder.finish(meta)


def _message_name(head: bytes) -> str | None:
    """Which message the bytes are, judged by a device name at the place where each keeps it."""
    if _names_row(head, 1, 1) and any(dig(head, 1, 2, 1)):
        return "StepStats"
    if _names_row(head, 1, 1, 1) and any(dig(head, 1, 1, 2, 1)):
        return "RunMetadata"
    # Placed without being timed: partition graphs alone.
    is_placed = _names_row(head, 3, 1, 4) or _names_row(head, 4, 1, 1, 4)
    return "RunMetadata" if is_placed else None


def _joined(source: Source) -> int:
    """How many messages follow the first one."""
    if _message_name(source.head) == "RunMetadata":
        return messages_joined(source.mapped, _SINGLE)
    devices = list(dig(source.data, 1, 1))
    return max(Counter(devices).values(), default=1) - 1


def _names_row(head: bytes, *path: int) -> bool:
    """Whether a device name of plausible length lies under the path."""
    return any(len(d) < 200 and parse_row(text(d)) is not None for d in dig(head, *path))


def _count_torn(health: Health, *, is_torn: bool) -> None:
    health.count(
        "protobuf-truncated",
        "error",
        "The file ends before its message does: later ops are missing. Totals cover the "
        "readable part only. Copy the file again.",
        count=int(is_torn),
        dropped=False,
    )


class _Statistics:
    """Collects the entries of all devices, with their placement and memory.

    Args:
        builder: Receives allocations.
        placed: Placement from partition graphs.
    """

    def __init__(self, builder: TraceBuilder, placed: Placed) -> None:
        self._builder = builder
        self.entries = Entries()
        self.observed = Observed(measured=frozenset((e.source, e.slot) for e in placed.edges))
        self.devices: set[Row] = set()
        self._allocations = Allocations(builder)
        self._operation = lru_cache(_KNOWN_LABELS)(_operation)
        self._untimed = self._unknown = self._replaced = 0

    def add(self, device: Device) -> None:
        """Add the entries of a device."""
        row = parse_row(text(device.name))
        if row is not None:
            self.devices.add(row)
        for chunk in device.chunks:
            self._builder.health.events_read += len(chunk.node_stats)
            for node in chunk.node_stats:
                self._allocations.add_node(node)
                if row is not None:
                    self._add(row, node)
                else:
                    self._unknown += 1

    def _add(self, row: Row, node: Any) -> None:
        sizes: dict[int, int] = {}  # of the outputs whose allocation is recorded, bytes
        for output in node.output:
            size = output.tensor_description.allocation_description.requested_bytes
            if output.tensor_description.HasField("allocation_description") and 0 <= size < 1 << 48:
                sizes[output.slot] = size
        activity = self._activity(row, node, sum(sizes.values()) if sizes else NULL)
        if activity is None:
            self._untimed += 1
            return
        self.entries.add(activity)
        if activity.row.kind is RowKind.OPS:
            rows = output_rows(activity.op, node)
            add_batch(self._builder, activity.op, activity.start_ns, rows)
        self._replaced += _REPLACED in activity.node
        _note(self.observed, activity, node, sizes)

    def emit(self, lines: NodeLines) -> frozenset[str]:
        """Append all of them, with the lines of their nodes; returns what they are evidence for."""
        health = self._builder.health
        count_untimed(health, self._untimed)
        _count_unknown(health, self._unknown)
        _count_replaced(health, self._replaced)
        signals = emit(self._builder, self.entries, self.devices, in_lanes=True, lines=lines)
        self._allocations.finish(by_time=True)
        return signals | {"memory"} if self._allocations.blocks else signals

    def _activity(self, row: Row, node: Any, size: int) -> Activity | None:
        """One entry; None when its time is unusable."""
        start_ns, dur_ns = _interval(node)
        if not (0 < start_ns < _LARGEST_NS and 0 <= dur_ns < _LARGEST_NS - start_ns):
            return None
        name = text(node.node_name)
        if row.kind is RowKind.SYNC:
            return Activity(row, name, "", start_ns, dur_ns, lane=node.thread_id)
        if row.kind is not RowKind.OPS:
            label = text(node.timeline_label)
            owner, op = parse_activity_label(label, name)
            return Activity(row, op, owner, start_ns, dur_ns, bytes=parse_size(label))
        if name in TRANSFERS:
            transfer = parse_transfer_label(text(node.timeline_label))
            tensor = transfer.tensor if transfer is not None else name
            return Activity(row, name, tensor, start_ns, dur_ns, bytes=size)
        op, inputs = self._operation(node.timeline_label)
        return Activity(
            row,
            op,
            name,
            start_ns,
            dur_ns,
            bytes=size,
            inputs=inputs,
            execution=_execution(node),
        )


def _operation(label: bytes) -> tuple[str, tuple[str, ...]]:
    """Type and inputs of an op."""
    return parse_op_label(text(label)), parse_inputs(text(label))


def _count_unknown(health: Health, count: int) -> None:
    health.count(
        "event-without-device",
        "warning",
        "Entries of rows that are no device were left out.",
        count=count,
        dropped=True,
    )


def _count_replaced(health: Health, count: int) -> None:
    health.count(
        "invalid-utf8",
        "warning",
        "The file is not UTF-8 throughout; the offending bytes in names were replaced.",
        count=count,
        dropped=False,
    )


def _execution(node: Any) -> Execution:
    """Time of the op itself and the memory that it took, added up as TensorFlow's profiler does.

    Source: `ExecStep::AddMemoryStats` of `tfprof_node.cc`.
    """
    op_ns = node.op_end_rel_nanos if node.all_start_nanos > 0 else node.op_end_rel_micros * 1000
    op_ns = op_ns or NULL  # a run takes some time: 0 is a field that was not set
    used, own = node.memory, node.memory_stats
    if not used and not node.HasField("memory_stats"):
        return Execution(_known(op_ns), NULL, NULL, NULL)
    kept = own.persistent_memory_size
    return Execution(
        _known(op_ns),
        _known(sum(m.total_bytes for m in used) + kept + own.temp_memory_size),
        _known(sum(m.peak_bytes for m in used) + kept + own.temp_memory_size),
        _known(sum(m.live_bytes for m in used) + kept),
    )


def _known(value: int) -> int:
    """A time or size; NULL when a damaged record makes it absurd."""
    return value if 0 <= value < _LARGEST_NS else NULL


def _interval(node: Any) -> tuple[int, int]:
    """Start and duration in ns: of the whole time on the executor, as TensorFlow's timeline has it.

    Old releases, and transfers in all releases, write microseconds only.
    """
    if node.all_start_nanos > 0:
        return node.all_start_nanos, node.all_end_rel_nanos
    return node.all_start_micros * 1000, node.all_end_rel_micros * 1000


def _note(observed: Observed, activity: Activity, node: Any, sizes: dict[int, int]) -> None:
    """Note the placement and the output sizes of an entry."""
    if activity.row.kind is not RowKind.OPS or activity.is_transfer:
        moved = observed.moved.setdefault(activity.node, Moved())
        moved.add(activity.dur_ns, activity.bytes)
        if activity.is_transfer:
            moved.transfer = parse_transfer_label(text(node.timeline_label))
        return
    if activity.node in {"_SOURCE", "_SINK"}:
        return  # present on every device, part of no program
    observed.ran[activity.node] = (activity.row.device, normalise_op(activity.op))
    for slot, size in sizes.items():
        if (activity.node, slot) in observed.measured:
            observed.sizes[activity.node, slot] = size


def _window(source: Source, health: Health, start_ns: NDArray[np.int64]) -> Window | None:
    """The window of `Session.run`; None if none is recorded, or if it is of another run.

    Args:
        source: The file beside the window's file.
        health: The counters.
        start_ns: Starts of all entries; (entries,).
    """
    window = run_window(source, health)
    if window is None:
        return None
    inside = (start_ns >= window.start_ns) & (start_ns < window.end_ns)
    if not len(start_ns) or inside.any():
        return window
    health.count(
        "window-elsewhere",
        "warning",
        "The recorded window of Session.run holds none of the ops: it was not used.",
        dropped=False,
    )
    return None


def _add_step(builder: TraceBuilder, window: Window) -> None:
    """The window of `Session.run` as a step of the driving thread."""
    track = builder.track(Role.HOST_THREAD, "driving thread")
    dur_ns = window.end_ns - window.start_ns
    source = builder.intern(window.source) if window.source else NULL
    run = builder.slice(track, Kind.STEP, "session.run", window.start_ns, dur_ns, source=source)
    for fed, values in ((1, window.feeds), (0, window.fetches)):
        for value in values:
            _add_session_value(builder, run, fed, value)
    rows = common_rows(value.shape for value in window.feeds if value.shape)
    add_batch(builder, "feed_dict", window.start_ns, rows)


def _add_session_value(builder: TraceBuilder, run: int, fed: int, value: SessionValue) -> None:
    """Add a value that was fed to the run, or fetched from it."""
    texts = {"python_type": value.python_type, "graph_type": value.graph_type}
    shape = None if value.shape is None else builder.intern("x".join(map(str, value.shape)))
    builder.add(
        "session_values",
        slice=run,
        fed=fed,
        name=builder.intern(value.name),
        bytes=NULL if value.bytes is None else _known(value.bytes),
        shape=NULL if shape is None else shape,
        fingerprint=NULL if value.fingerprint is None else _known(value.fingerprint),
        **{key: builder.intern(text) for key, text in texts.items() if text},
    )
