"""Generator of tables of projected NVTX ranges, as JAX on two GPUs leaves them."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MS = 1_000_000
STEP = "TSL:XlaModule:#prefix=jit(train_step)/jit(main),hlo_module=jit_train_step,program_id=16#"
OTHER = "TSL:XlaModule:#hlo_module=jit_convert,program_id=0#"


def instruction(operation, name=""):
    """The range of an instruction."""
    return f"TSL:Thunk:#name={name},hlo_op={operation}#"


# Range, start and duration in ms within a step of 100 ms, parent, whether it is innermost.
STEP_RANGES = (
    (STEP, 0, 90, None, False),
    (instruction("loop_fusion.3", "jvp(Net)/dense"), 0, 30, 1, True),
    (instruction("while.1"), 30, 50, 1, False),
    (instruction("gemm.12", "transpose(jvp(Net))/dense"), 30, 40, 2, True),
    (instruction("all-gather-start.4"), 60, 20, 2, False),
    ("NCCL:ncclGroupEnd", 61, 18, 3, True),
    (instruction("copy"), 85, 5, 1, True),
)


def steps(count=3, threads=(11, 12), rank=0):
    """The rows of some steps; the second thread starts a millisecond later."""
    for step in range(count):
        for late, thread in enumerate(threads):
            for name, start, duration, parent, innermost in STEP_RANGES:
                begin = (100 * step + start + late) * MS
                yield name, begin, duration * MS, thread, 1, not innermost, parent, rank


def table(rows):
    """The file of some rows."""
    name, start, duration, thread, ops, children, parent, rank = zip(*rows, strict=True)
    return _file(
        {
            "Name": pa.array(name, pa.string()),
            "Projected Start": pa.array(start, pa.int64()),
            "Projected Duration": pa.array(duration, pa.int64()),
            "PID": pa.array([7] * len(name), pa.int64()),
            "TID": pa.array(thread, pa.int64()),
            "NumGPUOps": pa.array(ops, pa.int64()),
            "NumChild": pa.array(map(int, children), pa.int64()),
            "ParentId": pa.array(parent, pa.float64()),
            "Rank": pa.array(rank, pa.int64()),
        }
    )


def _file(columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def seeds():
    """Valid files: two GPUs of one process, and ranges of a program without steps."""
    other = [("load", 0, 5 * MS, 3, 1, False, None, 0), (None, 0, MS, 3, 0, False, None, 0)]
    return [
        ("jax.trace.parquet", table([*steps(), (OTHER, 0, MS, 7, 1, True, None, 0)])),
        ("ranges.parquet", table(other)),
    ]


def _many(size, **columns):
    """A file of rows that differ in some columns."""
    count = size // 16
    number = np.arange(count)
    one = {
        "Name": np.full(count, instruction("gemm")),
        "Projected Start": number * MS,
        "Projected Duration": np.full(count, MS),
        "TID": np.zeros(count, np.int64),
        "NumGPUOps": np.ones(count, np.int64),
        "NumChild": np.zeros(count, np.int64),
        "ParentId": np.full(count, np.nan),
        "Rank": np.zeros(count, np.int64),
    }
    return _file({**one, **{name: make(number) for name, make in columns.items()}})


EXTREMES = {
    "threads": lambda size: _many(size, TID=lambda n: n % 2000),
    "names": lambda size: _many(size, Name=lambda n: np.char.add("op", n.astype(str))),
    "steps": lambda size: _many(size, Name=lambda n: np.full(len(n), STEP)),
}
"""Files with much of one thing, of about `size` bytes."""
