"""Enumerations in a trace: kinds of slices, tracks, devices, copies, phases and flows."""

from __future__ import annotations

from enum import IntEnum

HAND_OVER = "hand over the trace"
"""Name of the slice after a traced step in which the profiler writes its records."""

NEXT_RUN = "next session.run"
"""Name of the slice without length in a traced step with what the next step's first call is fed."""


class Kind(IntEnum):
    """What a slice is. Importers set it; passes use it, not the profiler's own categories."""

    OTHER = 0
    # On host threads.
    OP = 1  # a framework operation (aten::mm, a TF kernel scheduled for a GPU)
    LAUNCH = 2  # a device API call that submits work to the device (kernel, copy, graph)
    RUNTIME = 3  # any other device API call (allocation, event, query, module load)
    SYNC = 4  # a device API call that returns when the device has caught up
    PYTHON = 5  # a Python function outside the framework's own code
    FRAMEWORK = 6  # framework code that is not an operation (its Python, Optimizer.step, DDP)
    ANNOTATION = 7  # a range that the user or a library named; not evidence of any work
    STEP = 8  # a step marker of the training loop
    INPUT = 9  # the fetch of the next batch, with all that happens inside it
    WAIT = 10  # blocked on another thread, process or machine (Recv, a collective's wait, a lock)
    COMPILE = 11  # tracing, compiling, autotuning, module loading
    STORAGE = 12  # checkpoint, summary or log writing
    PROFILER = 13  # the profiler's own work
    # On device streams (and on the op executors of a CPU device).
    KERNEL = 20  # computation
    COLLECTIVE = 21  # a collective or peer exchange
    MEMCPY = 22  # a copy; the column `copy` is its direction
    MEMSET = 23  # a fill: counted as computation
    DEVICE_WAIT = 24  # the device row shows that the device waits: not busy
    DEVICE_ANNOTATION = 25  # a host range projected onto the device: not busy


BUSY_KINDS = (Kind.KERNEL, Kind.MEMSET, Kind.COLLECTIVE, Kind.MEMCPY)


class Role(IntEnum):
    """What a track shows."""

    HOST_THREAD = 0  # a thread of the training process
    STREAM = 1  # a stream of an accelerator: its slices are device time
    EXECUTOR = 2  # the op executor of a CPU device: its slices are device time of that CPU
    WORKER = 3  # a thread of another process that feeds the training (input worker)


class DeviceKind(IntEnum):
    """What a device is."""

    CPU = 0
    GPU = 1
    TPU = 2
    OTHER = 3  # any other accelerator


class Copy(IntEnum):
    """Direction of a copy."""

    NONE = 0  # not a copy, or the direction is not recorded
    H2D = 1
    D2H = 2
    D2D = 3  # within one device
    PEER = 4  # between devices, processes or machines
    H2H = 5


class Dependence(IntEnum):
    """What the value of a graph's node is computed from. UNKNOWN is the null."""

    UNKNOWN = 0  # the graph was not recorded, or it has no variables
    VARIABLES = 1
    DATA = 2  # nodes without inputs: an iterator, a placeholder, random numbers, a constant
    BOTH = 3  # variables and data: the work of a model
    SHAPES = 4  # nothing but the shapes of other values


class Phase(IntEnum):
    """Part of the training step. UNKNOWN is the null: the importer does not know it."""

    UNKNOWN = 0
    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER = 3
    INPUT = 4
    COMMUNICATION = 5
    OTHER = 6


class FlowKind(IntEnum):
    """How the two slices of a flow are related."""

    LAUNCH = 0  # from the host call to the device slice that it caused
    DATA = 1  # from the producer of a tensor to its consumer
    GRADIENT = 2  # from a forward operation to its backward operation


class WaitKind(IntEnum):
    """Who waits for what. The numbers are those of CUPTI's synchronisation records."""

    UNKNOWN = 0
    EVENT = 1  # the host waits for an event on a stream
    STREAM_EVENT = 2  # a stream waits for an event on another stream
    STREAM = 3  # the host waits for a stream
    DEVICE = 4  # the host waits for all streams of a device


class SampleRole(IntEnum):
    """The thread of a stack sample."""

    DRIVER = 0  # the driving thread
    WORKER = 1  # the main thread of a process that the training started
    THREAD = 2  # another thread of the training process that runs code of the program
    STARTUP = 3  # the main thread before its first step
