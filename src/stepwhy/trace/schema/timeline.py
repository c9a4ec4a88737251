"""Columns of what a profiler records: devices, tracks, slices, and what connects them."""

from __future__ import annotations

from stepwhy.trace.schema.column import NO_STRING, Column, flag, nanoseconds, string

TIMELINE: tuple[Column, ...] = (
    string("devices", "name", "Name as the trace gives it, host part removed."),
    Column("devices", "kind", "int8", "DeviceKind", "", "CPU, GPU, TPU or another accelerator."),
    string("devices", "model", "Model name, e.g. 'NVIDIA A100'.", null=NO_STRING),
    Column("tracks", "role", "int8", "Role", "", "What the track shows."),
    string("tracks", "name", "Name to show, e.g. 'stream 7'."),
    Column(
        "tracks", "process", "int64", "", "-1", "Process id; an id, not a number to compute with."
    ),
    Column("tracks", "thread", "int64", "", "-1", "Thread or stream id."),
    Column("tracks", "device", "int32", "row of devices", "-1", "Device of a stream or executor."),
    nanoseconds(
        "slices",
        "start_ns",
        "Start on the trace's clock. Rows are ordered by start, then longest first: "
        "parents come before their children.",
    ),
    nanoseconds("slices", "dur_ns", "Duration, never negative."),
    Column("slices", "track", "int32", "row of tracks", "", "Track of the slice."),
    Column("slices", "kind", "int8", "Kind", "", "What the slice is."),
    string("slices", "name", "Name; for graph ops the op type."),
    string("slices", "scope", "Node name with its name scope (graph ops).", null=NO_STRING),
    string("slices", "source", "Source line 'file(line): function'.", null=NO_STRING),
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
    flag("slices", "pageable", "Whether the host side of a copy is pageable memory.", null="-1"),
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
    nanoseconds("counters", "time_ns", "Time of the sample; rows are ordered by it."),
    string("counters", "name", "What was sampled, e.g. 'device memory allocated'."),
    Column("counters", "device", "int32", "row of devices", "-1", "Device it belongs to."),
    Column("counters", "value", "int64", "as named", "", "Value of the sample."),
    nanoseconds("waits", "time_ns", "Start of the wait; rows are ordered by it."),
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
    string(
        "collectives", "operation", "As the library calls it, e.g. 'allreduce'.", null=NO_STRING
    ),
    string("collectives", "group", "Name of the process group.", null=NO_STRING),
    Column("collectives", "ranks", "int64", "", "-1", "Number of ranks in the group."),
    string(
        "collectives",
        "members",
        "Numbers of its ranks as the library writes them, e.g. '[0, 1]'; long lists are shortened.",
        null=NO_STRING,
    ),
    string(
        "collectives",
        "description",
        "What the group is for, as the program calls it, e.g. 'tp'.",
        null=NO_STRING,
    ),
    Column("operands", "slice", "int32", "row of slices", "", "An operation on the host."),
    string(
        "operands",
        "types",
        "Type of each argument, such as 'float32,float64,'; '' for what is no tensor, and for "
        "rare types.",
        null=NO_STRING,
    ),
    string(
        "operands",
        "shapes",
        "Shape of each argument, such as '8x3,3,', or '8x3+2x3,' for a list of tensors; '' for a "
        "scalar, and for what is no tensor.",
        null=NO_STRING,
    ),
    Column(
        "rewrites",
        "slice",
        "int32",
        "row of slices",
        "",
        "An instruction of a compiled program that copies a buffer, of which a part is changed.",
    ),
    Column("rewrites", "copied_bytes", "int64", "bytes", "", "Size of the buffer."),
    Column("rewrites", "changed_bytes", "int64", "bytes", "", "Size of the part."),
    string("rewrites", "operation", "What changes it, e.g. 'scatter'."),
    flag(
        "rewrites",
        "of_argument",
        "Whether the buffer is an argument of the program, which it could donate.",
    ),
    Column(
        "discards",
        "slice",
        "int32",
        "row of slices",
        "",
        "An instruction of a compiled program whose result is not always read.",
    ),
    string("discards", "condition", "What decides that, e.g. 'step % 50 == 0'."),
    flag(
        "discards", "holds", "Whether the result is read if the condition holds, or if it does not."
    ),
    Column(
        "discards",
        "one_in",
        "int64",
        "",
        "0",
        "The condition holds once in so many steps; null if unknown.",
    ),
    Column(
        "table_updates",
        "slice",
        "int32",
        "row of slices",
        "",
        "An instruction of a compiled program that works on a whole table, although the gradient "
        "has some of its rows.",
    ),
    Column("table_updates", "table_bytes", "int64", "bytes", "", "Size of the table."),
    Column("table_updates", "used_bytes", "int64", "bytes", "", "Size of the gradient's rows."),
    Column(
        "argument_uses",
        "slice",
        "int32",
        "row of slices",
        "",
        "An instruction of a compiled program of which it is known what it computes from.",
    ),
    string("argument_uses", "program", "Name of the jitted function."),
    string(
        "argument_uses",
        "arguments",
        "Arguments of the program that the result depends on, one per line, as 'adj' or "
        "\"params[0]['w']\"; null if it depends on more than a few of them, or on random numbers.",
        null=NO_STRING,
    ),
    Column(
        "argument_uses",
        "compares_pairs",
        "int8",
        "0, 1 or 2",
        "",
        "1 if it combines two arrays that are each repeated for the other; 2 if it multiplies the "
        "differences of such arrays of vectors.",
    ),
    string(
        "argument_uses",
        "factors",
        "Large arguments of the program that it multiplies as they are, in a product of matrices, "
        "one per line.",
        null=NO_STRING,
    ),
    string(
        "argument_uses",
        "loop",
        "Instruction of the loop that it is in, if it could be computed outside of that.",
        null=NO_STRING,
    ),
    Column("argument_uses", "trips", "int64", "", "-1", "Iterations of this loop."),
    flag(
        "argument_uses",
        "independent",
        "1: nothing in the loop needs an earlier iteration; 0: this is a product of matrices that "
        "needs none, or that no later one needs.",
        null="-1",
    ),
)
