"""The wall clock of a run and its timeline, in words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stepwhy.base.units import format_count, format_fraction, format_ns
from stepwhy.result.wording.names import shown_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepwhy.result import Device, Op
    from stepwhy.result.wall_clock import GapKind, GapPart, WallClock

# With fewer steady runs than this, the report shows no deciles either.
_ENOUGH_STEADY = 10
# What takes a smaller share of the wall time is left out of the sentence, and so is the rest.
_WORTH_NAMING = 0.01
_MOST_DEVICES = 4
_MOST_OPERATIONS = 3
_WORK = ("compute", "communication", "transfer")
_KINDS: dict[GapKind, str] = {
    "slow-runs": "runs that take longer than most",
    "between-runs": "Python between two runs",
    "preparation": "preparation of the graph",
    "before": "before the first operation",
    "between": "between operations",
    "long-gaps": "longer gaps between operations",
    "after": "after the last operation",
    "set-up": "first-run set-up",
    "input": "waiting for input",
    "other-workers": "waiting for other workers",
    "python-functions": "Python functions in the graph",
    "storage": "checkpoints and summaries",
    "host-operations": "operations of the host",
    "unexplained": "without a record",
}
# Of a single run, these are always named: a timeline does not show them.
_AROUND: tuple[GapKind, ...] = ("preparation", "before", "after")
_IN_FILE: dict[GapKind, str] = {
    "before": "before the first work of a device",
    "after": "after the last work of a device",
}
_NOT_RECORDED = (
    " The file does not record how long the run takes before its first operation and after its "
    "last one."
)


def wall_clock_sentence(clock: WallClock, devices: Sequence[Device], ops: Sequence[Op]) -> str:
    """What a stopwatch shows, what devices do of it, and what the difference is.

    Args:
        clock: The clock.
        devices: All devices, accelerators first.
        ops: The operations, named where there is only one run.
    """
    if clock.busy_ns is None:
        return f"{_clock(clock)}. No run was traced: what it did is not known."
    gap_ns = clock.wall_ns - clock.busy_ns
    gap = f"gap {format_ns(gap_ns)} ({format_fraction(gap_ns / max(clock.wall_ns, 1))})"
    parts = ", ".join(_parts(clock))
    missing = "" if clock.is_whole else _NOT_RECORDED
    leading = devices[0].name if devices else ""
    longest = _longest(clock, leading, ops) if clock.runs == 1 else ""
    clauses = (_clock(clock), _busy(clock.busy_ns, devices), f"{gap}: {parts}" if parts else gap)
    return f"{', '.join(clauses)}.{longest}{missing}"


def _clock(clock: WallClock) -> str:
    wall = format_ns(clock.wall_ns)
    if clock.runs == 1:
        what = f"wall clock {wall}" if clock.is_whole else f"{wall} from first to last operation"
        return f"One run, not a steady state: {what}"
    runs = f"mean of {format_count(clock.runs)} runs"
    if clock.steady < _ENOUGH_STEADY:
        return f"Too few runs for a steady state: wall clock {wall} per run ({runs})"
    return f"Wall clock {wall} per run ({runs})"


def _busy(busy_ns: int, devices: Sequence[Device]) -> str:
    """How long devices work, each by itself if there are several."""
    times = {
        device.name: sum(device.breakdown.get(category, 0) for category in _WORK)
        for device in devices
    }
    working = sorted(filter(times.get, times), key=lambda name: -times[name])[:_MOST_DEVICES]
    if len(working) == 1:
        return f"{working[0]} busy {format_ns(busy_ns)}"
    each = ", ".join(f"{name} {format_ns(times[name])}" for name in working)
    return f"devices busy {format_ns(busy_ns)}" + (f" ({each})" if each else "")


def _parts(clock: WallClock) -> Iterator[str]:
    """The parts of the gap that are worth naming, the longest one always."""
    least_ns = _WORTH_NAMING * clock.wall_ns
    always = _AROUND if clock.is_whole and clock.runs == 1 else ()
    for place, part in enumerate(clock.gap):
        if not place or part.ns >= least_ns or part.kind in always:
            yield _words(part, clock)


def _words(part: GapPart, clock: WallClock) -> str:
    time = format_ns(part.ns)
    if part.kind != "first-runs":
        # A file begins with an operation, maybe of the host.
        words = _KINDS if clock.is_whole else _KINDS | _IN_FILE
        return f"{words[part.kind]} {time}"
    slowest = format_ns(clock.slowest_ns)
    if clock.first_runs == 1:
        return f"the first run {time} (it takes {slowest})"
    return f"the first {clock.first_runs} runs {time} (the slowest takes {slowest})"


def _longest(clock: WallClock, device: str, ops: Sequence[Op]) -> str:
    """The operations of a device that take most of a single run."""
    times, counts = Counter[str](), Counter[str]()
    for op in ops:
        if op.device == device:
            times[op.name] += op.self_ns
            counts[op.name] += round(op.count)
    least_ns = _WORTH_NAMING * clock.wall_ns
    named = [
        f"{shown_name(name)} {format_ns(ns)}{_calls(counts[name])}"
        for name, ns in times.most_common(_MOST_OPERATIONS)
        if ns >= least_ns
    ]
    return f" Longest operations, added up: {', '.join(named)}." if named else ""


def _calls(count: int) -> str:
    return f" ({format_count(count)} calls)" if count > 1 else ""
