"""NVTX ranges projected onto the GPU, as the Nsight Systems recipe `nvtx_gpu_proj_trace` writes.

A range is projected from the start of the first operation on the GPU that it caused to the end of
the last. The innermost ranges are used as operations; those around them repeat their time. JAX
marks each program and each of its instructions, and runs each device by a thread of its own.

Source: "Nsight Systems User Guide", Available Recipes; the names of JAX's ranges: OpenXLA,
`xla/backends/gpu/runtime/annotation.cc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.base.errors import EmptyInputError, TooLargeError
from stepwhy.base.patterns import regex
from stepwhy.read.kernel_names import instruction_row
from stepwhy.read.shared.cuda import kind_of
from stepwhy.read.shared.parquet import has_columns, parse_table
from stepwhy.trace import NULL, DeviceKind, Kind, Meta, Phase, Role, TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepwhy.base.columns.types import Ints
    from stepwhy.read.inputs.source import Source
    from stepwhy.read.shared.parquet import ParquetTable
    from stepwhy.trace import Trace


FORMAT = "nsys-recipe"

_START, _DURATION = "Projected Start", "Projected Duration"
_COLUMNS = ("Name", _START, _DURATION, "TID", "NumGPUOps", "NumChild", "ParentId", "Rank")
_PROGRAM = "TSL:XlaModule:"
_NCCL = "NCCL:"
_INSTRUCTION = regex(r"^TSL:Thunk:#(?:.*,)?hlo_op=([^,#]+)")
_NUMBER = regex(r"\.\d+$")
_MODULE = regex(r"hlo_module=(?:jit_)?([^,#]+)")
_BACKWARD, _FORWARD = "transpose(jvp(", "jvp("
_LARGEST_NS = 1 << 60
_LARGEST_ID = (1 << 31) - 1
_MOST_THREADS = 1 << 12
_NOTES = (
    "The table contains only ranges that used a GPU: the work of the host is not recorded.",
    "Ranges do not record their GPU: each thread that runs the step counts as one.",
)


class _Ranges(msgspec.Struct, frozen=True):
    """The usable rows; (rows,) each.

    Args:
        code: Index into `names`.
        names: All names.
        start_ns: Projected start.
        dur_ns: Projected duration.
        rank: Rank.
        thread: Thread that opened the range.
        is_innermost: Whether no other range is inside.
        is_inside: Whether another range is around.
    """

    code: NDArray[np.int32]
    names: list[str]
    start_ns: Ints
    dur_ns: Ints
    rank: Ints
    thread: Ints
    is_innermost: NDArray[np.bool_]
    is_inside: NDArray[np.bool_]

    def select(self, rows: Ints) -> _Ranges:
        """Some of the ranges."""
        return _Ranges(
            self.code[rows],
            self.names,
            self.start_ns[rows],
            self.dur_ns[rows],
            self.rank[rows],
            self.thread[rows],
            self.is_innermost[rows],
            self.is_inside[rows],
        )


def recognise(source: Source) -> bool:
    """Whether the file is a Parquet table with the columns of projected ranges."""
    return has_columns(source, _COLUMNS)


def read(source: Source) -> Trace:
    """Read the ranges of all ranks.

    Raises:
        CorruptInputError: The table is damaged.
        EmptyInputError: It holds no range that used a GPU.
        TooLargeError: It holds too many threads, or does not fit into memory.
        MissingPackageError: pyarrow is not installed.
    """
    builder = TraceBuilder()
    ranges = _usable(parse_table(source, _COLUMNS), builder)
    program = _step_program(ranges)
    ranges = _select_step_threads(ranges, program, builder)
    if not len(ranges.code):
        raise EmptyInputError(
            f"{source.origin} holds no range that used a GPU", "Record some steps with NVTX ranges"
        )
    if len(_threads(ranges)[0]) > _MOST_THREADS:
        raise TooLargeError(
            f"{source.origin} holds ranges of more than {_MOST_THREADS:,} threads",
            "Give the ranges of some threads",
        )
    _add_ranges(builder, ranges)
    _add_steps(builder, ranges, program)
    ranks = len(np.unique(ranges.rank))
    return builder.finish(
        Meta(
            FORMAT,
            "jax" if program != NULL else "",
            signals=frozenset({"device-activity"} | ({"ranks"} if ranks > 1 else set())),
            device_expected=True,
            notes=_NOTES,
        )
    )


def _usable(table: ParquetTable, builder: TraceBuilder) -> _Ranges:
    """The rows with a name, a time and work on a GPU."""
    code, names = table.texts("Name")
    start_ns, dur_ns = table.integers(_START), table.integers(_DURATION)
    thread, rank = table.integers("TID"), table.integers("Rank")
    timed = (start_ns >= 0) & (start_ns < _LARGEST_NS) & (dur_ns >= 0) & (dur_ns < _LARGEST_NS)
    placed = (thread >= 0) & (thread <= _LARGEST_ID) & (rank >= 0) & (rank <= _LARGEST_ID)
    rows = np.flatnonzero(timed & placed & (code >= 0) & (table.integers("NumGPUOps") > 0))
    builder.health.events_read += len(table)
    builder.health.count(
        "range-without-gpu",
        "info",
        "Ranges without a name, a time or an operation on a GPU were left out.",
        count=len(table) - len(rows),
        dropped=True,
    )
    every = _Ranges(
        code,
        names,
        start_ns,
        dur_ns,
        rank,
        thread,
        is_innermost=table.integers("NumChild") <= 0,
        is_inside=np.isfinite(table.numbers("ParentId")),
    )
    return every.select(rows)


def _step_program(ranges: _Ranges) -> int:
    """Code of the compiled program that is the training step; NULL without one.

    It is the longest of those that a thread runs repeatedly.
    """
    is_program = np.asarray([name.startswith(_PROGRAM) for name in ranges.names], dtype=bool)
    rows = np.flatnonzero(is_program[ranges.code])
    if not len(rows):
        return NULL
    keys = np.stack((ranges.code[rows], ranges.rank[rows], ranges.thread[rows]), axis=1)
    runs, counts = np.unique(keys, axis=0, return_counts=True)
    repeated = runs[counts > 1, 0]
    if not len(repeated):
        return NULL
    total_ns = np.bincount(ranges.code[rows], ranges.dur_ns[rows].astype(np.float64))
    return int(repeated[total_ns[repeated].argmax()])


def _select_step_threads(ranges: _Ranges, program: int, builder: TraceBuilder) -> _Ranges:
    """The ranges of threads that run the step; all ranges without a step."""
    rows = np.arange(len(ranges.code))
    if program != NULL:
        threads, which = _threads(ranges)
        runs_step = np.zeros(len(threads), dtype=bool)
        runs_step[which[ranges.code == program]] = True
        rows = np.flatnonzero(runs_step[which])
    builder.health.events_kept += len(rows)
    builder.health.count(
        "range-of-other-thread",
        "info",
        "Ranges of threads that do not run the training step were left out.",
        count=len(ranges.code) - len(rows),
        dropped=True,
    )
    return ranges.select(rows)


def _threads(ranges: _Ranges) -> tuple[Ints, Ints]:
    """The distinct ranks and threads, (threads, 2), and the thread of each range, (rows,)."""
    keys = np.stack((ranges.rank, ranges.thread), axis=1)
    threads, which = np.unique(keys, axis=0, return_inverse=True)
    return threads, which.reshape(-1)


def _add_ranges(builder: TraceBuilder, ranges: _Ranges) -> None:
    """Add each range to a stream of the GPU of its thread."""
    threads, which = _threads(ranges)
    tracks = np.asarray(
        [_streams(builder, number, rank) for number, (rank, _) in enumerate(threads.tolist())]
    )
    shown, kinds, phases = zip(*map(_meaning, ranges.names), strict=True)
    code = ranges.code
    kind = np.asarray(kinds, dtype=np.int8)[code]
    is_exchange = kind == Kind.COLLECTIVE
    is_nccl = np.asarray([name.startswith(_NCCL) for name in ranges.names], dtype=bool)[code]
    # The call of NCCL inside an instruction repeats its time.
    claims = np.where(is_exchange, ~(is_nccl & ranges.is_inside), ranges.is_innermost)
    builder.slices_from(
        {
            "track": tracks[which, is_exchange.astype(np.int64)].astype(np.int32),
            "kind": np.where(claims, kind, np.int8(Kind.DEVICE_ANNOTATION)),
            "name": np.asarray(builder.intern_all(list(shown)), dtype=np.int32)[code],
            "start_ns": ranges.start_ns,
            "dur_ns": ranges.dur_ns,
            "phase": np.where(claims, np.asarray(phases, dtype=np.int8)[code], np.int8(0)),
        }
    )


def _streams(builder: TraceBuilder, number: int, rank: int) -> tuple[int, int]:
    """The tracks for computation and for exchanges of the thread with this number."""
    device = builder.device(f"GPU:{number}", DeviceKind.GPU)
    first, second = (
        builder.track(Role.STREAM, name, process=rank, thread=2 * number + lane, device=device)
        for lane, name in enumerate(("compute", "communication"))
    )
    return first, second


def _meaning(name: str) -> tuple[str, Kind, Phase]:
    """Name of a range, and its kind and phase if it is used as an operation."""
    found = _INSTRUCTION.match(name)
    shown = _NUMBER.sub("", found[1]) if found else name
    if kind_of(instruction_row(shown)) is Kind.COLLECTIVE or name.startswith(_NCCL):
        return shown, Kind.COLLECTIVE, Phase.COMMUNICATION
    if _BACKWARD in name:
        return shown, Kind.KERNEL, Phase.BACKWARD
    return shown, Kind.KERNEL, Phase.FORWARD if _FORWARD in name else Phase.UNKNOWN


def _add_steps(builder: TraceBuilder, ranges: _Ranges, program: int) -> None:
    """Add a step marker for each run of the step's program on all threads of a rank."""
    if program == NULL:
        return
    found = _MODULE.search(ranges.names[program])
    name = found[1] if found else "step"
    for rank in np.unique(ranges.rank).tolist():
        rows = np.flatnonzero((ranges.code == program) & (ranges.rank == rank))
        track = builder.track(Role.HOST_THREAD, "steps", process=rank, thread=0)
        for number, (start_ns, end_ns) in enumerate(_runs(ranges, rows)):
            builder.slice(track, Kind.STEP, f"{name} {number}", start_ns, end_ns - start_ns)


def _runs(ranges: _Ranges, rows: Ints) -> Iterator[tuple[int, int]]:
    """Start and end of each run of the program by all threads; none overlaps the next."""
    rows = rows[np.argsort(ranges.start_ns[rows], kind="stable")]
    starts, ends, seen = list[int](), list[int](), set[int]()
    for row in rows.tolist():
        thread = int(ranges.thread[row])
        end_ns = int(ranges.start_ns[row] + ranges.dur_ns[row])
        if not starts or thread in seen:
            starts.append(int(ranges.start_ns[row]))
            ends.append(end_ns)
            seen = set()
        seen.add(thread)
        ends[-1] = max(ends[-1], end_ns)
    yield from zip(starts, map(min, ends, [*starts[1:], _LARGEST_NS * 2]), strict=True)
