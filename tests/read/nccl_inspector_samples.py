"""Generator of files of NCCL Inspector: one line per collective that has ended."""

import json


def record(rank, number, took_us=900, *, coll="AllReduce", size=4096, ranks=2, **more):
    """One collective."""
    return {
        "header": {"id": "0x7f8c496ae9f661", "rank": rank, "n_ranks": ranks, "nnodes": 1},
        "metadata": {
            "inspector_output_format_version": "v4.0",
            "git_rev": "",
            "rec_mechanism": "profiler_plugin",
            "dump_timestamp_us": 1_748_030_377_748_202,
            "hostname": "node",
            "pid": 1000 + rank,
        },
        "coll_perf": {
            "coll": coll,
            "coll_sn": number,
            "coll_msg_size_bytes": size,
            "coll_exec_time_us": took_us,
            "coll_algobw_gbs": 27.2,
            "coll_busbw_gbs": 48.5,
            **more,
        },
    }


def lines(*records):
    """The file of some collectives."""
    return "".join(json.dumps(one) + "\n" for one in records).encode()


def seeds():
    """Valid files."""
    return [
        {
            f"node-pid{rank}.log": lines(*(record(rank, n, 900 - 500 * rank) for n in range(9)))
            for rank in range(2)
        }
    ]


EXTREMES = {"collectives": lambda size: lines(*(record(0, n) for n in range(size // 400)))}
"""Files with much of one thing, of about `size` bytes."""
