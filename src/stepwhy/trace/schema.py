"""The columns of a trace: unit, null meaning and ordering of each, as data.

The tables are structs of arrays. `docs/reference/trace-schema.md` is generated from this file.
A change of meaning needs a new `SCHEMA_VERSION` and an upgrader in `store`. A new table, or a new
column that may be null, needs neither: a file that lacks it reads as one in which it is empty.
"""

from __future__ import annotations

from typing import Literal

import msgspec

# 1: first version.
SCHEMA_VERSION = 1

NULL = -1
"""Null of every index and count column; 'not recorded', never zero."""

Table = Literal[
    "devices",
    "tracks",
    "slices",
    "flows",
    "counters",
    "nodes",
    "copies",
    "marks",
    "samples",
    "events",
    "levels",
    "stages",
    "executions",
    "handed",
    "allocations",
]
Type = Literal["int8", "int32", "int64", "float64"]


class Column(msgspec.Struct, frozen=True):
    """One column of one table.

    Args:
        table: The table.
        name: The column's name.
        dtype: NumPy dtype of its array; those of `NARROW_COLUMNS` may be narrower.
        unit: 'ns', 'bytes', 'string' (index into `Trace.strings`), 'Kind', '' ...
        null: What stands for 'not recorded', in words; '' when the column is never null.
        help: One sentence.
    """

    table: Table
    name: str
    dtype: Type
    unit: str
    null: str
    help: str


_NO_STRING = "-1"

