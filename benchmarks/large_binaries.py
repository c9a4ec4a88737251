"""Large files that are written as a whole, always the same; see `large_files.py`."""

import json
import sqlite3
import sys
from contextlib import closing
from itertools import count
from pathlib import Path

import generated_xplane as wire
from generated_xplane import block, varint

from stepwhy.read.shared.tensorflow.messages import message_class

sys.path.append(str(Path(__file__).parents[1]))
from fuzz.mutate.records import frame
from tests.read import rocprof_samples as rocm
from tests.read.cuda_samples import Nsys, Nvprof

NODES = 4000
OPERATIONS = ("MatMul", "Conv2D", "Relu", "Add", "BiasAdd", "Identity", "ReluGrad", "Sum")
CPU, GPU = (f"/job:localhost/replica:0/task:0/device:{name}:0" for name in ("CPU", "GPU"))
START_US = 1_700_000_000_000_000
LAUNCHES = 500
# What each row of an export has besides, whoever recorded it.
OF_CALL = {"eventClass": 0, "returnValue": 0, "callchainId": 4211}
OF_KERNEL = {
    **dict.fromkeys(("contextId", "greenContextId", "launchType", "cacheConfig"), 1),
    **{f"{what}{axis}": 64 for what in ("grid", "block") for axis in "XYZ"},
    **dict.fromkeys(("registersPerThread", "staticSharedMemory", "dynamicSharedMemory"), 4096),
    **dict.fromkeys(("localMemoryPerThread", "localMemoryTotal", "sharedMemoryExecuted"), 98304),
}
SPAN_NS = 20_000 * LAUNCHES


def node_name(number):
    """Of a node of a graph, with its name scope."""
    scope = f"tower_0/block{number * 8 // NODES}/unit_{number % 24}"
    return f"{scope}/{OPERATIONS[number % 8]}_{number}".encode()


def run_metadata(size, path):
    """Runs of a graph on a CPU and a GPU."""
    rows = {CPU: bytearray(block(1, CPU.encode())), GPU: bytearray(block(1, GPU.encode()))}
    for number in count():
        row = rows[GPU if number % 10 else CPU]
        body = block(2, node_run(number % NODES, START_US + 40 * number))
        row += body
        size -= len(body)
        if size <= 0:
            break
    path.write_bytes(block(1, b"".join(block(1, bytes(row)) for row in rows.values())))


def node_run(number, start_us):
    """One node's entry of step statistics."""
    entry = message_class("NodeExecStats")(node_name=node_name(number), all_start_micros=start_us)
    entry.op_end_rel_micros = entry.all_end_rel_micros = 10 + number % 50
    before, op = node_name(max(number - 1, 0)), OPERATIONS[number % 8].encode()
    entry.timeline_label = b"%s = %s(%s)" % (entry.node_name, op, before)
    entry.memory.add(allocator_name=b"GPU_0_bfc", total_bytes=4096, peak_bytes=4096)
    return entry.SerializeToString()


