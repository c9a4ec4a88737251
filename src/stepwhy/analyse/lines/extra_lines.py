"""The line of the program in which some steps spend more time than others, by stack samples."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepwhy.base.columns.intervals import Intervals, Measure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace import Trace

    Spans = NDArray[np.int64]
    """Starts and ends of steps, ns; (2, steps)."""

FEWEST_SEEN = 1.5
"""Steps of each group that samples have to cover."""
FEWEST_GROWN = 5.0
"""Steps of each group that samples have to cover to compare their means."""
_PARTS = 3  # of the sampled time; the first and the last one are compared
# How much of the required growth a line has, and how many times its share of the early steps: half
# of it suffices for one that is new, since waits for cores stretch all others as well.
_ENOUGH = ((1.0, 1.25), (0.5, 2.0))
_LEAST_GROWTH = 0.1  # of the early step; shares of samples are not exact to less
# A sample is up to 19 ms late, and its time is known to some 10 ms.
_SHORTEST_NS = 60_000_000
# Share of the time of other steps that may seem to be in the line; lateness causes some.
_IN_OTHERS = 0.4


class ExtraLine(NamedTuple):
    """Where the extra time of some steps is spent.

    Args:
        line: The outermost line that they run and other steps do not.
        share: Share of the extra time in it, and in what it calls, 0..1.
        hottest: The innermost line of the program in most of that time.
        hottest_share: Share of the extra time in it.
    """

    line: str
    share: float
    hottest: str
    hottest_share: float


def extra_line(trace: Trace, slow: Spans, others: Spans, least: float) -> ExtraLine | None:
    """The line that explains why some steps are slower than others.

    Args:
        trace: The trace, with `visits`.
        slow: The slow steps.
        others: The other steps.
        least: Share of the extra time that has to be in the line, 0..1.

    Returns:
        None if too few steps were sampled, or no line that only slow steps run explains them.
    """
    if not len(trace.visits) or _usual_ns(slow) < _usual_ns(others) + _SHORTEST_NS:
        return None
    seen_slow, seen_others = _seen(trace, slow), _seen(trace, others)
    if min(seen_slow, seen_others) < FEWEST_SEEN:
        return None
    in_slow, in_others = _time_in(trace, slow), _time_in(trace, others)
    scale = seen_slow / seen_others
    extra = in_slow.sum() - scale * in_others.sum()
    slow_ns, others_ns = _by_line(trace, in_slow), _by_line(trace, in_others)
    own = [line for line in slow_ns if others_ns[line] <= _IN_OTHERS * in_others.sum()]
    found = [line for line in own if slow_ns[line] - scale * others_ns[line] >= least * extra]
    if extra <= 0 or not found:
        return None
    return _described(trace, in_slow, _outermost(trace, in_slow, found), float(extra))


class GrowingLine(NamedTuple):
    """Where steps take longer and longer.

    Args:
        line: The innermost line, with what it calls, that takes most of the growth.
        share: Share of the growth that it takes, 0..1.
    """

    line: str
    share: float


def sampled_ends(trace: Trace, steps: Spans) -> tuple[Spans, Spans]:
    """The steps in the first and in the last part of the sampled time.

    Args:
        trace: The trace, with `visits`.
        steps: The steps of the run, in order.
    """
    if not len(trace.visits):
        return steps[:, :0], steps[:, :0]
    first, last = int(trace.visits.start_ns[0]), int(trace.visits.end_ns[-1])
    part = (last - first) // _PARTS
    return steps[:, steps[1] <= first + part], steps[:, steps[0] >= last - part]


def growing_line(trace: Trace, early: Spans, late: Spans, least: float) -> GrowingLine | None:
    """The line whose time per step grows from some steps to later ones.

    Args:
        trace: The trace, with `visits`.
        early: Steps with little of what accumulates.
        late: Steps with much of it.
        least: Share of the growth that has to be in the line, 0..1.

    Returns:
        None if too few steps were sampled, hardly grew between the samples, or grew elsewhere.
    """
    if not len(trace.visits):
        return None
    seen = [_seen(trace, part) if part.size else 0.0 for part in (early, late)]
    if min(seen) < FEWEST_GROWN:
        return None
    times = [_time_in(trace, part) for part in (early, late)]
    whole = float(times[1].sum() / seen[1] - times[0].sum() / seen[0])
    if whole < _LEAST_GROWTH * times[0].sum() / seen[0]:
        return None
    before, after = (_by_line(trace, part) for part in times)
    growth = {line: after[line] / seen[1] - before[line] / seen[0] for line in after}
    depths: dict[str, int] = {}
    for lines in trace.visits.lines[times[1] > 0].tolist():
        for depth, line in enumerate(_split(trace, lines)):
            depths[line] = max(depth, depths.get(line, depth))
    # A machine that becomes slower stretches all lines alike, so that each keeps its share.
    found = [
        line
        for line in growth
        for part, more in _ENOUGH
        if growth[line] / whole >= max(part * least, more * before[line] / times[0].sum())
    ]
    if not found:
        return None
    line = max(found, key=lambda one: (depths[one], growth[one]))
    return GrowingLine(line, min(growth[line] / whole, 1.0))


def _usual_ns(steps: Spans) -> float:
    return float(np.median(steps[1] - steps[0])) if steps.size else 0.0


def _seen(trace: Trace, steps: Spans) -> float:
    """How many of the steps were sampled; a part of a step counts as such."""
    sampled = Measure(Intervals.of(trace.visits.start_ns, trace.visits.end_ns))
    return float((sampled.within(*steps) / (steps[1] - steps[0])).sum())


def _time_in(trace: Trace, steps: Spans) -> NDArray[np.int64]:
    """Time of each visit in some steps, ns; (visits,)."""
    time: NDArray[np.int64] = Measure(Intervals.of(*steps)).within(
        trace.visits.start_ns, trace.visits.end_ns
    )
    return time


def _by_line(trace: Trace, time_ns: NDArray[np.int64]) -> Counter[str]:
    """Time in each line and in what it calls, ns."""
    found: Counter[str] = Counter()
    for lines, ns in zip(trace.visits.lines.tolist(), time_ns.tolist(), strict=True):
        found.update(dict.fromkeys(_split(trace, lines), ns))
    return +found


def _outermost(trace: Trace, time_ns: NDArray[np.int64], candidates: list[str]) -> str:
    """The candidate that calls the others."""
    depths: dict[str, int] = {}
    for lines in trace.visits.lines[time_ns > 0].tolist():
        for depth, line in enumerate(_split(trace, lines)):
            depths[line] = min(depth, depths.get(line, depth))
    return min(candidates, key=lambda line: depths[line])


def _described(trace: Trace, time_ns: NDArray[np.int64], line: str, extra: float) -> ExtraLine:
    """A line with its share of the extra time, and the hottest one that it calls."""
    inner: Counter[str] = Counter()
    for lines, ns in zip(trace.visits.lines.tolist(), time_ns.tolist(), strict=True):
        path = _split(trace, lines)
        if line in path:
            inner[path[-1]] += ns
    (hottest, hottest_ns), *_ = inner.most_common(1)
    share, of_hottest = inner.total() / extra, hottest_ns / extra
    return ExtraLine(line, min(share, 1.0), hottest, min(of_hottest, 1.0))


def _split(trace: Trace, lines: int) -> list[str]:
    """The lines of a visit, outermost first; [] in other code."""
    text = trace.string(lines)
    return text.split("; ") if text else []
