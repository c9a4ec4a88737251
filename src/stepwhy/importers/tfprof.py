"""TensorFlow's tfprof profiles (`ProfileProto`): one or more traced runs of a graph.

`tf.compat.v1.profiler.Profiler.serialize_to_string` returns one; TensorFlow 1's `ProfileContext`
wrote one per traced step. For every node and step it has the begin of the op and the time that it
took itself, in whole microseconds. It leaves out what a RunMetadata has beside that: what the
executor does after an op, copies and single streams of a GPU, and whether an input is data or only
orders the two nodes.

Source: `tfprof_log.proto`; `tfprof_stats.cc` and `tfprof_node.cc` (what of a RunMetadata is kept).
"""

from __future__ import annotations

from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stepwhy.errors import CorruptInputError, EmptyInputError
from stepwhy.importers.tensorflow.activity import emit, in_lanes, meta_of
from stepwhy.importers.tensorflow.allocations import add_blocks, add_total
from stepwhy.importers.tensorflow.code_defs import CodeDefs
from stepwhy.importers.tensorflow.graphs import text
from stepwhy.importers.tensorflow.messages import message_class, parse_message
from stepwhy.importers.tensorflow.ops import normalise_op
from stepwhy.importers.tensorflow.placement import Observed, Requested, add_placement
from stepwhy.importers.tensorflow.profile_runs import ProfileRuns
from stepwhy.importers.tensorflow.profile_steps import step_spans
from stepwhy.importers.tensorflow.rows import RowKind, parse_row
from stepwhy.importers.tensorflow.sidecars import OpSource
from stepwhy.importers.tensorflow.wire import dig, fields, integer
from stepwhy.trace import DeviceKind, Kind, Role, TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.importers.source import Source
    from stepwhy.importers.tensorflow.profile_runs import Run
    from stepwhy.importers.tensorflow.rows import Row
    from stepwhy.trace import Health, Meta, Trace

FORMAT = "tfprof"

_NS_PER_US = 1000
# So many nodes are looked at to recognise a profile.
_LOOKED_AT = 8

_WHOLE_MICROSECONDS = (
    "A tfprof profile times operations in whole microseconds: one that took less counts as one, "
    "and what the executor did after an operation is in none."
)


def recognise(source: Source) -> bool:
    """Whether the file is a ProfileProto: nodes with name and type, each under its own number."""
    first = next(fields(source.head), None)
    if first is None or first.number != 1 or not first.is_message:
        return False
    # A node with a large constant in it can fill the head.
    data = source.head if first.end <= len(source.head) else source.data
    whole = takewhile(lambda f: f.number == 1 and f.end <= len(data), fields(data))
    nodes = [data[f.start : f.end] for f in islice(whole, _LOOKED_AT) if f.is_message]
    # One of them may be damaged.
    return 2 * sum(map(_is_node, nodes)) > len(nodes)


def read(source: Source) -> Trace | None:
    """The trace of all steps of a profile; None when the file is another message.

    Args:
        source: The file.

    Raises:
        CorruptInputError: Nothing of the message can be read.
        EmptyInputError: No op of it ran.
    """
    if not recognise(source):
        return None
    builder = TraceBuilder()
    profile = _parse(source, builder.health)
    nodes = [entry.value for entry in profile.nodes]
    runs = list(ProfileRuns(profile, builder.health))
    if not runs:
        raise EmptyInputError(
            f"{source.origin} is a tfprof profile without an operation that ran",
            "Give the profiler the RunMetadata of a run traced with FULL_TRACE (add_step)",
        )
    rows = {run.activity.row for run in runs}
    signals = emit(builder, in_lanes([run.activity for run in runs]), rows)
    if _add_memory(builder, nodes):
        signals |= {"memory"}
    if _add_nodes(builder, profile, runs):
        signals |= {"placement"}
    tells_steps = _add_steps(builder, runs)
    return builder.finish(_meta(rows, signals, tells_steps=tells_steps))


