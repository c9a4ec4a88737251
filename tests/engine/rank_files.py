"""Kineto files of ranks that gather in pairs and reduce all together, with a known truth.

Each step of a rank is some work on its device, the all-gather of its pair, and the all-reduce of
all ranks, for which the host waits. Times are in microseconds.
"""

import json

import numpy as np

GATHER_US, REDUCE_US = 100, 200
_HOST, _STREAM = {"pid": 100, "tid": 1}, {"pid": 0, "tid": 20}


def write_set(folder, work_us, gather_us=None, *, clock_us=None, drift=None):
    """Write the file of each rank; returns their paths.

    Args:
        folder: Where to.
        work_us: Work of each rank in each step; (ranks, steps).
        gather_us: How long the data of its pair moves, likewise; `GATHER_US` by default.
        clock_us: How much later each clock is; (ranks,).
        drift: How much faster it runs, as a fraction; (ranks,).
    """
    work_us = np.asarray(work_us, dtype=float)
    ranks = len(work_us)
    gather_us = np.full_like(work_us, GATHER_US) if gather_us is None else gather_us
    gathered = np.maximum(work_us[0::2], work_us[1::2]).repeat(2, axis=0) + gather_us
    step_us = gathered.max(axis=0) + REDUCE_US
    begin = np.concatenate([[0], np.cumsum(step_us)[:-1]])
    paths = []
    for rank in range(ranks):
        times = zip(begin, work_us[rank], gathered[rank], step_us, strict=True)
        events = [e for step, row in enumerate(times) for e in _step(rank, ranks, step, row)]
        for event in events:
            speed = 1 + (0.0 if drift is None else drift[rank])
            at = 0.0 if clock_us is None else clock_us[rank]
            event |= {"ts": 2e6 + at + event["ts"] * speed, "dur": event["dur"] * speed}
        info = {"backend": "nccl", "rank": rank, "world_size": ranks}
        document = {"schemaVersion": 1, "distributedInfo": info, "traceEvents": events}
        paths.append(folder / f"rank{rank}.json")
        paths[-1].write_text(json.dumps(document))
    return paths


def _step(rank, ranks, step, times):
    begin, work, gathered, length = times
    pair = [rank - rank % 2, rank - rank % 2 + 1]
    tensor, every = _group("allgather", pair, 5, "tp"), _group("allreduce", range(ranks), 50, "dp")
    kernels = [
        ("gemm", 0, work, {}),
        ("ncclDevKernel_AllGather_RING_LL", work, gathered, tensor),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", gathered, length, every),
    ]
    for place, (name, start, end, args) in enumerate(kernels):
        call = {"correlation": 10 * step + place + 1}
        device = {"device": 0, "stream": 20} | call | args
        yield _record("kernel", name, begin + start, end - start) | _STREAM | {"args": device}
        launch = _record("cuda_runtime", "cudaLaunchKernel", begin + place, 1)
        yield launch | _HOST | {"args": call}
    yield _record("cuda_runtime", "cudaDeviceSynchronize", begin + 4, length - 4) | _HOST
    yield _record("user_annotation", f"ProfilerStep#{step + 5}", begin, length) | _HOST


def _group(operation, ranks, megabytes, description):
    return {
        "Collective name": operation, "Process Group Name": "1", "Group size": len(ranks),
        "Process Group Ranks": str(list(ranks)), "Process Group Description": description,
        "In msg nelems": megabytes * 1_000_000, "Out msg nelems": 0, "dtype": "Byte",
    }  # fmt: skip


def _record(category, name, start, length):
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length}
