"""Columns of what `stepwhy run` observes in a process: steps, events, levels and memory."""

from __future__ import annotations

from stepwhy.trace.schema.column import NO_STRING, Column, flag, nanoseconds, string

RUN: tuple[Column, ...] = (
    nanoseconds("marks", "start_ns", "Start of an observed step; ordered."),
    nanoseconds("marks", "dur_ns", "Its wall time."),
    flag("marks", "profiled", "Whether a profiler ran during it."),
    nanoseconds(
        "marks", "input_wait_ns", "Time in which its driving thread waited for a batch.", null="-1"
    ),
    nanoseconds("marks", "cpu_ns", "CPU time of its driving thread.", null="-1"),
    nanoseconds("marks", "process_cpu_ns", "CPU time of all threads of its process.", null="-1"),
    nanoseconds(
        "marks",
        "run_delay_ns",
        "Time in which its driving thread was ready to run, but had no core.",
        null="-1",
    ),
    nanoseconds(
        "marks",
        "optimizer_ns",
        "Time inside the steps of optimizers, which the driving thread ran.",
        null="-1",
    ),
    nanoseconds("marks", "compile_ns", "Time spent tracing or compiling inside it.", null="-1"),
    nanoseconds(
        "marks", "graph_ns", "Time inside the framework's run call (TF1 `Session.run`).", null="-1"
    ),
    Column(
        "marks",
        "light",
        "int8",
        "0, 1 or 2",
        "0",
        "1: only timed, so its other columns are null; 2: only partly observed.",
    ),
    flag(
        "marks",
        "drained",
        "Whether the device had finished all earlier steps when it ended; 0: the host runs ahead.",
        null="-1",
    ),
    string(
        "samples",
        "line",
        "Innermost line of the program's own code, 'file(line): function'; '' without any.",
    ),
    string(
        "samples",
        "package",
        "Package that ran, or a library that logs and called it; '' for the program itself.",
    ),
    Column("samples", "count", "int64", "", "", "Number of stack samples."),
    Column("samples", "role", "int8", "SampleRole", "0", "Thread that was sampled."),
    string(
        "samples",
        "entry",
        "Part of the input pipeline that called the line: 'DataLoader', 'py_func', "
        "'PyDataset', 'feed' for a thread that fills a queue, or 'generator' for a generator "
        "function of the program; or the caller from compiled code: 'jax callback', "
        "'autograd.Function' with its class; null if unknown.",
        null=NO_STRING,
    ),
    string(
        "samples",
        "called",
        "Package and function that the line had called, as in 'numpy: interp'; null if the line "
        "itself ran, or a function in C.",
        null=NO_STRING,
    ),
    string(
        "samples",
        "loop",
        "'loop' if the line is in a loop of its function that yields nothing, 'comprehension' if "
        "it is in a comprehension; null if in neither, or unknown.",
        null=NO_STRING,
    ),
    string(
        "samples",
        "names",
        "Names of the functions that the line calls, separated by spaces; null if unknown.",
        null=NO_STRING,
    ),
    nanoseconds("samples", "start_ns", "Start of the sampling session.", null="-1"),
    nanoseconds("samples", "end_ns", "End of the sampling session.", null="-1"),
    nanoseconds(
        "visits",
        "start_ns",
        "Since when the driving thread was seen at the same lines of the program; ordered.",
    ),
    nanoseconds("visits", "end_ns", "Until when."),
    string(
        "visits",
        "lines",
        "Those lines as in `samples`, outermost first, separated by '; '; '' for other code.",
    ),
    string(
        "events",
        "kind",
        "'trace': a function was traced; 'compile': something was compiled; 'graph': a session's "
        "graph has grown; 'change': the step time has changed permanently; 'workers': a loader has "
        "started its workers; 'epoch': a loader was restarted, until its first batch; 'save': a "
        "checkpoint was saved; 'polled-save': a child that the program polls has saved one; "
        "'child': the main thread waited for another child process; "
        "'gc': Python's garbage collector has paused the process; "
        "'profiler': the training's own profiler ran; 'parameters': a model has trainable "
        "parameters of the named type; 'copy': a large array of NumPy was passed to JAX; "
        "'fsync': the main thread waited until a file was on disk; "
        "'session': a session ran for the first time; 'batch': the named source hands over "
        "batches of so many examples; 'evaluation': Keras or a trainer of PyTorch evaluated or "
        "predicted; 'gradient-use': "
        "recorded gradients were read; 'gradient-walk': the graph of a loss was followed to the "
        "parameters of the optimizers; "
        "'unowned-parameters': a module has parameters that no optimizer has; 'hooks': an object "
        "has so many hooks, or callbacks, that run the code of the source line.",
    ),
    nanoseconds("events", "start_ns", "Start; rows are ordered by it."),
    nanoseconds("events", "dur_ns", "Duration, never negative."),
    string("events", "name", "What was traced or compiled."),
    string("events", "reason", "Why, in the framework's words.", null=NO_STRING),
    string(
        "events",
        "source",
        "Line of the program that caused it, 'file(line): function'.",
        null=NO_STRING,
    ),
    Column(
        "events",
        "count",
        "int64",
        "",
        "-1",
        "Traces of this function so far; operations added to the graph; workers; epochs so far; "
        "objects freed; elements of the parameters; examples of a batch; bytes of the array; "
        "batches evaluated.",
    ),
    nanoseconds("levels", "time_ns", "Time of the sample; rows are ordered by it."),
    string("levels", "queue", "Name of the queue or buffer."),
    string("levels", "kind", "'tf1-queue', 'tf.data' or 'dataloader'."),
    Column("levels", "value", "int64", "", "", "Elements in it."),
    Column(
        "levels", "capacity", "int64", "", "-1", "Maximum number of elements; null if unbounded."
    ),
    Column("levels", "reserve", "int64", "", "", "Number of elements that cannot be removed."),
    nanoseconds("allocations", "time_ns", "Time; rows are ordered by it."),
    string("allocations", "pool", "Name of the allocator, or its device."),
    flag("allocations", "host", "Whether it is host memory."),
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
    Column("allocations", "track", "int32", "row of tracks", "-1", "The host thread behind it."),
    string("allocations", "owner", "Graph node that requested the block.", null=NO_STRING),
    Column("allocations", "total", "int64", "bytes", "-1", "Bytes allocated after the change."),
    Column("allocations", "reserved", "int64", "bytes", "-1", "Bytes reserved from the system."),
    Column(
        "line_times",
        "step",
        "int64",
        "",
        "",
        "Number of a step in which the running line was noted, in the step log. The rows of a "
        "step are what its driving thread did, in order; they cover the step, or have the same "
        "share of it if no operations were noted.",
    ),
    string("line_times", "op", "Operation that ran; null between operations.", null=NO_STRING),
    string(
        "line_times",
        "line",
        "Innermost line of the program's own code, 'file(line): function'.",
        null=NO_STRING,
    ),
    nanoseconds("line_times", "dur_ns", "How long it took, never negative."),
    flag(
        "line_times",
        "engine",
        "1: the backward pass ran the operation itself, not code of the program that it called.",
    ),
    string("line_times", "module", "Module of the model that runs, 'encoder.0'.", null=NO_STRING),
    string("instruction_scopes", "name", "Instruction of a compiled program, as slices name it."),
    string("instruction_scopes", "source", "Line of the program, as in slices."),
    string(
        "instruction_scopes",
        "scope",
        "Name scope and primitive that it was compiled from, as 'jit(f)/jvp(Net)/Dense_0/dot'.",
    ),
    string(
        "step_ops",
        "name",
        "Name of an operation of the semantic step, in which all operations were looked at; rows "
        "are in their order.",
    ),
    Column(
        "step_ops",
        "padding",
        "int64",
        "per mille",
        "-1",
        "Share of its elements that is padding in every row of a batch.",
    ),
    flag(
        "step_ops",
        "constant",
        "Whether it computes a constant: from what does not change over several steps alone, such "
        "as no parameter, batch or random number, and outside of the backward pass.",
        null="-1",
    ),
    string("step_ops", "line", "Line of the program that calls it, of constants.", null=NO_STRING),
    Column(
        "step_ops",
        "unread",
        "int8",
        "0 to 2",
        "-1",
        "Whether its result goes to waste: 1 if it is freed before anything reads it or what is "
        "computed from it, 2 if all that is computed from it is multiplied by zero.",
    ),
    Column(
        "step_ops",
        "unused",
        "int64",
        "per mille",
        "-1",
        "Share of its work for rows or elements that nothing reads, where that is most of it.",
    ),
    string(
        "step_ops",
        "chosen_at",
        "Line of the program that chooses the part that is read.",
        null=NO_STRING,
    ),
    string(
        "step_ops",
        "chosen_by",
        "How it does: 'ignored' by the targets or a mask of a loss, 'rows' by an index, 'place' by "
        "its place, 'diagonal' as a diagonal.",
        null=NO_STRING,
    ),
    flag(
        "step_ops",
        "of_table",
        "Whether the part is chosen from rows that are made of those of a parameter.",
        null="-1",
    ),
    flag(
        "step_ops",
        "repeated",
        "Whether it computes what the step has computed before: the same operation of the same "
        "values, outside of the backward pass.",
        null="-1",
    ),
    Column(
        "step_ops",
        "subnormal",
        "int64",
        "per mille",
        "-1",
        "Largest share of subnormal numbers in a tensor that it reads or makes.",
    ),
    nanoseconds(
        "step_ops",
        "subnormal_ns",
        "Time of a repetition with these numbers, 0 if none was measured.",
        null="-1",
    ),
    nanoseconds("step_ops", "usual_ns", "Time of a repetition with usual numbers.", null="-1"),
    Column(
        "step_ops",
        "zeros",
        "int64",
        "per mille",
        "-1",
        "Zeros in an operand of a product, if most of it is zero; 0 for other operations.",
    ),
    string(
        "step_ops",
        "zero_pattern",
        "Where the other values are: 'diagonal'; 'blocks' along the diagonal; 'compact' if most "
        "rows or columns are zero as a whole; 'few' if each row has the same number; 'stuffed' if "
        "a convolution reads zeros between them; otherwise 'scattered'.",
        null=NO_STRING,
    ),
    Column(
        "step_ops",
        "zero_size",
        "int64",
        "",
        "-1",
        "Number of blocks, of values per row, or of places per value; 0 for other patterns.",
    ),
    string("step_ops", "zero_shape", "Shape of that operand, such as '512x512'.", null=NO_STRING),
    flag("step_ops", "zero_constant", "Whether it is a constant.", null="-1"),
    nanoseconds("step_ops", "zero_ns", "Time of a repetition of the product, or 0.", null="-1"),
    nanoseconds("step_ops", "without_zeros_ns", "Time of what can take its place.", null="-1"),
    flag("step_ops", "makes_zeros", "Whether it makes such an operand.", null="-1"),
    string("index_inputs", "op", "Operation of the semantic step that looked rows up by indices."),
    string("index_inputs", "line", "Line of the program that called it.", null=NO_STRING),
    Column("index_inputs", "rows", "int64", "", "", "Rows of indices, one per example."),
    Column("index_inputs", "columns", "int64", "", "", "Indices in each row."),
    Column(
        "index_inputs",
        "padded",
        "int64",
        "",
        "",
        "How many columns, at one end, hold one value in every row.",
    ),
    flag("index_inputs", "at_start", "Whether that is the start."),
    Column(
        "collective_calls",
        "of_rank",
        "int64",
        "",
        "-1",
        "Rank that made the call; null for the rank of the trace.",
    ),
    string("collective_calls", "group", "Name of the process group, the same on all ranks."),
    string(
        "collective_calls",
        "description",
        "What the group is for, as the program calls it, e.g. 'tp'.",
        null=NO_STRING,
    ),
    string(
        "collective_calls",
        "members",
        "Numbers of the ranks in the group as JSON, e.g. '[0, 1]'.",
        null=NO_STRING,
    ),
    Column("collective_calls", "size", "int64", "", "-1", "Number of ranks in the group."),
    Column(
        "collective_calls",
        "sequence",
        "int64",
        "",
        "",
        "Number of the call in its group, the same on all ranks that take part in it; calls "
        "between two ranks have numbers of their own.",
    ),
    flag("collective_calls", "p2p", "Whether it is between two ranks."),
    string("collective_calls", "operation", "As the library calls it, e.g. 'all_reduce'."),
    Column(
        "collective_calls", "elements", "int64", "", "-1", "Number of elements that the rank gives."
    ),
    string(
        "collective_calls",
        "shapes",
        "Their shapes as the library writes them, e.g. '[[3, 4]]'; long lists are shortened.",
        null=NO_STRING,
    ),
    string("collective_calls", "types", "Types of these elements, e.g. 'Float'.", null=NO_STRING),
    nanoseconds("collective_calls", "entered_ns", "When the rank entered it.", null="-1"),
    nanoseconds("collective_calls", "dur_ns", "How long it ran.", null="-1"),
    flag(
        "collective_calls", "done", "Whether it had ended when the record was written.", null="-1"
    ),
    string(
        "collective_calls",
        "line",
        "Innermost line of the program's own code that called it, 'file(line): function'.",
        null=NO_STRING,
    ),
    nanoseconds(
        "positions",
        "time_ns",
        "When a process noted where it stands, as a step took much longer than usual; ordered.",
    ),
    nanoseconds("positions", "since_ns", "When that step began."),
    Column("positions", "steps", "int64", "", "-1", "Number of steps before it."),
    nanoseconds("positions", "usual_ns", "Median step time until then.", null="-1"),
    string(
        "positions",
        "lines",
        "Lines of the program on the stack of its driving thread as in `samples`, outermost "
        "first, separated by '; '; '' for other code.",
    ),
    string(
        "positions",
        "inside",
        "Package and function that the innermost line has called, as in 'jax: block_until_ready'; "
        "'' if unknown.",
        null=NO_STRING,
    ),
)
