"""Generator of pipeline schedules: the passes of one rank, two micro-batches per iteration."""

import json

FIRST = {
    "total": 100.5,
    "memory": 12.5,
    "fwd_start": [0.0, 10.0],
    "fwd_end": [10.0, 20.0],
    "bwd_start": [40.0, 80.0],
    "bwd_end": [60.0, 100.0],
}
LAST = {
    "total": 90,
    "memory": 12.5,
    "fwd_start": [15, 40],
    "fwd_end": [25, 50],
    "bwd_start": [25, 50],
    "bwd_end": [35, 60],
    "wgrad_start": [35, 60],
    "wgrad_end": [38, 70],
}


def schedule(*iterations):
    """The file of some iterations."""
    return json.dumps({str(n): one for n, one in enumerate(iterations, start=1)}).encode()


def seeds():
    """Valid files, with the one that tells the number of ranks."""
    config = json.dumps({"world_size": 2, "pp_size": 2, "num_mbs": 2}).encode()
    return [
        {"pp_rank_0.json": schedule(FIRST, FIRST), "config.json": config},
        {"pp_rank_1.json": schedule(LAST, LAST, LAST)},
    ]


def _passes(size):
    count = size // 40
    times = {"fwd_start": [], "fwd_end": [], "bwd_start": [], "bwd_end": []}
    for n in range(count):
        times["fwd_start"].append(n * 0.01)
        times["fwd_end"].append(n * 0.01 + 0.005)
    return schedule({"total": count * 0.01 + 1, **times})


EXTREMES = {
    "passes": _passes,
    "iterations": lambda size: schedule(*[FIRST] * (size // 150)),
}
"""Files with much of one thing, of about `size` bytes."""
