"""TensorFlow's tfprof profiles (`ProfileProto`): one or more traced runs of a graph.

`tf.compat.v1.profiler.Profiler.serialize_to_string` returns one; TensorFlow 1's `ProfileContext`
wrote one per traced step. For every node and step it has the begin of the op and the time that it
took itself, in whole microseconds. It leaves out what a RunMetadata has beside that: what the
executor does after an op, copies and single streams of a GPU, and whether an input is data or only
orders the two nodes.

Source: `tfprof_log.proto`; `tfprof_stats.cc` and `tfprof_node.cc` (what of a RunMetadata is kept).
"""

from __future__ import annotations

from array import array
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from stepwhy.base.columns.growing import NarrowColumn
from stepwhy.base.errors import CorruptInputError, EmptyInputError
from stepwhy.read.formats.tfprof.profile_chunks import ProfileChunks
from stepwhy.read.formats.tfprof.profile_runs import ProfileRuns
from stepwhy.read.formats.tfprof.profile_steps import step_spans
from stepwhy.read.inputs.source import give_back
from stepwhy.read.inputs.wire import fields, integer
from stepwhy.read.shared.several_files import count_joined, messages_joined
from stepwhy.read.shared.tensorflow.activity import emit, meta_of
from stepwhy.read.shared.tensorflow.allocations import Allocations
from stepwhy.read.shared.tensorflow.entries import Entries
from stepwhy.read.shared.tensorflow.graphs import text
from stepwhy.read.shared.tensorflow.node_lines import NodeLines
from stepwhy.read.shared.tensorflow.ops import normalise_op
from stepwhy.read.shared.tensorflow.placement import Observed, Placed, Requested, add_placement
from stepwhy.read.shared.tensorflow.rows import RowKind, parse_row
from stepwhy.read.shared.tensorflow.sidecars import OpSource
from stepwhy.trace import DeviceKind, Kind, Role, TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.read.formats.tfprof.profile_steps import Span
    from stepwhy.read.inputs.source import Source
    from stepwhy.read.inputs.wire import Data, Field
    from stepwhy.trace import Health, Meta, Trace

FORMAT = "tfprof"
# Whether a profile has traces and lacks an accelerator, which it tells once each.
_SINGLE = (2, 5)

_NS_PER_US = 1000
# So many nodes are looked at to recognise a profile.
_LOOKED_AT = 8
# An entry of a map has a key and a value.
_PARTS = 2

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
    data = source.head if first.end <= len(source.head) else source.mapped
    whole = takewhile(lambda f: f.number == 1 and f.end <= len(data), fields(data))
    nodes = [_is_node(data, f) for f in islice(whole, _LOOKED_AT) if f.is_message]
    # One of them may be damaged.
    return 2 * sum(nodes) > len(nodes)


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
    profile = ProfileChunks(source.mapped)
    _count_damage(builder.health, profile.damaged, torn=profile.is_torn)
    if not profile.names:
        raise CorruptInputError(
            f"{source.origin} is a damaged tfprof profile",
            "Write it again with Profiler.serialize_to_string",
        )
    nodes = _Nodes(builder, profile)
    for node in profile:
        nodes.add(node)
    joined = messages_joined(source.mapped, _SINGLE)
    count_joined(builder.health, max(joined, int(nodes.has_repeated)))
    if not len(nodes.entries):
        raise EmptyInputError(
            f"{source.origin} is a tfprof profile without an operation that ran",
            "Give the profiler the RunMetadata of a run traced with FULL_TRACE (add_step)",
        )
    meta = nodes.emit()
    del nodes  # its columns are the builder's now
    give_back()
    trace = builder.finish(meta)
    give_back()
    return trace


