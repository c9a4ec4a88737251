"""Reads Chrome traces of all ranks from MegaScan: each process is a rank.

Old files have begins and ends, newer ones whole slices with `g_rk`, `dp_rk`, `pp_rk`, `tp_rk`.

Source: MegatronApp, `scripts/aggregate.py` (`benchmark_to_chrome_trace`, `transform`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.base.errors import CorruptInputError
from stepwhy.base.patterns import regex
from stepwhy.read.formats.megascan.iterations import Iteration, add_gaps, add_iterations
from stepwhy.read.formats.megascan.ranges import Ranges, add_ranges, gpu_name
from stepwhy.read.formats.megascan.run import meta_of_ranks
from stepwhy.read.shared.chrome_json import Collector, Document
from stepwhy.read.shared.chrome_spans import ON_THREAD, of_phase, spans_of
from stepwhy.trace import NULL, DeviceKind, TraceBuilder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.read.inputs.source import Source
    from stepwhy.read.shared.chrome_json import Batch, Event, Table
    from stepwhy.read.shared.chrome_spans import Spans
    from stepwhy.trace import Health, Trace

# The colours that the aggregator sets, followed by `args` that begin with the iteration.
_RECORD = regex(
    rb'"cname"\s*:\s*"(?:thread_state_\w+|rail_\w+|light_memory_dump|detailed_memory_dump)"'
    rb'[^{}]*"args"\s*:\s*\{\s*"iteration"\s*:\s*\d'
)
_BEGIN, _END = "iteration begin", "iteration end"


class MegaArgs(msgspec.Struct, gc=False):
    """The arguments that stepwhy reads."""

    iteration: Any = None
    model_chunk: Any = None
    pp_rank: Any = None
    pp_rk: Any = None
    dev: Any = None


_NO_ARGS = MegaArgs()


def recognise(head: bytes) -> bool:
    """Whether a file begins with a list of the aggregator's records."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return text[:1] == b"[" and _RECORD.search(text) is not None


def read(source: Source) -> Trace | None:
    """Read all ranks; None if no range is of a training step.

    Raises:
        CorruptInputError: The file contains no complete record.
    """
    builder = TraceBuilder()
    found, complete = _collect(source, builder.health)
    table = found.ranges.finish()
    spans = spans_of(table, builder.health)
    ranges = _ranges(table, spans)
    del table, spans
    if not ranges.phases().any():
        if builder.health.has("json-truncated"):
            raise CorruptInputError(
                f"{source.origin} is a MegaScan trace without a single whole range",
                "Copy the file again, or aggregate the ranks again",
            )
        return None
    found.count_others(builder.health)
    iterations = _iterations(ranges, found)
    devices = _devices(builder, found, ranges)
    add_ranges(builder, ranges, devices)
    add_iterations(builder, iterations)
    add_gaps(builder, ranges, iterations, devices)
    meta = meta_of_ranks(
        ranges,
        [] if found.has_ends else iterations,
        several_runs=found.has_several_runs,
        complete=complete,
    )
    del ranges  # the builder has its own columns, and needs the memory
    return builder.finish(meta)


class _Found(msgspec.Struct):
    """Contents of a file.

    Args:
        ranges: Records of ranges, with the columns 'iteration', 'stage' and 'chunk'.
        times_ns: Recorded begins and ends of iterations by their number.
        devices: Number of every rank's GPU, from its last record.
    """

    ranges: Collector = msgspec.field(default_factory=Collector)
    times_ns: dict[int, list[int]] = msgspec.field(default_factory=lambda: defaultdict(list))
    devices: dict[int, int] = msgspec.field(default_factory=dict)
    _begun: Counter[tuple[int, int]] = msgspec.field(default_factory=Counter)
    _seen: Counter[str] = msgspec.field(default_factory=Counter)

    def add(self, batch: Batch[MegaArgs]) -> None:
        """Add a batch."""
        rows = of_phase(batch, ON_THREAD)
        self.ranges.add(batch, rows, **_labels([batch.events[i] for i in rows.tolist()]))
        is_range = np.zeros(len(batch.events), dtype=bool)
        is_range[rows] = True
        for i in np.flatnonzero(~is_range).tolist():
            self._mark(batch, i)
        self.devices.update(
            (_rank(e), _number(e.args.dev)) for e in batch.events if e.args is not None
        )

    def _mark(self, batch: Batch[MegaArgs], i: int) -> None:
        """Add the mark of an iteration; other records are counted."""
        event = batch.events[i]
        is_mark = event.name in {_BEGIN, _END} and bool(batch.timed[i])
        self._seen[event.name if is_mark else event.ph] += 1
        if is_mark:
            number = _number(event.args.iteration) if event.args is not None else NULL
            self.times_ns[number].append(int(batch.start_ns[i]))
            self._begun[_rank(event), number] += event.name == _BEGIN

    @property
    def has_ends(self) -> bool:
        """Whether the ends of iterations are recorded."""
        return self._seen[_END] > 0

    @property
    def has_several_runs(self) -> bool:
        """Whether a rank begins an iteration on two threads at once."""
        return max(self._begun.values(), default=0) > 1

    def count_others(self, health: Health) -> None:
        """Count the records that are not ranges."""
        marks, names = self._seen[_BEGIN] + self._seen[_END], self._seen["M"]
        health.events_kept += marks
        health.count(
            "metadata-record", "info", "Names and order of processes.", count=names, dropped=True
        )
        health.count(
            "other-record",
            "info",
            "Marks and arrows that carry no duration.",
            count=self._seen.total() - marks - names,
            dropped=True,
        )


