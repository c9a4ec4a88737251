"""Set the wall clock of a run against its timeline: what devices do, and what the gap is.

A timeline of `Session.run` shows operations only, and often those of a warm run. A stopwatch
around the loop also measures the first runs, Python, and what a run does around its operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.analyse.program.session_parts import find_session_parts
from stepwhy.analyse.run.single_run import is_single, is_whole_graph, lone_runs
from stepwhy.base.columns.intervals import Intervals
from stepwhy.result.wall_clock import GapPart, WallClock

if TYPE_CHECKING:
    from stepwhy.analyse.facts import Facts
    from stepwhy.analyse.program.session_parts import SessionParts
    from stepwhy.analyse.steps.observed import Observed
    from stepwhy.result.wall_clock import GapKind

# Bursts of executors in which no device works.
_WAITS: dict[str, GapKind] = {
    "input": "input",
    "waiting for other workers": "other-workers",
    "Python functions": "python-functions",
    "checkpoints and summaries": "storage",
}
# Categories of the breakdown that say why no device works in a file of one run.
_CAUSES: dict[str, GapKind] = {
    "input_wait": "input",
    "compile": "set-up",
    "python": "python-functions",
    "storage": "storage",
}
_WORK = ("compute", "communication", "transfer")


def wall_clock(facts: Facts) -> WallClock | None:
    """The wall clock of the runs of a graph; None for other records.

    Args:
        facts: Facts of the run.
    """
    if not facts.wall_ns:
        return None
    if not facts.activities:
        runs = lone_runs(facts)
        return WallClock(runs, 0, facts.wall_ns, None, ()) if runs else None
    parts = find_session_parts(facts)
    if parts is not None:
        return _of_session(facts, parts)
    return _of_one_run(facts) if is_single(facts) and is_whole_graph(facts) else None


def _busy_ns(facts: Facts) -> int:
    return sum(facts.breakdown[category] for category in _WORK)


def _of_session(facts: Facts, parts: SessionParts) -> WallClock:
    """The clock of runs that stepwhy observed."""
    observed, busy_ns = facts.observed, _busy_ns(facts)
    inside: dict[GapKind, int] = {
        "between-runs": parts.outside_ns,
        "preparation": parts.preparing_ns,
        "before": parts.before_ns,
        "between": parts.scheduling_ns,
        "long-gaps": parts.silent_ns,
        "after": parts.after_ns,
        "unexplained": parts.unexplained_ns,
        **{kind: parts.bursts_ns.get(name, 0) for name, kind in _WAITS.items()},
    }
    gap = _closed(inside, facts.wall_ns - busy_ns, has_accelerator=facts.has_accelerator)
    if observed is None:
        count = len(facts.steps.starts)
        steady = facts.steady_count if count > 1 else 0
        return WallClock(count, steady, facts.wall_ns, busy_ns, _sorted(gap))
    above = _above(observed)
    durations = observed.durations_ns
    slowest_ns = int(durations[: observed.warm_up].max(initial=0))
    return WallClock(
        len(durations),
        0 if lone_runs(facts) else len(durations) - observed.warm_up,
        facts.wall_ns + sum(above.values()),
        busy_ns,
        _sorted({**gap, **above}),
        first_runs=observed.warm_up,
        slowest_ns=slowest_ns,
    )


def _above(observed: Observed) -> dict[GapKind, int]:
    """What first and slow runs add to the mean of all runs, beyond the described one, ns."""
    durations, wall_ns = observed.durations_ns, observed.wall_ns
    more_ns = round(float(durations.mean())) - wall_ns
    if more_ns <= 0:
        return {}
    first = durations[: observed.warm_up]
    first_ns = (int(first.sum()) - len(first) * wall_ns) // len(durations)
    first_ns = min(max(first_ns, 0), more_ns)
    return {"first-runs": first_ns, "slow-runs": more_ns - first_ns}


def _closed(
    parts: dict[GapKind, int], gap_ns: int, *, has_accelerator: bool = False
) -> dict[GapKind, int]:
    """Parts that sum to the gap: host operations beside an idle accelerator fill it.

    The parts come from all executors and the gap from the devices that lead, so that a rounding
    error, or an operation of a host beside an accelerator, lies between them.
    """
    rest_ns, closed = gap_ns - sum(parts.values()), dict(parts)
    if rest_ns >= 0:
        kind = "host-operations" if has_accelerator else max(parts, key=parts.__getitem__)
        return {**closed, kind: closed.get(kind, 0) + rest_ns}
    for kind in sorted(parts, key=parts.__getitem__, reverse=True):
        taken_ns = min(closed[kind], -rest_ns)
        closed[kind] -= taken_ns
        rest_ns += taken_ns
    return closed


def _of_one_run(facts: Facts) -> WallClock:
    """The clock of a file that holds the operations of one run."""
    start, end = int(facts.steps.starts[0]), int(facts.steps.ends[0])
    busy = Intervals.union([each.busy for each in facts.leading]).between(start, end)
    if not len(busy):
        return WallClock(1, 0, facts.wall_ns, 0, (), is_whole=False)
    gap_ns = facts.wall_ns - _busy_ns(facts)
    named = {kind: facts.breakdown[category] for category, kind in _CAUSES.items()}
    before, after = int(busy.starts[0]) - start, end - int(busy.ends[-1])
    around: dict[GapKind, int] = {
        "before": before,
        "between": max(gap_ns - before - after, 0),
        "after": after,
    }
    gap = {**named, **_closed(around, gap_ns - sum(named.values()))}
    return WallClock(1, 0, facts.wall_ns, _busy_ns(facts), _sorted(gap), is_whole=False)


def _sorted(parts: dict[GapKind, int]) -> tuple[GapPart, ...]:
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return tuple(GapPart(kind, ns) for kind, ns in ordered if ns > 0)