def _is_node(data: Data, entry: Field) -> bool:
    """Whether an entry of a map is a node's: its key is the number that the node bears."""
    parts = {f.number: f for f in islice(fields(data, entry.start, entry.end), _PARTS + 1)}
    if set(parts) != {1, 2} or not parts[2].is_message or parts[2].end != entry.end:
        return False
    inside = list(fields(data, parts[2].start, entry.end))
    named = {1, 9} <= {f.number for f in inside if f.is_message}
    number = next((integer(data, f) for f in inside if f.number == 13), 0)
    return named and integer(data, parts[1]) == number


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


class _Nodes:
    """Collects the nodes of a profile.

    Args:
        builder: Receives their runs, memory and placement.
        profile: The profile.
    """

    def __init__(self, builder: TraceBuilder, profile: ProfileChunks) -> None:
        self._builder, self._code = builder, profile.code
        self._runs = ProfileRuns(profile.names, builder.health)
        self._allocations = Allocations(builder)
        self._has_memory = False
        self._observed = Observed()
        self._lines: dict[str, str] = {}
        self._steps = NarrowColumn()
        self._numbers: dict[int, int] = {}
        self.entries = Entries()
        self.has_repeated = False

    def add(self, node: Any) -> None:
        """Add a node and its runs."""
        steps = array("q")
        for step, activity in self._runs.of(node):
            self.entries.add(activity)
            steps.append(self._numbers.setdefault(step, len(self._numbers)))
            if activity.row.kind is RowKind.OPS:
                place = activity.row.device, normalise_op(activity.op)
                self._observed.ran[activity.node] = place
        self._steps.append(np.frombuffer(steps, dtype=np.int64))
        self.has_repeated |= text(node.name) in self._lines
        self._lines[text(node.name)] = self._code.line(node.trace)
        self._add_memory(node)

    def _add_memory(self, node: Any) -> None:
        """Add the blocks of an accelerator's allocator; profiles have no others."""
        row = parse_row(text(node.canonical_device))
        if row is None or row.device_kind is DeviceKind.CPU:
            return
        owner = text(node.name)
        for entry in node.execs:
            self._allocations.add_blocks(entry.value.allocations, row.device, owner)
            for record in entry.value.memory_execs:
                total, time_ns = record.allocator_bytes_in_use, record.memory_micros * _NS_PER_US
                self._allocations.add_total(total, time_ns, row.device, owner)
                self._has_memory |= total > 0

    def emit(self) -> Meta:
        """Add everything to the trace; returns the facts about the run."""
        self._runs.count()
        spans = self._spans()
        rows = set(self.entries.rows)
        lines = NodeLines({node: line for node, line in self._lines.items() if line})
        signals = emit(self._builder, self.entries, rows, in_lanes=True, lines=lines)
        self._allocations.finish()
        if self._has_memory or self._allocations.blocks:
            signals |= {"memory"}
        sources = {
            name: OpSource(source=self._lines[name])
            for name in self._observed.ran
            if self._lines.get(name)
        }
        if add_placement(self._builder, Placed(), Requested({}, sources), self._observed):
            signals |= {"placement"}
        _add_steps(self._builder, spans)
        meta = meta_of(FORMAT, rows, signals)
        known = meta.signals if spans else meta.signals - {"whole-step"}
        return replace(meta, signals=known, notes=(*meta.notes, _WHOLE_MICROSECONDS))

    def _spans(self) -> list[Span]:
        """The traced runs of the graph; frees the step numbers of ops."""
        steps, self._steps = self._steps.values(), NarrowColumn()
        return step_spans(self.entries, steps, self._numbers)


def _add_steps(builder: TraceBuilder, spans: Sequence[Span]) -> None:
    """Add the steps, each from its first op to its last.

    A single step is not added, because it is the whole trace.
    """
    if not spans:
        builder.health.count(
            "steps-overlap",
            "warning",
            "Traced steps overlap in time, as those of parallel sessions do: the end of a step is "
            "unknown.",
            dropped=False,
        )
    elif len(spans) > 1:
        track = builder.track(Role.HOST_THREAD, "traced runs")
        for start_ns, end_ns, name in spans:
            builder.slice(track, Kind.STEP, name, start_ns, end_ns - start_ns)