def _collect(source: Source, health: Health) -> tuple[_Found, bool]:
    """Contents of a file, and whether it is complete."""
    found, document = _Found(), Document(source, MegaArgs, health)
    for batch in document:
        found.add(batch)
    return found, document.complete


def _labels(events: list[Event[MegaArgs]]) -> dict[str, NDArray[np.int32]]:
    """Columns of the arguments of records; (records,) each."""
    args = [event.args or _NO_ARGS for event in events]
    stages = [a.pp_rk if a.pp_rk is not None else a.pp_rank for a in args]
    return {
        "iteration": _numbers([a.iteration for a in args]),
        "stage": _numbers(stages),
        "chunk": _numbers([a.model_chunk for a in args]),
    }


def _numbers(values: list[Any]) -> NDArray[np.int32]:
    return np.fromiter(map(_number, values), dtype=np.int32, count=len(values))


def _ranges(table: Table, spans: Spans) -> Ranges:
    """The ranges: their iteration is in the first record, the other arguments in the last one."""
    first, last, more = spans.first, spans.last, table.more
    places = np.asarray(
        [(_number(pid, 0), _number(tid, 0)) for pid, tid in table.places], dtype=np.int32
    ).reshape(-1, 2)
    use = table.use[first]
    place = places[table.place_of_use[use]]
    return Ranges(
        table.names,
        table.name_of_use[use],
        place[:, 0].copy(),
        place[:, 1].copy(),
        spans.start_ns,
        spans.end_ns,
        more["iteration"][first],
        more["stage"][last],
        more["chunk"][last],
    )


def _rank(event: Event[MegaArgs]) -> int:
    return _number(event.pid, 0)


def _number(value: Any, default: int = NULL) -> int:
    is_id = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31
    return int(value) if is_id else default


def _iterations(ranges: Ranges, found: _Found) -> list[Iteration]:
    """The iterations of every rank: from the first begin to the last end on any rank.

    Most files do not record the end of an iteration; time after its last range is in no iteration.
    """
    numbered = np.flatnonzero(ranges.iteration != NULL)
    numbers, which = np.unique(ranges.iteration[numbered], return_inverse=True)
    firsts = np.full(len(numbers), np.iinfo(np.int64).max)
    lasts = np.full(len(numbers), np.iinfo(np.int64).min)
    np.minimum.at(firsts, which, ranges.start_ns[numbered])
    np.maximum.at(lasts, which, ranges.end_ns[numbered])
    ranks = np.unique(ranges.rank).tolist()
    iterations = []
    for number, first, last in zip(numbers.tolist(), firsts.tolist(), lasts.tolist(), strict=True):
        marks = found.times_ns.get(number, [])
        start, end = min([first, *marks]), max([last, *marks])
        iterations += [Iteration(rank, number, start, end, last) for rank in ranks]
    return iterations


def _devices(builder: TraceBuilder, found: _Found, ranges: Ranges) -> dict[int, int]:
    """Row of every rank's GPU."""
    return {
        rank: builder.device(
            f"rank {rank} {gpu_name(found.devices.get(rank, NULL))}", DeviceKind.GPU
        )
        for rank in np.unique(ranges.rank).tolist()
    }
