"""MegaScan's ranks joined into one Chrome trace: each process is a rank, `args` hold the iteration.

Old files pair begins and ends, newer ones have whole slices with `g_rk`, `dp_rk`, `pp_rk`, `tp_rk`.

Source: MegatronApp, `scripts/aggregate.py` (`benchmark_to_chrome_trace`, `transform`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from stepwhy.errors import CorruptInputError
from stepwhy.importers.chrome_json import read_records
from stepwhy.importers.chrome_span_lists import spans_of
from stepwhy.importers.megascan.ranges import (
    Iteration,
    Range,
    add_gaps,
    add_iterations,
    add_ranges,
    gpu_name,
    phase_of,
)
from stepwhy.importers.megascan.run import meta_of_ranks
from stepwhy.patterns import regex
from stepwhy.trace import NULL, DeviceKind, Phase, TraceBuilder

if TYPE_CHECKING:
    from stepwhy.importers.chrome_json import Event, Records
    from stepwhy.importers.chrome_span_lists import Span
    from stepwhy.importers.source import Source
    from stepwhy.trace import Health, Trace

# The colours that the aggregator gives, before the iteration that it writes first of all.
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


def recognise(head: bytes) -> bool:
    """Whether the beginning of a file is a list of the aggregator's records."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return text[:1] == b"[" and _RECORD.search(text) is not None


def read(source: Source) -> Trace | None:
    """Read all ranks; None where no range is of a training step.

    Raises:
        CorruptInputError: The file holds not a single complete record.
    """
    builder = TraceBuilder()
    records: Records[MegaArgs] = read_records(source, MegaArgs, builder.health)
    spans = spans_of(records, builder.health)
    ranges = [_range(records, span) for span in spans]
    if not any(phase_of(r.name) is not Phase.UNKNOWN for r in ranges):
        if builder.health.has("json-truncated"):
            raise CorruptInputError(
                f"{source.origin} is a MegaScan trace without a single whole range",
                "Copy the file again, or aggregate the ranks again",
            )
        return None
    marks = _marks(records, builder.health)
    iterations = _iterations(ranges, marks)
    devices = _devices(builder, records, ranges)
    add_ranges(builder, ranges, devices)
    add_iterations(builder, iterations)
    add_gaps(builder, ranges, iterations, devices)
    meta = meta_of_ranks(
        ranges,
        [] if marks.tell_ends else iterations,
        several_runs=marks.several_runs,
        complete=records.complete,
    )
    return builder.finish(meta)


def _range(records: Records[MegaArgs], span: Span) -> Range:
    first, last = records.events[span.first], records.events[span.last]
    args = last.args or MegaArgs()
    begun = first.args or MegaArgs()
    return Range(
        _rank(first),
        _number(first.tid, 0),
        first.name,
        span.start_ns,
        span.end_ns,
        _number(begun.iteration),
        _number(args.pp_rk if args.pp_rk is not None else args.pp_rank),
        _number(args.model_chunk),
    )


def _rank(event: Event[MegaArgs]) -> int:
    return _number(event.pid, 0)


def _number(value: Any, default: int = NULL) -> int:
    is_id = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31
    return int(value) if is_id else default


class _Marks(NamedTuple):
    """What the records that are no ranges say.

    Args:
        times_ns: Begins and ends of iterations by their number, where they are written.
        tell_ends: Whether ends are.
        several_runs: Whether a rank begins an iteration on two threads at once.
    """

    times_ns: dict[int, list[int]]
    tell_ends: bool
    several_runs: bool


def _marks(records: Records[MegaArgs], health: Health) -> _Marks:
    """Take the marks of iterations, count all other records that are no ranges."""
    times: dict[int, list[int]] = defaultdict(list)
    begun: Counter[tuple[int, int]] = Counter()
    seen: Counter[str] = Counter()
    for i, event in enumerate(records.events):
        if event.ph in {"X", "B", "E"}:
            continue
        is_mark = event.name in {_BEGIN, _END} and bool(records.timed[i])
        seen[event.name if is_mark else event.ph] += 1
        if is_mark:
            number = _number(event.args.iteration) if event.args is not None else NULL
            times[number].append(int(records.start_ns[i]))
            begun[_rank(event), number] += event.name == _BEGIN
    begins, ends, names = (seen.pop(key, 0) for key in (_BEGIN, _END, "M"))
    _count_others(health, names, sum(seen.values()))
    health.events_kept += begins + ends
    return _Marks(times, ends > 0, max(begun.values(), default=0) > 1)


def _count_others(health: Health, names: int, other: int) -> None:
    health.count(
        "metadata-record", "info", "Names and order of processes.", count=names, dropped=True
    )
    health.count(
        "other-record",
        "info",
        "Marks and arrows that carry no duration.",
        count=other,
        dropped=True,
    )


def _iterations(ranges: list[Range], marks: _Marks) -> list[Iteration]:
    """The iterations of every rank: from the first begin to the last end on any rank.

    Where an iteration ended is not written in most files; what follows its last range is in none.
    """
    by_number: dict[int, list[Range]] = defaultdict(list)
    for one in ranges:
        if one.iteration != NULL:
            by_number[one.iteration].append(one)
    iterations = []
    for number, mine in sorted(by_number.items()):
        told = marks.times_ns.get(number, [])
        last = max(r.end_ns for r in mine)
        start, end = min([r.start_ns for r in mine] + told), max([last, *told])
        iterations += [
            Iteration(rank, number, start, end, last) for rank in sorted({r.rank for r in ranges})
        ]
    return iterations


def _devices(
    builder: TraceBuilder, records: Records[MegaArgs], ranges: list[Range]
) -> dict[int, int]:
    """Row of every rank's GPU."""
    told = {_rank(e): _number(e.args.dev) for e in records.events if e.args is not None}
    return {
        rank: builder.device(f"rank {rank} {gpu_name(told.get(rank, NULL))}", DeviceKind.GPU)
        for rank in sorted({r.rank for r in ranges})
    }
