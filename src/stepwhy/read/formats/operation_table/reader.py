"""Operation tables of pipeline-parallel jobs: one row per operation, of all ranks.

Times are seconds since the start of the step. Only sampled steps are recorded, so the steps are
laid end to end. A communication includes the wait for its last participant. Operations run in order
on their rank and stream; a rank has a stream for computation and one for each kind of exchange.

Source: ByteDance-Seed/StragglerAnalysis, `README.md`; "Understanding Stragglers in Large Model
Training Using What-if Analysis", OSDI 2025.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.base.errors import EmptyInputError, TooLargeError
from stepwhy.base.patterns import regex
from stepwhy.read.shared.parquet import has_columns, parse_table
from stepwhy.trace import NULL, DeviceKind, Kind, Meta, Phase, Role, TraceBuilder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.base.columns.types import Ints
    from stepwhy.read.inputs.source import Source
    from stepwhy.read.shared.parquet import ParquetTable
    from stepwhy.trace import Trace


FORMAT = "operation-table"

_COLUMNS = ("rank", "stage", "step", "optype", "start_ts", "duration")
# To clip gradients, the ranks add up their norms: all of them end it together.
_EXCHANGE = regex(
    r"(?:.*-)?(?:send|recv|all-gather|reduce-scatter|all-reduce|all-to-all)|optimizer-clip-main-grad"
)
_COMPUTE = (
    (regex(r"forward-compute"), Phase.FORWARD),
    (regex(r"backward-compute"), Phase.BACKWARD),
    (regex(r"optimizer(?:-.*)?"), Phase.OPTIMIZER),
)
_LARGEST_ID = (1 << 31) - 1
_LONGEST_S = 1e4  # a step of hours is damage
_MOST_RANKS = 1 << 14
_MOST_STEPS = 1 << 17  # of the longest steps, so many fit into 62 bits of nanoseconds
_NOTES = (
    "Only sampled steps were recorded: they are shown end to end, without the steps in between.",
    "Whole forward and backward passes were timed; kernels and idle time inside are not recorded.",
)


class _Operations(msgspec.Struct, frozen=True):
    """The usable rows; (rows,) each.

    Args:
        rank: Rank.
        stage: Pipeline stage of the rank.
        step: Index into `steps`.
        steps: Numbers of the steps, ascending.
        code: Index into `names`.
        names: Types of operations.
        start_ns: Start, on one clock for all steps.
        dur_ns: Duration.
    """

    rank: Ints
    stage: Ints
    step: Ints
    steps: Ints
    code: Ints
    names: list[str]
    start_ns: Ints
    dur_ns: Ints


def recognise(source: Source) -> bool:
    """Whether the file is a Parquet table with the columns of operations."""
    return has_columns(source, _COLUMNS)


def read(source: Source) -> Trace:
    """Read the operations of all ranks.

    Raises:
        CorruptInputError: The table is damaged.
        EmptyInputError: It holds no usable operation.
        TooLargeError: It holds too many ranks, or does not fit into memory.
        MissingPackageError: pyarrow is not installed.
    """
    builder = TraceBuilder()
    operations = _operations(parse_table(source, _COLUMNS), builder)
    _check(operations, source.origin)
    _add_steps(builder, operations)
    _add_operations(builder, operations)
    ranks = np.unique(operations.rank)
    is_complete = int(ranks[-1]) == len(ranks) - 1
    return builder.finish(
        Meta(
            FORMAT,
            world_size=len(ranks) if is_complete else NULL,
            stages=_stages(operations),
            signals=frozenset({"passes", "ranks"}),
            device_expected=True,
            notes=_NOTES,
        )
    )


def _check(operations: _Operations, origin: str) -> None:
    """Refuse a table that cannot be explained.

    Raises:
        EmptyInputError: It holds no usable operation.
        TooLargeError: It holds more ranks or steps than are explained together.
    """
    if not len(operations.rank):
        raise EmptyInputError(
            f"{origin} holds no operation with a rank, a step and a time",
            "Give a table of operations that were recorded",
        )
    ranks, steps = len(np.unique(operations.rank)), len(operations.steps)
    if ranks > _MOST_RANKS or steps > _MOST_STEPS:
        raise TooLargeError(
            f"{origin} holds {steps:,} steps of {ranks:,} ranks; up to {_MOST_STEPS:,} steps of "
            f"{_MOST_RANKS:,} ranks are explained together",
            "Give the operations of some ranks or steps",
        )


def _operations(table: ParquetTable, builder: TraceBuilder) -> _Operations:
    """The rows that have a rank, a step and a time."""
    rank, stage, step = (table.integers(name) for name in ("rank", "stage", "step"))
    code, names = table.texts("optype")
    start_s, dur_s = table.numbers("start_ts"), table.numbers("duration")
    known = (rank >= 0) & (rank <= _LARGEST_ID) & (step >= 0) & (code >= 0)
    timed = (np.abs(start_s) < _LONGEST_S) & (dur_s >= 0) & (dur_s < _LONGEST_S)
    rows = np.flatnonzero(known & timed)
    builder.health.events_read += len(table)
    builder.health.events_kept += len(rows)
    builder.health.count(
        "unusable-operation",
        "warning",
        "Operations without a rank, a step or a usable time were left out.",
        count=len(table) - len(rows),
        dropped=True,
    )
    steps, which = np.unique(step[rows], return_inverse=True)
    start_ns, dur_ns = _lay_end_to_end(start_s[rows], dur_s[rows], which, len(steps))
    return _Operations(
        rank[rows], stage[rows], which, steps, code[rows].astype(np.int64), names, start_ns, dur_ns
    )


def _lay_end_to_end(
    start_s: NDArray[np.float64], dur_s: NDArray[np.float64], step: Ints, steps: int
) -> tuple[Ints, Ints]:
    """Starts and durations with the steps laid end to end, ns; (rows,) each."""
    first_s = np.full(steps, np.inf)
    np.minimum.at(first_s, step, start_s)
    start_ns = np.rint((start_s - first_s[step]) * 1e9).astype(np.int64)
    dur_ns = np.rint(dur_s * 1e9).astype(np.int64)
    span_ns = np.zeros(steps, dtype=np.int64)
    np.maximum.at(span_ns, step, start_ns + dur_ns)
    begin_ns = np.cumsum(span_ns) - span_ns
    return start_ns + begin_ns[step], dur_ns


def _add_steps(builder: TraceBuilder, operations: _Operations) -> None:
    """Add a step marker to each rank: from the first operation of any rank to the last."""
    count = len(operations.steps)
    begin_ns = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(begin_ns, operations.step, operations.start_ns)
    end_ns = np.zeros(count, dtype=np.int64)
    np.maximum.at(end_ns, operations.step, operations.start_ns + operations.dur_ns)
    pairs, _ = _pairs(operations.rank, operations.step)
    step = pairs[:, 1]
    tracks = [_host_track(builder, rank) for rank in pairs[:, 0].tolist()]
    name = builder.intern_all([f"step {number}" for number in operations.steps.tolist()])
    builder.slices_from(
        {
            "track": np.asarray(tracks, dtype=np.int32),
            "kind": np.full(len(step), Kind.STEP, dtype=np.int8),
            "name": np.asarray(name, dtype=np.int32)[step],
            "start_ns": begin_ns[step],
            "dur_ns": (end_ns - begin_ns)[step],
        }
    )


def _add_operations(builder: TraceBuilder, operations: _Operations) -> None:
    """Add each operation to the stream that it runs on, or to the host of its rank."""
    kinds, phases = zip(*map(_meaning, operations.names), strict=True)
    kind, phase = np.asarray(kinds, dtype=np.int8), np.asarray(phases, dtype=np.int8)
    code = operations.code
    builder.slices_from(
        {
            "track": _tracks(builder, operations, kind),
            "kind": kind[code],
            "name": np.asarray(builder.intern_all(operations.names), dtype=np.int32)[code],
            "start_ns": operations.start_ns,
            "dur_ns": operations.dur_ns,
            "phase": phase[code],
        }
    )


def _tracks(
    builder: TraceBuilder, operations: _Operations, kind: NDArray[np.int8]
) -> NDArray[np.int32]:
    """The track of each operation; (rows,)."""
    # All computation of a rank is one stream; each kind of exchange has its own.
    stream = np.where(kind == Kind.KERNEL, NULL, np.arange(len(kind)))[operations.code]
    pairs, which = _pairs(operations.rank, stream)
    tracks = []
    for rank, lane in pairs.tolist():
        if lane != NULL and kind[lane] != Kind.COLLECTIVE:
            tracks.append(_host_track(builder, rank))
            continue
        name = "compute" if lane == NULL else operations.names[lane]
        device = builder.device(f"rank {rank} GPU", DeviceKind.GPU)
        tracks.append(
            builder.track(Role.STREAM, name, process=rank, thread=lane + 1, device=device)
        )
    return np.asarray(tracks, dtype=np.int32)[which]


def _host_track(builder: TraceBuilder, rank: int) -> int:
    return builder.track(Role.HOST_THREAD, f"rank {rank}", process=rank, thread=rank)


def _pairs(first: Ints, second: Ints) -> tuple[Ints, Ints]:
    """The distinct pairs of two columns, (pairs, 2), and the pair of each row, (rows,)."""
    pairs, which = np.unique(np.stack((first, second), axis=1), axis=0, return_inverse=True)
    return pairs, which.reshape(-1)


def _meaning(name: str) -> tuple[Kind, Phase]:
    """What a type of operation is; other types than those of the paper run on the host."""
    if _EXCHANGE.fullmatch(name):
        return Kind.COLLECTIVE, Phase.COMMUNICATION
    phase = next((phase for pattern, phase in _COMPUTE if pattern.fullmatch(name)), None)
    return (Kind.PYTHON, Phase.UNKNOWN) if phase is None else (Kind.KERNEL, phase)


def _stages(operations: _Operations) -> tuple[tuple[int, int], ...]:
    """The pipeline stage of each rank that has one."""
    rows = np.flatnonzero(operations.stage >= 0)
    ranks, firsts = np.unique(operations.rank[rows], return_index=True)
    stages = operations.stage[rows[firsts]]
    return tuple(zip(ranks.tolist(), stages.tolist(), strict=True))