def tfprof(size, path):
    """A graph's nodes with their runs."""
    runs = max(1, size // (NODES * 235))  # bytes of a run
    with path.open("wb") as file:
        for number in range(NODES):
            entry = varint(8) + varint(number + 1) + block(2, node_profile(number, runs))
            file.write(block(1, entry))


def node_profile(number, runs):
    """One node's runs."""
    op, device = OPERATIONS[number % 8].encode(), (GPU if number % 4 else CPU).encode()
    node = message_class("ProfileNode")(name=node_name(number), op=op, canonical_device=device)
    node.id = number + 1
    if number:
        node.inputs.add(key=0, value=number)
    runs = b"".join(block(12, node_run_profile(number, run, device)) for run in range(runs))
    return node.SerializeToString() + runs


def node_run_profile(number, run, device):
    """One run of a node, by its number."""
    start_us, took_us = START_US + 60_000 * run + 15 * number, 2 + number % 12
    execution = message_class("ExecProfile")()
    add_time(execution.cpu_execs, device, start_us, took_us)
    if number % 4:
        add_time(execution.accelerator_execs, b"/device:gpu:0/stream:all", start_us + 5, took_us)
    sizes = dict.fromkeys(("requested_bytes", "peak_bytes", "residual_bytes", "output_bytes"), 4096)
    execution.memory_execs.add(memory_micros=start_us, allocator_bytes_in_use=1 << 28, **sizes)
    # What nothing here reads: how often it ran, since when, until when, on which device.
    times = wire.number(1, 1) + wire.number(2, start_us) + wire.number(3, start_us + took_us)
    body = execution.SerializeToString() + times + block(6, device)
    return wire.number(1, run) + block(2, body)


def add_time(executions, where, start_us, took_us):
    """Add a run on a device or stream."""
    executions.add(key=where).value.times.add(int64_values=[start_us, took_us])


def nsys(size, path):
    """Steps of launches and kernels, in an export of Nsight Systems."""
    export = Nsys(TARGET_INFO_GPU=[{"id": 0, "name": "NVIDIA H100"}])
    export.range("step", 0, SPAN_NS - 1000)
    for number in range(LAUNCHES):
        at = 20_000 * number + 500
        export.call("cudaLaunchKernel_v7000", at, at + 4000, number + 1)
        export.kernel(f"kernel_{number % 40}", at + 5000, at + 19_000, number + 1)
    widen(export.tables, "RUNTIME", OF_CALL)
    widen(export.tables, "KERNEL", OF_KERNEL)
    export.write(path)
    repeat(path, size, {"correlationId": LAUNCHES})


def nvprof(size, path):
    """The same in a database of nvprof."""
    database = Nvprof().range("step", 0, SPAN_NS - 1000)
    for number in range(LAUNCHES):
        at = 20_000 * number + 500
        database.call(211, at, at + 4000, number + 1)
        database.kernel(f"kernel_{number % 40}", at + 5000, at + 19_000, number + 1)
    widen(database.tables, "RUNTIME", OF_CALL)
    widen(database.tables, "CONCURRENT_KERNEL", OF_KERNEL)
    database.write(path)
    repeat(path, size, {"correlationId": LAUNCHES})


def widen(tables, name, columns):
    """Add columns to the rows of a table."""
    for row in tables[f"CUPTI_ACTIVITY_KIND_{name}"]:
        row.update(columns)


def repeat(path, size, ids):
    """Repeat the activities of a database in time until it has a size, bytes.

    Args:
        path: The database.
        size: How large it shall become.
        ids: By column: how many ids there are in it, none of which may come again.
    """
    shifts = {"start": SPAN_NS, "end": SPAN_NS, "timestamp": SPAN_NS, **ids}
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master")]
        timed = [t for t in tables if t.startswith("CUPTI_ACTIVITY_KIND") or t == "NVTX_EVENTS"]
        for table in timed:
            once = f"SELECT * FROM {table}"  # noqa: S608 - our own
            connection.execute(f"CREATE TEMP TABLE once_{table} AS {once}")
        for number in count(1):
            for table in timed:
                columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
                moved = [f"{c} + {number * shifts[c]}" if c in shifts else c for c in columns]
                again = f"SELECT {', '.join(moved)} FROM once_{table}"  # noqa: S608 - our own
                connection.execute(f"INSERT INTO {table} {again}")
            if number % 50 == 0 and path.stat().st_size >= size:
                break


def rocprof(size, path):
    """Launches and kernels as rocprofv3 lists them, first all calls."""
    calls = (rocm.record("hipLaunchKernel", 9000 * n, 4000, n + 1) for n in count())
    kernels = (rocm.kernel(1 + n % 4, 9000 * n + 5000, 7000, correlation=n + 1) for n in count())
    head, between, tail = json.dumps(
        {"rocprofiler-sdk-tool": [rocm.process({"hip_api": "HERE", "kernel_dispatch": "HERE"})]}
    ).split('"HERE"')
    with path.open("w") as file:
        file.write(head)
        launches = write_list(file, calls, size=size // 2)
        file.write(between)
        write_list(file, kernels, most=launches)
        file.write(tail)


def write_list(file, records, size=1 << 60, most=1 << 60):
    """Write a list of so many records, or bytes; how many they were."""
    before = "["
    for number, record in enumerate(records, start=1):
        size -= file.write(before + json.dumps(record))
        before = ","
        if size <= 0 or number == most:
            break
    file.write("]")
    return number


def memory_sums(size, path):
    """Sums of allocations by category, as PyTorch's memory profiler writes them."""
    held, rows = [0] * 9, []
    for number in range(size // 95):
        category = 3 + number % 5
        held[category] = (7919 * number % 1000) << 20
        rows.append(str(held))
    times = [START_US + 7 * number for number in range(len(rows))]
    path.write_text(f"[{times}, [{', '.join(rows)}]]")


def tensorboard(size, path):
    """Steps of a training with 20 scalars each."""
    make = message_class("Event")
    with path.open("wb") as file:
        file.write(frame(make(wall_time=1.5e9, file_version=b"brain.Event:2").SerializeToString()))
        for number in count(1):
            event = make(wall_time=1.5e9 + number, step=number)
            event.summary.value.add(tag=b"global_step/sec", simple_value=2.5)
            for scalar in range(20):
                event.summary.value.add(tag=b"loss_%d" % scalar, simple_value=3.0)
            size -= file.write(frame(event.SerializeToString()))
            if size <= 0:
                break


MAKERS = {
    "run_metadata": run_metadata,
    "tfprof": tfprof,
    "nsys": nsys,
    "nvprof": nvprof,
    "rocprof": rocprof,
    "memory_timeline, sums": memory_sums,
    "tensorboard": tensorboard,
}
