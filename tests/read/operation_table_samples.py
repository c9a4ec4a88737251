"""Generator of operation tables: two pipeline stages, each on two ranks."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

# Type of operation, start and duration in seconds; the second stage computes longer.
STAGES = (
    [
        ("params-all-gather", 0.0, 0.1),
        ("forward-compute", 0.1, 0.2),
        ("forward-send", 0.3, 0.1),
        ("backward-recv", 0.3, 0.6),
        ("backward-compute", 0.9, 0.4),
        ("optimizer", 1.4, 0.1),
        ("gc", 1.5, 0.0),
    ],
    [
        ("params-all-gather", 0.0, 0.1),
        ("forward-recv", 0.1, 0.3),
        ("forward-compute", 0.4, 0.3),
        ("backward-compute", 0.7, 0.6),
        ("backward-send", 1.3, 0.1),
        ("optimizer", 1.4, 0.2),
    ],
)


def rows(steps=(7, 9), stages=STAGES):
    """The rows of some steps as tuples."""
    for step in steps:
        for rank in range(2 * len(stages)):
            for name, start, duration in stages[rank // 2]:
                yield rank, rank // 2, step, name, start, duration


def table(found):
    """The file of some rows."""
    rank, stage, step, name, start, duration = zip(*found, strict=True)
    columns = {
        "dp_rank": pa.array([r % 2 for r in rank], pa.int8()),
        "stage": pa.array(stage, pa.int8()),
        "rank": pa.array(rank, pa.int16()),
        "step": pa.array(step, pa.int64()),
        "optype": pa.array(name).dictionary_encode(),
        "start_ts": pa.array(start, pa.float32()),
        "duration": pa.array(duration, pa.float32()),
    }
    return _file(columns)


def _file(columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def seeds():
    """Valid files."""
    return [
        ("pipeline.parquet", table(rows())),
        ("step.parquet", table(rows(steps=(0,), stages=STAGES[:1]))),
    ]


def _many(size, **columns):
    """A file of rows that differ in some columns."""
    count = size // 16
    number = np.arange(count)
    one = {
        "stage": np.zeros(count, np.int8),
        "rank": np.zeros(count, np.int32),
        "step": np.zeros(count, np.int64),
        "optype": np.full(count, "forward-compute"),
        "start_ts": (number * 1e-3).astype(np.float32),
        "duration": np.full(count, 1e-3, np.float32),
    }
    return _file({**one, **{name: make(number) for name, make in columns.items()}})


EXTREMES = {
    "ranks": lambda size: _many(size, rank=lambda n: n % 2000),
    "steps": lambda size: _many(size, step=lambda n: n),
    "names": lambda size: _many(size, optype=lambda n: np.char.add("send-", n.astype(str))),
}
"""Files with much of one thing, of about `size` bytes."""
