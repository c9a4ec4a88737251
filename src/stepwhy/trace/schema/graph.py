"""Columns of the graph of a program, and of how it was run and fed."""

from __future__ import annotations

from stepwhy.trace.schema.column import NO_STRING, Column, string

GRAPH: tuple[Column, ...] = (
    string("nodes", "name", "Graph node, with its name scope."),
    string("nodes", "op", "Op type as the program wrote it."),
    string("nodes", "requested", "Device that the program requested; '' for none.", null=NO_STRING),
    string("nodes", "actual", "Device it ran on; null if it never ran.", null=NO_STRING),
    string(
        "nodes",
        "outer",
        "Device of an enclosing device scope that an inner scope replaced.",
        null=NO_STRING,
    ),
    string(
        "nodes",
        "scope_line",
        "Source line of the device scope that decided `requested`.",
        null=NO_STRING,
    ),
    string("nodes", "source", "Source line that created the node.", null=NO_STRING),
    string("nodes", "colocated_with", "Node that it is colocated with.", null=NO_STRING),
    Column(
        "nodes",
        "depends_on",
        "int8",
        "Dependence",
        "0",
        "Whether variables, other data, or both reach it through the program's graph.",
    ),
    Column(
        "nodes",
        "constant",
        "int8",
        "0 or 1",
        "-1",
        "1: a constant, a variable that only its initialisation assigns, or computed from these.",
    ),
    Column("copies", "source", "int32", "row of nodes", "", "Node whose output is copied."),
    Column(
        "copies",
        "target",
        "int32",
        "row of nodes",
        "-1",
        "A node on the other device that reads it.",
    ),
    string("copies", "from_device", "Sending device."),
    string("copies", "to_device", "Receiving device."),
    Column("copies", "bytes", "int64", "bytes", "-1", "Size of the tensor, per run of the graph."),
    Column("copies", "dur_ns", "int64", "ns", "-1", "Time of the transfer, per run of the graph."),
    string(
        "stages",
        "name",
        "Operation of the stage in the library's words, made unique; for a stage with a buffer, "
        "the name of its queue in `levels`.",
    ),
    string("stages", "kind", "As in `levels`."),
    string(
        "stages",
        "consumer",
        "The consuming stage; null for the training. Consumers come before their producers.",
        null=NO_STRING,
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
    Column(
        "stages", "random", "int8", "0 or 1", "-1", "Whether its function draws random numbers."
    ),
    Column(
        "stages",
        "epochs",
        "int64",
        "",
        "-1",
        "Times that the loop has begun to read the data set from its start.",
    ),
    string("stages", "source", "Source line that made the stage.", null=NO_STRING),
    Column("executions", "slice", "int32", "row of slices", "", "The run of a graph operation."),
    string(
        "executions",
        "runtime_op",
        "Op type as the runtime wrote it, e.g. '_MklMatMul'.",
        null=NO_STRING,
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
    Column(
        "session_values",
        "fed",
        "int8",
        "0 to 2",
        "",
        "1: fed to the run; 0: fetched from it; 2: fed to the first run of the next step.",
    ),
    string("session_values", "name", "Name in the graph."),
    string(
        "session_values",
        "python_type",
        "Type of the Python value: that of an array ('float64'), or 'list of float'.",
        null=NO_STRING,
    ),
    string("session_values", "graph_type", "Type of a fed tensor in the graph.", null=NO_STRING),
    string("session_values", "shape", "Its shape, as '64x28'; '' of a number.", null=NO_STRING),
    Column("session_values", "bytes", "int64", "bytes", "-1", "Size, in the type of the graph."),
    Column(
        "session_values",
        "fingerprint",
        "int64",
        "",
        "-1",
        "Equal for equal values that were fed to runs of one process.",
    ),
)
