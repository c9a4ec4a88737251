"""Schema of a trace: unit, null meaning and ordering of each column, as data.

Each table is stored as one array per column. `docs/reference/trace-schema.md` is generated from
this file.

A change of names needs a new `SCHEMA_VERSION` and an entry in `versions`. A new table or a new
nullable column does not: it reads as empty from files that lack it.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

# The history of versions is in `versions`.
SCHEMA_VERSION = 2

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
    "session_values",
    "allocations",
    "waits",
    "collectives",
]
Type = Literal["int8", "int32", "int64", "float64"]


class Column(msgspec.Struct, frozen=True):
    """One column of one table.

    Args:
        table: The table.
        name: The column's name.
        dtype: NumPy dtype of its array; columns in `NARROW_COLUMNS` may use a narrower one.
        unit: 'ns', 'bytes', 'string' (index into `Trace.strings`), 'Kind', '' ...
        null: Value that means 'not recorded'; '' if the column is never null.
        help: One sentence.
    """

    table: Table
    name: str
    dtype: Type
    unit: str
    null: str
    help: str


_NO_STRING = "-1"


def _string(table: Table, name: str, description: str, *, null: str = "") -> Column:
    """A column of indices into `Trace.strings`."""
    return Column(table, name, "int32", "string", null, description)


COLUMNS: tuple[Column, ...] = (
    _string("devices", "name", "Name as the trace gives it, host part removed."),
    Column("devices", "kind", "int8", "DeviceKind", "", "CPU, GPU, TPU or another accelerator."),
    _string("devices", "model", "Model name, e.g. 'NVIDIA A100'.", null=_NO_STRING),
    Column("tracks", "role", "int8", "Role", "", "What the track shows."),
    _string("tracks", "name", "Name to show, e.g. 'stream 7'."),
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
        "parents come before their children.",
    ),
    Column("slices", "dur_ns", "int64", "ns", "", "Duration, never negative."),
    Column("slices", "track", "int32", "row of tracks", "", "Track of the slice."),
    Column("slices", "kind", "int8", "Kind", "", "What the slice is."),
    _string("slices", "name", "Name; for graph ops the op type."),
    _string("slices", "scope", "Node name with its name scope (graph ops).", null=_NO_STRING),
    _string("slices", "source", "Source line 'file(line): function'.", null=_NO_STRING),
    Column("slices", "phase", "int8", "Phase", "0", "Phase, if the importer knows it."),
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
    Column("flows", "source", "int32", "row of slices", "", "Slice where the flow begins."),
    Column("flows", "target", "int32", "row of slices", "", "Slice where it ends."),
    Column("flows", "kind", "int8", "FlowKind", "", "What the flow connects."),
    Column("counters", "time_ns", "int64", "ns", "", "Time of the sample; rows are ordered by it."),
    _string("counters", "name", "What was sampled, e.g. 'device memory allocated'."),
    Column("counters", "device", "int32", "row of devices", "-1", "Device it belongs to."),
    Column("counters", "value", "int64", "as named", "", "Value of the sample."),
    _string("nodes", "name", "Graph node, with its name scope."),
    _string("nodes", "op", "Op type as the program wrote it."),
    _string(
        "nodes", "requested", "Device that the program requested; '' for none.", null=_NO_STRING
    ),
    _string("nodes", "actual", "Device it ran on; null if it never ran.", null=_NO_STRING),
    _string(
        "nodes",
        "outer",
        "Device of an enclosing device scope that an inner scope replaced.",
        null=_NO_STRING,
    ),
    _string(
        "nodes",
        "scope_line",
        "Source line of the device scope that decided `requested`.",
        null=_NO_STRING,
    ),
    _string("nodes", "source", "Source line that created the node.", null=_NO_STRING),
    _string("nodes", "colocated_with", "Node that it is colocated with.", null=_NO_STRING),
    Column("copies", "source", "int32", "row of nodes", "", "Node whose output is copied."),
    Column(
        "copies",
        "target",
        "int32",
        "row of nodes",
        "-1",
        "A node on the other device that reads it.",
    ),
    _string("copies", "from_device", "Sending device."),
    _string("copies", "to_device", "Receiving device."),
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
        "marks", "process_cpu_ns", "int64", "ns", "-1", "CPU time of all threads of its process."
    ),
    Column(
        "marks",
        "run_delay_ns",
        "int64",
        "ns",
        "-1",
        "Time in which its driving thread was ready to run, but had no core.",
    ),
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
        "1: only timed, so its other columns are null; 2: only partly observed.",
    ),
    _string(
        "samples",
        "line",
        "Innermost line of the program's own code, 'file(line): function'; '' without any.",
    ),
    _string(
        "samples",
        "package",
        "Package that ran, or a library that logs and called it; '' for the program itself.",
    ),
    Column("samples", "count", "int64", "", "", "Number of stack samples."),
    Column("samples", "role", "int8", "SampleRole", "0", "Thread that was sampled."),
    _string(
        "samples",
        "entry",
        "Part of the input pipeline that called the line: 'DataLoader', 'py_func', "
        "'PyDataset', 'feed' for a thread that fills a queue, or 'generator' for a generator "
        "function of the program; or the caller from compiled code: 'jax callback', "
        "'autograd.Function' with its class; null if unknown.",
        null=_NO_STRING,
    ),
    Column("samples", "start_ns", "int64", "ns", "-1", "Start of the sampling session."),
    Column("samples", "end_ns", "int64", "ns", "-1", "End of the sampling session."),
    _string(
        "events",
        "kind",
        "'trace': a function was traced; 'compile': something was compiled; 'graph': a session's "
        "graph has grown; 'change': the step time has changed permanently; 'workers': a loader has "
        "started its workers; 'epoch': a loader was restarted, until its first batch; 'save': a "
        "checkpoint was saved; 'gc': Python's garbage collector has paused the process; "
        "'profiler': the training's own profiler ran; 'parameters': a model has trainable "
        "parameters of the named type; 'session': a session ran for the first time.",
    ),
    Column("events", "start_ns", "int64", "ns", "", "Start; rows are ordered by it."),
    Column("events", "dur_ns", "int64", "ns", "", "Duration, never negative."),
    _string("events", "name", "What was traced or compiled."),
    _string("events", "reason", "Why, in the framework's words.", null=_NO_STRING),
    _string(
        "events",
        "source",
        "Line of the program that caused it, 'file(line): function'.",
        null=_NO_STRING,
    ),
    Column(
        "events",
        "count",
        "int64",
        "",
        "-1",
        "Traces of this function so far; operations added to the graph; workers; epochs so far; "
        "objects freed; elements of the parameters.",
    ),
    Column("levels", "time_ns", "int64", "ns", "", "Time of the sample; rows are ordered by it."),
    _string("levels", "queue", "Name of the queue or buffer."),
    _string("levels", "kind", "'tf1-queue', 'tf.data' or 'dataloader'."),
    Column("levels", "value", "int64", "", "", "Elements in it."),
    Column(
        "levels", "capacity", "int64", "", "-1", "Maximum number of elements; null if unbounded."
    ),
    Column("levels", "reserve", "int64", "", "", "Number of elements that cannot be removed."),
    _string(
        "stages",
        "name",
        "Operation of the stage in the library's words, made unique; for a stage with a buffer, "
        "the name of its queue in `levels`.",
    ),
    _string("stages", "kind", "As in `levels`."),
    _string(
        "stages",
        "consumer",
        "The consuming stage; null for the training. Consumers come before their producers.",
        null=_NO_STRING,
    ),
    Column("stages", "buffered", "int8", "0 or 1", "", "Whether its elements are buffered."),
    Column("stages", "parallelism", "int64", "", "-1", "Number of its threads or processes."),
    Column(
        "stages", "tuned", "int8", "0 or 1", "-1", "Whether its library chooses its parallelism."
    ),
    Column(
        "stages", "persistent", "int8", "0 or 1", "-1", "Whether its processes outlive an epoch."
    ),
    Column("stages", "buffer_size", "int64", "", "-1", "Capacity of its buffer, elements."),
    Column("stages", "elements", "int64", "", "-1", "Number of elements produced."),
    Column(
        "stages",
        "processing_ns",
        "int64",
        "ns",
        "-1",
        "Work per element over all of its threads, without its producers.",
    ),
    Column("executions", "slice", "int32", "row of slices", "", "The run of a graph operation."),
    _string(
        "executions",
        "runtime_op",
        "Op type as the runtime wrote it, e.g. '_MklMatMul'.",
        null=_NO_STRING,
    ),
    Column(
        "executions",
        "op_ns",
        "int64",
        "ns",
        "-1",
        "From the start of the slice until the operation itself returned; the rest is the "
        "executor's work.",
    ),
    Column(
        "executions",
        "requested_bytes",
        "int64",
        "bytes",
        "-1",
        "All memory requested: outputs, temporary and persistent.",
    ),
    Column("executions", "peak_bytes", "int64", "bytes", "-1", "Peak memory of the operation."),
    Column(
        "executions",
        "residual_bytes",
        "int64",
        "bytes",
        "-1",
        "Memory still allocated when it returned.",
    ),
    Column("session_values", "slice", "int32", "row of slices", "", "The run of a graph."),
    Column("session_values", "fed", "int8", "0 or 1", "", "1: fed to the run; 0: fetched from it."),
    _string("session_values", "name", "Name in the graph."),
    _string(
        "session_values",
        "python_type",
        "Type of the Python value: that of an array ('float64'), or 'list of float'.",
        null=_NO_STRING,
    ),
    _string("session_values", "graph_type", "Type of a fed tensor in the graph.", null=_NO_STRING),
    Column("session_values", "bytes", "int64", "bytes", "-1", "Size, in the type of the graph."),
    Column(
        "session_values",
        "fingerprint",
        "int64",
        "",
        "-1",
        "Equal for equal values that were fed to runs of one process.",
    ),
    Column("allocations", "time_ns", "int64", "ns", "", "Time; rows are ordered by it."),
    _string("allocations", "pool", "Name of the allocator, or its device."),
    Column("allocations", "host", "int8", "0 or 1", "", "Whether it is host memory."),
    Column(
        "allocations",
        "change",
        "int64",
        "bytes",
        "",
        "Bytes allocated if positive, freed if negative; 0 if only `total` was recorded.",
    ),
    Column(
        "allocations",
        "block",
        "int64",
        "",
        "-1",
        "Id that joins the allocation of a block with its release; rows of one id alternate.",
    ),
    Column(
        "allocations", "track", "int32", "row of tracks", "-1", "The host thread that requested it."
    ),
    _string("allocations", "owner", "Graph node that requested the block.", null=_NO_STRING),
    Column("allocations", "total", "int64", "bytes", "-1", "Bytes allocated after the change."),
    Column("allocations", "reserved", "int64", "bytes", "-1", "Bytes reserved from the system."),
    Column("waits", "time_ns", "int64", "ns", "", "Start of the wait; rows are ordered by it."),
    Column("waits", "kind", "int8", "WaitKind", "", "Who waits for what."),
    Column(
        "waits",
        "slice",
        "int32",
        "row of slices",
        "-1",
        "Call of the host that waits or makes a stream wait; without one, the wait on the device.",
    ),
    Column(
        "waits",
        "waiting",
        "int32",
        "row of tracks",
        "-1",
        "Stream that waits; null if the host does.",
    ),
    Column(
        "waits",
        "awaited",
        "int32",
        "row of tracks",
        "-1",
        "Stream that is waited for; null for a whole device, or if unknown.",
    ),
    Column(
        "waits",
        "event",
        "int32",
        "row of slices",
        "-1",
        "Call that recorded the event on the awaited stream; null if unknown.",
    ),
    Column("collectives", "slice", "int32", "row of slices", "", "A collective on a device."),
    _string(
        "collectives", "operation", "As the library calls it, e.g. 'allreduce'.", null=_NO_STRING
    ),
    _string("collectives", "group", "Name of the process group.", null=_NO_STRING),
    Column("collectives", "ranks", "int64", "", "-1", "Number of ranks in the group."),
)

TABLES: tuple[Table, ...] = get_args(Table)


def columns_of(table: Table) -> tuple[Column, ...]:
    """The columns of one table, in order."""
    return tuple(c for c in COLUMNS if c.table == table)


def _may_be_narrow(column: Column) -> bool:
    # Times and sizes stay wide, because they are summed.
    is_index = column.unit == "string" or column.unit.startswith("row of ")
    return is_index or column.name in {"correlation", "sequence"}


NARROW_COLUMNS: frozenset[str] = frozenset(
    c.name for c in columns_of("slices") if _may_be_narrow(c)
)
"""Columns of slices whose arrays may have a narrower dtype than the schema's."""
