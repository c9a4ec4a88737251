"""The breakdown of a step, its phases, and the line where the driving thread spends most time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from stepwhy.analyse.activity.selection import of_threads, rows_of
from stepwhy.analyse.lines.optimizer_time import optimizer_time
from stepwhy.analyse.lines.program_lines import has_program_line
from stepwhy.analyse.steps.sampled_lines import python_lines
from stepwhy.base.columns.groups import numbered
from stepwhy.base.columns.nesting import climb
from stepwhy.base.columns.sums import LARGEST, sums_of
from stepwhy.result import Breakdown, Correction
from stepwhy.trace import NULL, Copy, Kind, Phase, among

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stepwhy.analyse.activity.devices import Activity
    from stepwhy.analyse.facts import Facts

    Rows = NDArray[np.signedinteger[Any]]

# Share of the samples; below it, no line stands out.
_HOT = 0.1


def breakdown_of(facts: Facts) -> Breakdown:
    """The breakdown of the mean steady step."""
    # Self times need most memory, so they are computed before the breakdown.
    phases, hottest_line = _phases(facts), _hottest_line(facts)
    corrections = tuple(
        Correction(one.why.value, one.changes) for one in facts.mean_step.corrections if one.changes
    )
    return Breakdown(
        facts.wall_ns,
        facts.breakdown,
        phases,
        hottest_line,
        _core_wait(facts),
        recorded=facts.recorded if corrections else {},
        corrections=corrections,
    )


def _core_wait(facts: Facts) -> int | None:
    """Time of the mean step in which the driving thread waited for a core, ns; None if unknown."""
    if facts.observed is None or facts.observed.driver.core_wait_ns is None:
        return None
    # Both are means over some steps, which need not be as long as the described one.
    longest = max(facts.wall_ns - (facts.observed.driver.cpu_ns or 0), 0)
    return min(facts.observed.driver.core_wait_ns, longest)


def _phases(facts: Facts) -> dict[str, int]:
    """Compute time per phase; kernels that overlap count in each of their phases."""
    sums: Counter[int] = Counter()
    for activity in facts.leading:
        rows = _computing(facts, activity)
        phases, group = numbered(facts.phases[rows])
        times = sums_of(facts.nesting.self_ns(rows), group, len(phases))
        sums.update(dict(zip(phases.tolist(), times.tolist(), strict=True)))
    optimizer = facts.derived(optimizer_time)
    if optimizer is not None:
        sums[Phase.OPTIMIZER] = round(optimizer.weight * sums[Phase.OPTIMIZER])
    return {
        Phase(phase).name.lower(): facts.mean_ns(min(sums[phase], LARGEST))
        for phase in sorted(sums)
    }


def _computing(facts: Facts, activity: Activity) -> Rows:
    """Rows of the slices in which a device computes in steady steps."""
    slices, rows = facts.trace.slices, facts.in_steady(activity.rows)
    computes = among(slices.kind[rows], (Kind.KERNEL, Kind.MEMSET, Kind.OP))
    computes |= slices.copy[rows] == Copy.D2D
    return rows[computes]


def _hottest_line(facts: Facts) -> str:
    """Source line with most self time of user Python on the driving threads in steady steps."""
    trace = facts.trace
    if trace.meta.limit:
        return ""  # whether a line delays the step is unknown
    sums = _times_of_lines(facts)
    if not sums:
        sampled = python_lines(facts.sampled)
        return sampled[0][0] if sampled and sampled[0][1] >= _HOT else ""
    return trace.string(max(sums, key=lambda line: (sums[line], -line)))


def _times_of_lines(facts: Facts) -> dict[int, int]:
    """Self time of user Python on the driving threads in steady steps, by line, ns."""
    trace = facts.trace
    rows = rows_of(trace, (Kind.PYTHON, Kind.INPUT), of_threads(trace, facts.threads.all))
    rows = facts.in_steady(rows[trace.slices.source[rows] != NULL])
    # A call into the standard library is time of the line that made it.
    lined = climb(facts.nesting, rows, has_program_line(trace)) if len(rows) else rows
    rows, lined = rows[lined != NULL], lined[lined != NULL]
    lines, group = numbered(trace.slices.source[lined])
    times = sums_of(facts.nesting.self_ns(rows), group, len(lines)) if len(rows) else rows
    return dict(zip(lines.tolist(), times.tolist(), strict=True))
