"""One replayed step after a fix: its device work, and what the fix removed or shortened in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.base.columns.groups import group_rows
from stepwhy.predict.edges import NEVER_NS
from stepwhy.predict.points import Point
from stepwhy.predict.replay import recorded
from stepwhy.predict.timeline import replay_steps
from stepwhy.result.timeline import ReplayedWork, TimelineReplay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.analyse.facts import Facts
    from stepwhy.base.columns.types import Mask, Rows, Times
    from stepwhy.predict.change import Change
    from stepwhy.predict.timeline import ReplayedSteps
    from stepwhy.result.edits import Edit


# Names of device work that are listed; the others are counted.
_NAMED = 5
# Of the median step: steps that differ by less are equally usual.
_NEAR = 0.1


class ReplayedStep(msgspec.Struct, frozen=True):
    """The device work of one step after a fix.

    Args:
        about: What the fix changed.
        rows: Slices of the trace that still run; (slices,).
        start_ns, end_ns: When they run after the fix, in the step as it begins now; (slices,).
    """

    about: TimelineReplay
    rows: Rows
    start_ns: Times
    end_ns: Times

    @property
    def fix(self) -> str:
        """Id of the finding."""
        return self.about.fix


def replayed_step(facts: Facts, fix: str, edits: Sequence[Edit]) -> ReplayedStep:
    """Replay a usual step, the same one for every fix.

    Args:
        facts: Facts of a run that can be replayed.
        fix: Id of the finding.
        edits: What its fix changes.

    Raises:
        NothingToChangeError: The trace has nothing that an edit is about.
    """
    steps = replay_steps(facts, edits)
    chosen = most_usual(steps.before_ns)
    inside = steps.step == chosen
    remains = inside & (steps.end_ns > steps.start_ns)
    nodes = steps.change.graph.nodes
    begin_ns = int(steps.begin_ns[chosen])
    work = _shortened(facts, steps, inside)
    host_saved_ns, waits = _host(steps.change, facts.steps.warm_up + chosen)
    known = facts.recorded_steps.starts
    about = TimelineReplay(
        fix=fix,
        step=int(np.searchsorted(known, begin_ns, side="right")),
        before_ns=int(steps.before_ns[chosen]),
        after_ns=int(steps.after_ns[chosen]),
        mean_before_ns=round(steps.before_ns.mean()),
        mean_after_ns=round(steps.after_ns.mean()),
        floor_ns=round(steps.change.floor_ns),
        work=work[:_NAMED],
        others=len(work[_NAMED:]),
        others_saved_ns=sum(one.saved_ns for one in work[_NAMED:]),
        host_saved_ns=host_saved_ns,
        waits=waits,
    )
    return ReplayedStep(
        about,
        nodes.rows[steps.work[remains] - nodes.first],
        steps.start_ns[remains],
        steps.end_ns[remains],
    )


def most_usual(durations_ns: Times) -> int:
    """The step nearest to the middle of the run whose duration is near the median.

    Args:
        durations_ns: Duration of each step; (steps,).
    """
    median_ns = float(np.median(durations_ns))
    away = np.abs(durations_ns - median_ns)
    near = np.flatnonzero(away <= max(_NEAR * median_ns, float(away.min())))
    return int(near[np.argmin(np.abs(near - len(durations_ns) // 2))])


def _shortened(facts: Facts, steps: ReplayedSteps, inside: Mask) -> tuple[ReplayedWork, ...]:
    """What the fix removed or shortened on the device, by name, the most time first."""
    nodes, trace = steps.change.graph.nodes, facts.trace
    work = steps.work[inside]
    before, after = nodes.duration_ns[work], steps.change.duration_ns[work]
    is_shorter = after < before
    before, after = before[is_shorter], after[is_shorter]
    names = trace.slices.name[nodes.rows[work[is_shorter] - nodes.first]]
    first, group = group_rows(names)
    count, removed, saved_ns = (
        np.bincount(group, weights=weights, minlength=len(first)).astype(np.int64)
        for weights in (np.ones(len(group)), after == 0, before - after)
    )
    return tuple(
        ReplayedWork(
            name=trace.string(int(names[first[i]])),
            count=int(count[i]),
            removed=int(removed[i]),
            saved_ns=int(saved_ns[i]),
        )
        for i in np.argsort(-saved_ns, kind="stable").tolist()
    )


def _host(change: Change, step: int) -> tuple[int, int]:
    """How much less the host works in a step, ns, and the number of its waits that are gone."""
    graph = change.graph
    points, edges = graph.nodes.points, graph.edges
    begin, end = (int(points.of(kind)[step]) for kind in (Point.STEP_BEGIN, Point.STEP_END))
    saved_ns = graph.nodes.duration_ns[begin:end] - change.duration_ns[begin:end]
    is_gone = (change.lag_ns == NEVER_NS) & (recorded(graph).lag_ns != NEVER_NS)
    is_gone &= (edges.target >= begin) & (edges.target <= end)
    return int(saved_ns.sum()), len(np.unique(edges.target[is_gone]))