def _is_node(entry: bytes) -> bool:
    """Whether an entry of a map is a node's: its key is the number that the node bears."""
    parts = {field.number: field for field in fields(entry)}
    if set(parts) != {1, 2} or not parts[2].is_message or parts[2].end != len(entry):
        return False
    node = entry[parts[2].start :]
    number = next((integer(node, f) for f in fields(node) if f.number == 13), 0)
    named = all(any(dig(node, part)) for part in (1, 9))
    return named and integer(entry, parts[1]) == number


def _parse(source: Source, health: Health) -> Any:
    profile = parse_message("ProfileProto", source.data)
    return _whole_parts(source, health) if profile is None else profile


def _whole_parts(source: Source, health: Health) -> Any:
    """What can be read of a damaged or torn profile: its entries, one by one.

    Raises:
        CorruptInputError: That is not a single node.
    """
    profile, damaged, end = message_class("ProfileProto")(), 0, 0
    for field in fields(source.data):
        end = field.end
        part = parse_message("ProfileProto", source.data[field.key : field.end])
        if part is not None:
            profile.MergeFrom(part)
        else:
            damaged += end <= len(source.data)
    if not profile.nodes:
        raise CorruptInputError(
            f"{source.origin} is a damaged tfprof profile",
            "Write it again with Profiler.serialize_to_string",
        )
    _count_damage(health, damaged, torn=end != len(source.data))
    return profile


def _count_damage(health: Health, damaged: int, *, torn: bool) -> None:
    health.count(
        "node-damaged",
        "error",
        "Nodes and lines that are damaged were left out: totals lack them. Copy the file again.",
        count=damaged,
        dropped=False,
    )
    if torn:
        health.count(
            "protobuf-truncated",
            "error",
            "The file ends before its message does: nodes and lines are missing. Totals cover the "
            "readable part only. Copy the file again.",
            dropped=False,
        )


def _add_memory(builder: TraceBuilder, nodes: Sequence[Any]) -> bool:
    """Append the blocks of accelerators' allocators, the only ones that a profile keeps.

    Returns:
        Whether anything is known of them.
    """
    number, told = 0, False
    for node in nodes:
        row = parse_row(text(node.canonical_device))
        if row is None or row.device_kind is DeviceKind.CPU:
            continue
        shared = {"pool": builder.intern(row.device), "owner": builder.intern(text(node.name))}
        for entry in node.execs:
            number = add_blocks(builder, entry.value.allocations, number, **shared)
            for record in entry.value.memory_execs:
                time_ns = record.memory_micros * _NS_PER_US
                add_total(builder, record.allocator_bytes_in_use, time_ns, **shared)
                told |= record.allocator_bytes_in_use > 0
    return told or number > 0


def _add_nodes(builder: TraceBuilder, profile: Any, runs: Sequence[Run]) -> bool:
    """Append the nodes that ran, with their lines; returns whether there were any."""
    observed = Observed()
    for activity in (run.activity for run in runs if run.activity.row.kind is RowKind.OPS):
        observed.ran[activity.node] = (activity.row.device, normalise_op(activity.op))
    code = CodeDefs(profile.id_to_string)
    lines = {text(e.value.name): code.line(e.value.trace) for e in profile.nodes}
    sources = {n: OpSource(source=lines[n]) for n in observed.ran if lines.get(n)}
    return add_placement(builder, [], Requested({}, sources), observed)


def _add_steps(builder: TraceBuilder, runs: Sequence[Run]) -> bool:
    """Append each of several steps, from its first op to its last; returns whether steps are told.

    A single step needs no mark: it is the whole record.
    """
    spans = step_spans(runs)
    if not spans:
        builder.health.count(
            "steps-overlap",
            "warning",
            "Traced steps overlap in time, as those of parallel sessions do: where one step ends "
            "cannot be told.",
            dropped=False,
        )
    elif len(spans) > 1:
        track = builder.track(Role.HOST_THREAD, "traced runs")
        for start_ns, end_ns, name in spans:
            builder.slice(track, Kind.STEP, name, start_ns, end_ns - start_ns)
    return bool(spans)


def _meta(rows: set[Row], signals: frozenset[str], *, tells_steps: bool) -> Meta:
    meta = meta_of(FORMAT, rows, signals)
    known = meta.signals if tells_steps else meta.signals - {"whole-step"}
    return replace(meta, signals=known, notes=(*meta.notes, _WHOLE_MICROSECONDS))
