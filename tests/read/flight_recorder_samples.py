"""Generator of flight-recorder dumps: the collectives of one rank, as pickle or JSON."""

import json
import pickle

LIBRARY = "/opt/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
DEFAULT = ("0", "default_pg")
STARTED_NS = 1_795_000_000_000_000_000


def entry(
    sequence, name="nccl:all_reduce", *, shape=(4,), types="Float", done=True, line=7, **more
):
    """One collective; a rank enters one every second."""
    started_ns = STARTED_NS + sequence * 1_000_000_000
    return {
        "frames": [
            {"name": "all_reduce", "filename": LIBRARY, "line": 3245},
            {"name": "step", "filename": "/work/train.py", "line": line},
        ],
        "record_id": sequence,
        "pg_id": 0,
        "process_group": DEFAULT,
        "collective_seq_id": sequence,
        "p2p_seq_id": 0,
        "op_id": sequence,
        "profiling_name": name,
        "time_created_ns": started_ns,
        "input_sizes": [list(shape)],
        "input_dtypes": [types],
        "output_sizes": [list(shape)],
        "output_dtypes": [types],
        "state": "completed" if done else "started",
        "time_discovered_started_ns": started_ns + 1_000_000,
        "time_discovered_completed_ns": started_ns + 3_000_000 if done else None,
        **({"duration_ms": 2.0} if done else {}),
        "retired": done,
        "timeout_ms": 600_000,
        "is_p2p": False,
        **more,
    }


def dump(*entries, ranks="[0, 1]"):
    """The content of a dump."""
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}},
        "pg_status": {"0": {"last_enqueued_collective": len(entries)}},
        "entries": list(entries),
    }


def pickled(*entries, **about):
    """A dump as a pickle, as PyTorch writes it: protocol 2."""
    return pickle.dumps(dump(*entries, **about), protocol=2)


def as_json(*entries, **about):
    """A dump as JSON: without lines, and 0 for times that are not known."""
    plain = [{k: v for k, v in one.items() if k != "frames"} for one in entries]
    for one in plain:
        one["time_discovered_completed_ns"] = one["time_discovered_completed_ns"] or 0
    return json.dumps(dump(*plain, **about)).encode()


def hung(rank, write=pickled, ranks=4):
    """The dump of one of several ranks; rank 1 has not entered the fifth collective."""
    done = [entry(n) for n in range(1, 5)]
    members = str([*range(ranks)])
    return write(*done, *([] if rank == 1 else [entry(5, done=False)]), ranks=members)


def seeds():
    """Valid files."""
    return [
        {f"nccl_trace_rank_{rank}": hung(rank, ranks=2) for rank in range(2)},
        {"rank_0.json": hung(0, as_json)},
    ]


EXTREMES = {
    "entries": lambda size: pickled(*(entry(n) for n in range(size // 150))),
    "entries-as-json": lambda size: as_json(*(entry(n) for n in range(size // 500))),
    "members": lambda size: pickled(entry(1), ranks=str([*range(size // 7)])),
    "shape": lambda size: pickled(entry(1, shape=[1] * (size // 2))),
}
"""Files with much of one thing, of about `size` bytes."""
