"""Kineto traces as each generation of the profiler writes them: one training run, many spellings.

The run is three steps of 10 ms on one GPU; times in microseconds from the step's start::

    main       [0, 2000) fetch of the batch
               [2000, 2600) aten::to with a blocking copy [2100, 2550)
               [2600, 3000) aten::mm with a launch [2700, 2900)
               [4300, 5000) Optimizer.step with aten::add_ [4400, 4800), launch [4500, 4600)
               [5100, 7700) waits for the stream
               [9000, 9500) aten::zero_
    autograd   [3200, 4200) MmBackward0 with a launch [3400, 3600)
    stream 7   [2150, 2500) copy, [2800, 4800) forward, [4800, 7000) backward, [7000, 7600) update

and one more fetch after the last step. `BREAKDOWN_US` is worked out by hand from this picture.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

STEPS = 3
STEP_US = 10_000
COPY_BYTES = 4096
BREAKDOWN_US = {
    "compute": 4800,  # [2800, 7600)
    "communication": 0,
    "transfer": 350,  # [2150, 2500)
    "input_wait": 2000,
    "compile": 0,
    "sync": 200,  # the copy call before and after its copy, and [7600, 7700)
    "dispatch": 850,  # aten::to around its call, aten::mm until the kernel runs, aten::zero_
    "python": 500,  # the short silence [9500, 10000)
    "storage": 0,
    "unexplained": 1300,  # the long silence [7700, 9000)
}
SECRETS = ("node17.internal", "someone", "tw-job-4711", "s3cr3t", "/opt/private/")


@dataclass(frozen=True)
class Spelling:
    """How one generation writes a record.

    Args:
        op, annotation, runtime, kernel, memcpy: Its categories.
        host_pid, device: Process id of the host, number of the device (the `pid` of its rows).
        stream_tid: How the `tid` of a device row is written.
        call: Prefix of runtime calls.
        base_us: Where the clock starts.
        header: Keys of the object; None: a top-level list.
        copy_args: What a copy's arguments say about its size.
        call_args: What a copy call's arguments say about it.
    """

    op: str = "cpu_op"
    annotation: str = "user_annotation"
    runtime: str = "cuda_runtime"
    kernel: str = "kernel"
    memcpy: str = "gpu_memcpy"
    host_pid: int = 100
    device: int = 0
    stream_tid: Any = 7
    call: str = "cuda"
    base_us: float = 1_600_000_000_000_000
    header: dict[str, Any] | None = field(default_factory=lambda: {"schemaVersion": 1})
    copy_args: dict[str, Any] = field(default_factory=lambda: {"bytes": COPY_BYTES})
    call_args: dict[str, Any] = field(default_factory=dict)
    copy_name: str = "Memcpy HtoD (Pageable -> Device)"


OLD = Spelling(
    op="Operator", annotation="Operator", runtime="Runtime", kernel="Kernel", memcpy="Memcpy",
    stream_tid="stream 7",
)  # fmt: skip
_PROPERTIES = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108}]}
GENERATIONS: dict[str, Spelling] = {
    "2020 list": replace(OLD, header=None),
    "2021 object": replace(OLD, annotation="user_annotation", header={"schemaVersion": 1}),
    "2022 categories": Spelling(header={"schemaVersion": 1, **_PROPERTIES}),
    "2024 fractional": Spelling(
        base_us=4242.375,
        header={
            "schemaVersion": 1, **_PROPERTIES, "displayTimeUnit": "ms",
            "baseTimeNanoseconds": 1_700_000_000_000_000_000,
            "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
        },
    ),
    "rocm": Spelling(
        device=2, call="hip", copy_name="CopyHostToDevice",
        copy_args={}, call_args={"size": str(COPY_BYTES)},
        header={"schemaVersion": 1, "deviceProperties": [{"name": "AMD Radeon Graphics"}]},
    ),
    "driver calls": Spelling(runtime="cuda_driver"),
    "pid collision": Spelling(host_pid=0),
    "secrets in the header": Spelling(
        header={
            "schemaVersion": 1, **_PROPERTIES, "host_name": SECRETS[0], "username": SECRETS[1],
            "tw_job": SECRETS[2], "env": {"TOKEN": SECRETS[3]},
            "record_shapes": 1, "with_stack": 0, "trace_id": "A1",
            "INFO": [f"{SECRETS[4]}launch.sh"], "PROFILE_START_TIME": 1,
        },
    ),
}  # fmt: skip
"""The same run in every spelling."""


def x(cat: str, name: str, start: float, end: float, **fields: Any) -> dict[str, Any]:
    """A complete record from `start` to `end`, µs."""
    dur = round(end - start, 3)
    return {"ph": "X", "cat": cat, "name": name, "ts": start, "dur": dur, **fields}


def run(s: Spelling) -> list[dict[str, Any]]:
    """The records of the run in one spelling, in the order of their steps."""
    records: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": s.host_pid, "args": {"name": "python"}},
    ]
    for n in range(STEPS):
        records += _step(s, s.base_us + n * STEP_US, n)
    end = s.base_us + STEPS * STEP_US
    records.append(_host(s, s.op, _FETCH, end, end + 100))
    return records


_FETCH = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def _step(s: Spelling, at: float, n: int) -> list[dict[str, Any]]:
    number = 10 * n + 1
    backward = {"Sequence number": n, "Fwd thread id": 1}
    launch = f"{s.call}LaunchKernel"
    sync = f"{s.call}StreamSynchronize"
    return [
        _host(s, s.annotation, f"ProfilerStep#{n + 2}", at, at + STEP_US),
        _host(s, s.op, _FETCH, at, at + 2000),
        _host(s, s.op, "aten::to", at + 2000, at + 2600),
        _call(s, f"{s.call}MemcpyAsync", at + 2100, at + 2550, number, **s.call_args),
        _host(s, s.op, "aten::mm", at + 2600, at + 3000, args={"Sequence number": n}),
        _call(s, launch, at + 2700, at + 2900, number + 1),
        _host(s, s.op, "MmBackward0", at + 3200, at + 4200, tid=2, args=backward),
        _call(s, launch, at + 3400, at + 3600, number + 2, tid=2),
        _host(s, s.annotation, "Optimizer.step#SGD.step", at + 4300, at + 5000),
        _host(s, s.op, "aten::add_", at + 4400, at + 4800),
        _call(s, launch, at + 4500, at + 4600, number + 3),
        _call(s, sync, at + 5100, at + 7700, number + 4),
        _host(s, s.op, "aten::zero_", at + 9000, at + 9500),
        _device(s, s.memcpy, s.copy_name, at + 2150, at + 2500, number=number, **s.copy_args),
        _device(s, s.kernel, "volta_sgemm_128x64_nn", at + 2800, at + 4800, number=number + 1),
        _device(s, s.kernel, "volta_sgemm_128x64_nt", at + 4800, at + 7000, number=number + 2),
        _device(s, s.kernel, "add_kernel<float>", at + 7000, at + 7600, number=number + 3),
    ]


def _host(s: Spelling, cat: str, name: str, start: float, end: float, **fields: Any) -> dict:
    return x(cat, name, start, end, **{"pid": s.host_pid, "tid": 1, **fields})


def _call(
    s: Spelling, name: str, start: float, end: float, number: int, *, tid: int = 1, **args: Any
) -> dict[str, Any]:
    arguments = {"cbid": 211, "correlation": number, **args}
    return _host(s, s.runtime, name, start, end, tid=tid, args=arguments)


def _device(
    s: Spelling, cat: str, name: str, start: float, end: float, *, number: int, **args: Any
) -> dict[str, Any]:
    arguments = {"device": s.device, "stream": 7, "correlation": number, **args}
    return x(cat, name, start, end, pid=s.device, tid=s.stream_tid, args=arguments)


def dump(records: list[dict[str, Any]], header: dict[str, Any] | None) -> bytes:
    """A file of records; a header of None makes it a top-level list."""
    if header is None:
        return json.dumps(records).encode()
    return json.dumps({**header, "traceEvents": records}).encode()


def sample(name: str) -> bytes:
    """The run in one of `GENERATIONS`."""
    spelling = GENERATIONS[name]
    return dump(run(spelling), spelling.header)