COLUMNS: tuple[Column, ...] = (
    Column(
        "devices", "name", "int32", "string", "", "Name as the trace gives it, host part removed."
    ),
    Column("devices", "kind", "int8", "DeviceKind", "", "CPU, GPU, TPU or another accelerator."),
    Column("devices", "model", "int32", "string", _NO_STRING, "Model name, e.g. 'NVIDIA A100'."),
    Column("tracks", "role", "int8", "Role", "", "What lies on the track."),
    Column("tracks", "name", "int32", "string", "", "Name for people, e.g. 'stream 7'."),
    Column(
        "tracks", "process", "int64", "", "-1", "Process id; an id, not a number to compute with."
    ),
    Column("tracks", "thread", "int64", "", "-1", "Thread or stream id."),
    Column("tracks", "device", "int32", "row of devices", "-1", "Device of a stream or executor."),
    Column(
        "slices",
        "start_ns",
        "int64",
        "ns",
        "",
        "Start on the trace's clock. Rows are ordered by start, then longest first: "
        "on one track a parent comes before its children.",
    ),
    Column("slices", "dur_ns", "int64", "ns", "", "Duration, never negative."),
    Column("slices", "track", "int32", "row of tracks", "", "Where it lies."),
    Column("slices", "kind", "int8", "Kind", "", "What it is."),
    Column("slices", "name", "int32", "string", "", "Name; for graph ops the op type."),
    Column(
        "slices",
        "scope",
        "int32",
        "string",
        _NO_STRING,
        "Node name with its name scope (graph ops).",
    ),
    Column(
        "slices", "source", "int32", "string", _NO_STRING, "Source line 'file(line): function'."
    ),
    Column("slices", "phase", "int8", "Phase", "0", "Phase where the importer knows it."),
    Column(
        "slices",
        "correlation",
        "int64",
        "",
        "-1",
        "Joins a LAUNCH/RUNTIME/SYNC call with its device slices.",
    ),
    Column(
        "slices",
        "sequence",
        "int64",
        "",
        "-1",
        "Autograd sequence number: equal in forward and backward.",
    ),
    Column("slices", "copy", "int8", "Copy", "0", "Direction of a MEMCPY."),
    Column(
        "slices",
        "pageable",
        "int8",
        "0 or 1",
        "-1",
        "Whether the host side of a copy is pageable memory.",
    ),
    Column(
        "slices",
        "bytes",
        "int64",
        "bytes",
        "-1",
        "Bytes moved (copies, collectives) or produced (ops).",
    ),
    Column("flows", "source", "int32", "row of slices", "", "Where the flow begins."),
    Column("flows", "target", "int32", "row of slices", "", "Where it ends."),
    Column("flows", "kind", "int8", "FlowKind", "", "What it says."),
    Column("counters", "time_ns", "int64", "ns", "", "When; rows are ordered by time."),
    Column(
        "counters",
        "name",
        "int32",
        "string",
        "",
        "What was sampled, e.g. 'device memory allocated'.",
    ),
    Column("counters", "device", "int32", "row of devices", "-1", "Device it belongs to."),
    Column("counters", "value", "int64", "as named", "", "The sample."),
    Column("nodes", "name", "int32", "string", "", "Graph node, with its name scope."),
    Column("nodes", "op", "int32", "string", "", "Op type as the program wrote it."),
    Column(
        "nodes",
        "requested",
        "int32",
        "string",
        _NO_STRING,
        "Device the program asked for; '' when it asked for none.",
    ),
    Column(
        "nodes",
        "actual",
        "int32",
        "string",
        _NO_STRING,
        "Device it ran on; null when it never ran.",
    ),
    Column(
        "nodes",
        "outer",
        "int32",
        "string",
        _NO_STRING,
        "Device that an enclosing device scope asked for before an inner scope replaced it.",
    ),
    Column(
        "nodes",
        "scope_line",
        "int32",
        "string",
        _NO_STRING,
        "Source line of the device scope that decided `requested`.",
    ),
    Column("nodes", "source", "int32", "string", _NO_STRING, "Source line that created the node."),
    Column(
        "nodes",
        "colocated",
        "int32",
        "string",
        _NO_STRING,
        "Node that it is bound to by colocation.",
    ),
    Column("copies", "source", "int32", "row of nodes", "", "Node whose output travels."),
    Column(
        "copies", "target", "int32", "row of nodes", "-1", "A consumer of it on the other device."
    ),
    Column("copies", "from_device", "int32", "string", "", "Sending device."),
    Column("copies", "to_device", "int32", "string", "", "Receiving device."),
    Column("copies", "bytes", "int64", "bytes", "-1", "Size of the tensor, per run of the graph."),
    Column("copies", "dur_ns", "int64", "ns", "-1", "Time of the transfer, per run of the graph."),
    Column("marks", "start_ns", "int64", "ns", "", "Start of an observed step; ordered."),
    Column("marks", "dur_ns", "int64", "ns", "", "Its wall time."),
    Column("marks", "profiled", "int8", "0 or 1", "", "Whether a profiler ran during it."),
    Column(
        "marks",
        "input_wait_ns",
        "int64",
        "ns",
        "-1",
        "Time in which its driving thread waited for a batch.",
    ),
    Column("marks", "cpu_ns", "int64", "ns", "-1", "CPU time of its driving thread."),
    Column(
        "marks", "compile_ns", "int64", "ns", "-1", "Time spent tracing or compiling inside it."
    ),
    Column(
        "marks",
        "graph_ns",
        "int64",
        "ns",
        "-1",
        "Time inside the framework's run call (TF1 `Session.run`).",
    ),
    Column(
        "marks",
        "light",
        "int8",
        "0, 1 or 2",
        "0",
        "1: it was only timed, so that its other columns are null; 2: parts of it were.",
    ),
    Column(
        "samples",
        "line",
        "int32",
        "string",
        "",
        "Innermost line of the program's own code, 'file(line): function'; '' without any.",
    ),
    Column(
        "samples", "leaf", "int32", "string", "", "Package that ran; '' for the program itself."
    ),
    Column("samples", "count", "int64", "", "", "Stack samples taken there."),
    Column("samples", "role", "int8", "SampleRole", "0", "Which thread they are of."),
    Column(
        "samples",
        "entry",
        "int32",
        "string",
        _NO_STRING,
        "What of an input pipeline called the line: 'DataLoader', 'py_func', 'PyDataset', or "
        "'feed' for a thread that fills a queue; null where nothing of it is known.",
    ),
    Column("samples", "start_ns", "int64", "ns", "-1", "When the sampling began that saw it."),
    Column("samples", "end_ns", "int64", "ns", "-1", "When that sampling ended."),
    Column(
        "events",
        "kind",
        "int32",
        "string",
        "",
        "'trace': a function was traced; 'compile': something was compiled; 'graph': a session's "
        "graph has grown; 'change': the step time has changed for good; 'workers': a loader has "
        "started its workers; 'epoch': a loader was asked to begin anew, until its first batch.",
    ),
    Column("events", "start_ns", "int64", "ns", "", "When it began; rows are ordered by it."),
    Column("events", "dur_ns", "int64", "ns", "", "How long it took, never negative."),
    Column("events", "name", "int32", "string", "", "What was traced or compiled."),
    Column("events", "reason", "int32", "string", _NO_STRING, "Why, in the framework's words."),
    Column(
        "events",
        "source",
        "int32",
        "string",
        _NO_STRING,
        "Line of the program that caused it, 'file(line): function'.",
    ),
    Column(
        "events",
        "count",
        "int64",
        "",
        "-1",
        "Traces of this function so far; operations added to the graph; workers; epochs so far.",
    ),
    Column("levels", "time_ns", "int64", "ns", "", "When; rows are ordered by time."),
    Column("levels", "queue", "int32", "string", "", "Name of the queue or buffer."),
    Column("levels", "kind", "int32", "string", "", "'tf1-queue', 'tf.data' or 'dataloader'."),
    Column("levels", "value", "int64", "", "", "Elements in it."),
    Column("levels", "capacity", "int64", "", "-1", "How many it holds; null without a bound."),
    Column("levels", "reserve", "int64", "", "", "How many of them cannot be taken out."),
    Column(
        "stages",
        "name",
        "int32",
        "string",
        "",
        "What the stage does, in the library's words, with what makes the name its own; if it "
        "keeps a buffer, the name of that in `levels`.",
    ),
    Column("stages", "kind", "int32", "string", "", "As in `levels`."),
    Column(
        "stages",
        "taker",
        "int32",
        "string",
        _NO_STRING,
        "The stage that takes from it; null: the training. Takers come before what they take from.",
    ),
    Column("stages", "buffered", "int8", "0 or 1", "", "Whether a buffer keeps what it makes."),
    Column("stages", "parallelism", "int64", "", "-1", "Threads or processes that do its work."),
    Column("stages", "buffer_size", "int64", "", "-1", "Elements that its buffer holds."),
    Column("stages", "elements", "int64", "", "-1", "Elements that it has made."),
    Column(
        "stages",
        "processing_ns",
        "int64",
        "ns",
        "-1",
        "Work per element over all of its threads, without that of the stages before it.",
    ),
    Column("executions", "slice", "int32", "row of slices", "", "The run of a graph operation."),
    Column(
        "executions",
        "written",
        "int32",
        "string",
        _NO_STRING,
        "Op type as the runtime wrote it, e.g. '_MklMatMul'.",
    ),
    Column(
        "executions",
        "op_ns",
        "int64",
        "ns",
        "-1",
        "From the start of the slice until the operation itself returned: what follows is the "
        "executor's work.",
    ),
    Column(
        "executions",
        "requested_bytes",
        "int64",
        "bytes",
        "-1",
        "All memory that it asked for: outputs, temporary and persistent.",
    ),
    Column(
        "executions", "peak_bytes", "int64", "bytes", "-1", "The most of it that it held at once."
    ),
    Column(
        "executions",
        "residual_bytes",
        "int64",
        "bytes",
        "-1",
        "What of it was still held when it returned.",
    ),
    Column("handed", "slice", "int32", "row of slices", "", "The run of a graph."),
    Column("handed", "fed", "int8", "0 or 1", "", "1: it was fed to the run; 0: fetched from it."),
    Column("handed", "name", "int32", "string", "", "Name in the graph."),
    Column(
        "handed",
        "given",
        "int32",
        "string",
        _NO_STRING,
        "What was handed over: the type of an array ('float64'), or 'list of float'.",
    ),
    Column("handed", "wanted", "int32", "string", _NO_STRING, "Type in the graph of what was fed."),
    Column("handed", "bytes", "int64", "bytes", "-1", "Size, in the type that was wanted."),
    Column("allocations", "time_ns", "int64", "ns", "", "When; rows are ordered by time."),
    Column("allocations", "pool", "int32", "string", "", "Name of the allocator, or its device."),
    Column("allocations", "host", "int8", "0 or 1", "", "Whether it is memory of the host."),
    Column(
        "allocations",
        "change",
        "int64",
        "bytes",
        "",
        "Allocated where positive, freed where negative; 0 where only `total` was read.",
    ),
    Column(
        "allocations",
        "block",
        "int64",
        "",
        "-1",
        "Joins a block's allocation with its release: they are one after the other.",
    ),
    Column(
        "allocations", "track", "int32", "row of tracks", "-1", "The host thread that asked for it."
    ),
    Column(
        "allocations",
        "owner",
        "int32",
        "string",
        _NO_STRING,
        "Graph node that asked for the block.",
    ),
    Column(
        "allocations", "total", "int64", "bytes", "-1", "What the allocator has handed out, after."
    ),
    Column("allocations", "reserved", "int64", "bytes", "-1", "What it has taken from the system."),
)

TABLES: tuple[Table, ...] = (
    "devices",
    "tracks",
    "slices",
    "flows",
    "counters",
    "nodes",
    "copies",
    "marks",
    "samples",
    "events",
    "levels",
    "stages",
    "executions",
    "handed",
    "allocations",
)


def columns_of(table: Table) -> tuple[Column, ...]:
    """The columns of one table, in order."""
    return tuple(c for c in COLUMNS if c.table == table)


def _may_be_narrow(column: Column) -> bool:
    # Times and sizes stay wide, as they are added up.
    is_index = column.unit == "string" or column.unit.startswith("row of ")
    return is_index or column.name in {"correlation", "sequence"}


NARROW_COLUMNS: frozenset[str] = frozenset(
    c.name for c in columns_of("slices") if _may_be_narrow(c)
)
"""Columns of slices that may be narrower than the schema says."""
