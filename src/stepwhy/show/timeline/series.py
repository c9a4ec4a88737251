"""Sampled values as rows of a timeline: counters, fill levels of queues, and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepwhy.analyse.program.gpus import PREFIX
from stepwhy.base.columns.groups import group_rows, numbered, rows_by_group
from stepwhy.show.timeline.samples import (
    UNKNOWN,
    Sampled,
    at_distinct_times,
    cropped,
    thinned_samples,
    with_pauses,
)
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepwhy.trace import Trace

    Ints = NDArray[np.int64]

MOST_SERIES: Final = 48
"""Most rows of counters of one trace; a program may name any number."""


class _Meaning(NamedTuple):
    """What a counter of a run directory is to people.

    Args:
        title: Title of its row.
        unit: Unit of the values that are shown.
        scale: Factor from stored values to that unit.
        rate: For a running total, what its growth per ns is multiplied with; 0 for a level.
    """

    title: str
    unit: str = ""
    scale: float = 1.0
    rate: float = 0.0


# CPU time per time, in thousandths of a core; and what grows per second.
_CORES = ("cores", 1e-3, 1e3)
_PER_SECOND = (1.0, 1e9)
_MEANINGS = {
    "resident_bytes": _Meaning("memory of the process", "bytes"),
    "swap_bytes": _Meaning("swapped memory of the process", "bytes"),
    "threads": _Meaning("threads of the process"),
    "cpu_ns": _Meaning("CPU use of the process", *_CORES),
    "run_delay_ns": _Meaning("threads that wait for a core", "", 1e-3, 1e3),
    "children_cpu_ns": _Meaning("CPU use of its workers", *_CORES),
    "machine_busy_ns": _Meaning("CPU use of the machine", *_CORES),
    "disk_read_bytes": _Meaning("read from disks", "bytes/s", *_PER_SECOND),
    "disk_written_bytes": _Meaning("written to disks", "bytes/s", *_PER_SECOND),
    "major_faults": _Meaning("pages read from disk", "/s", *_PER_SECOND),
    "gpu utilisation_percent": _Meaning("use", "%"),
    "gpu used_bytes": _Meaning("memory used by all programs", "bytes"),
    "gpu process_bytes": _Meaning("memory used by the process", "bytes"),
    "gpu power_mw": _Meaning("power", "W", 1e-3),
    "gpu sm_clock_mhz": _Meaning("clock", "MHz"),
}
# Constants, totals that others contain, and masks of bits.
_LEFT_OUT = frozenset(
    {
        "user_ns", "system_ns", "minor_faults", "disk_wait_ns", "main_ran_ns", "disk_waits",
        "other_waits", "machine_disk_stall_ns", "machine_memory_stall_ns",
        "machine_swapped_in_bytes", "machine_memory_bytes", "job_cpu_ns", "observer_cpu_ns",
        "cores", "intra_op_threads", "usable_cores", "memory capacity", "gpu total_bytes",
        "gpu throttle_reasons",
    }
)  # fmt: skip
# Totals of the allocator without its device; the table of allocations has both.
_OF_ALLOCATOR = frozenset({"memory allocated", "memory reserved"})
_GROUPS = {"tf1-queue": "Queue", "tf.data": "tf.data", "dataloader": "DataLoader"}


class SampledRows(NamedTuple):
    """Rows of one trace.

    Args:
        levels: Fill levels of queues and buffers, and the memory of allocators.
        counters: The counters.
        left_out: Number of counters that are left out because there are too many.
    """

    levels: list[Sampled]
    counters: list[Sampled]
    left_out: int


def sampled_rows(trace: Trace, begin_ns: int, end_ns: int, most: int) -> SampledRows:
    """What was sampled during a time; rows without a sample are left out.

    Args:
        trace: The trace.
        begin_ns: Begin of the time.
        end_ns: End of the time.
        most: Number of values to keep, roughly.
    """
    levels = _during([*_queues(trace), *_pools(trace)], begin_ns, end_ns)
    counters, left_out = _counters(trace)
    counters = _during(counters, begin_ns, end_ns)
    each = most // max(len(levels) + len(counters), 1)
    return SampledRows(thinned_rows(levels, each), thinned_rows(counters, each), left_out)


def thinned_rows(rows: Sequence[Sampled], most: int) -> list[Sampled]:
    """The rows with about `most` values each."""
    return [thinned_samples(one, most) for one in rows]


def _during(rows: list[Sampled], begin_ns: int, end_ns: int) -> list[Sampled]:
    return [part for one in rows if (part := cropped(one, begin_ns, end_ns)) is not None]


def _queues(trace: Trace) -> Iterator[Sampled]:
    levels = trace.levels
    first, group = group_rows(levels.kind, levels.queue)
    for row, rows in zip(first.tolist(), rows_by_group(group, len(first))[1], strict=False):
        kind = trace.string(int(levels.kind[row]))
        capacity = int(levels.capacity[rows].max())
        times_ns, values = at_distinct_times(levels.time_ns[rows], levels.value[rows])
        yield Sampled(
            trace.string(int(levels.queue[row])),
            _GROUPS.get(kind, kind),
            *with_pauses(times_ns, values),
            unit="elements",
            capacity=None if capacity == NULL else capacity,
        )


def _pools(trace: Trace) -> Iterator[Sampled]:
    """The level of each allocator, after each allocation and release."""
    table = trace.allocations
    names, place = numbered(table.pool)
    for name, rows in zip(names.tolist(), rows_by_group(place, len(names))[1], strict=False):
        levels, is_absolute = _levels(table.change[rows], table.total[rows])
        times_ns, values = at_distinct_times(table.time_ns[rows], levels)
        title = "allocated" if is_absolute else "allocated since the start of the trace"
        yield Sampled(title, f"Memory, {trace.string(name)}", times_ns, values, unit="bytes")


def _levels(change: Ints, total: Ints) -> tuple[Ints, bool]:
    """Level of an allocator after each change, and whether it counts from zero."""
    sums = np.cumsum(change)
    known = total != NULL
    if not known.any():
        return sums, False
    first = int(known.argmax())
    return np.where(known, total, sums + (total[first] - sums[first])), True


def _counters(trace: Trace) -> tuple[list[Sampled], int]:
    """The counters, those that have a meaning first, and the number of those left out."""
    counters = trace.counters
    first, group = group_rows(counters.name, counters.device)
    skipped = _LEFT_OUT | (_OF_ALLOCATOR if len(trace.allocations) else frozenset())
    found = [
        (name, int(counters.device[row]), rows)
        for row, rows in zip(first.tolist(), rows_by_group(group, len(first))[1], strict=False)
        if (name := trace.string(int(counters.name[row]))) not in skipped
    ]
    known = list(_MEANINGS)
    found.sort(key=lambda one: known.index(one[0]) if one[0] in _MEANINGS else len(known))
    drawn = [_counter(trace, *one) for one in found[:MOST_SERIES]]
    return drawn, max(len(found) - MOST_SERIES, 0)


def _counter(trace: Trace, name: str, device: int, rows: NDArray[np.int32]) -> Sampled:
    counters = trace.counters
    times_ns, values = at_distinct_times(counters.time_ns[rows], counters.value[rows])
    group = "" if device == NULL else trace.string(int(trace.devices.name[device]))
    if group.startswith(PREFIX):
        group = f"GPU {group.removeprefix(PREFIX)} (driver)"
    meaning = _MEANINGS.get(name)
    if meaning is None:
        # The program says when a counter changes, so it has no pauses.
        unit = "bytes" if name.lower().endswith("bytes") else ""
        return Sampled(name, group, times_ns, values, unit=unit)
    if meaning.rate:
        times_ns, values = _rates(times_ns, values, meaning.rate)
    times_ns, values = with_pauses(times_ns, values)
    return Sampled(
        meaning.title, group or "Machine", times_ns, values, unit=meaning.unit, scale=meaning.scale
    )


def _rates(times_ns: Ints, totals: Ints, rate: float) -> tuple[Ints, Ints]:
    """Growth of a total from each sample to the next; unknown where it falls."""
    grown = np.diff(totals)
    is_known = (grown >= 0) & (totals[1:] != UNKNOWN) & (totals[:-1] != UNKNOWN)
    values = np.full(len(totals), UNKNOWN, dtype=np.int64)
    growth = grown[is_known] / np.diff(times_ns)[is_known]
    values[:-1][is_known] = np.rint(growth * rate).astype(np.int64)
    return times_ns, values
