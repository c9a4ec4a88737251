"""The predicted steps, each beginning where the recorded step began: as rows, or one in detail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.base.columns.groups import by_code
from stepwhy.predict.changes import changed
from stepwhy.predict.graph import build_graph
from stepwhy.predict.replay import recorded_steps, run, steps_of
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.analyse.facts import Facts
    from stepwhy.base.columns.types import Times
    from stepwhy.predict.change import Change
    from stepwhy.result.edits import Edit
    from stepwhy.result.predictions import Prediction


class Row(msgspec.Struct, frozen=True):
    """One row of a timeline.

    Args:
        title: Its title.
        names: Name of each slice.
        start_ns, end_ns: Start and end of each slice; (slices,).
    """

    title: str
    names: tuple[str, ...]
    start_ns: Times
    end_ns: Times


class ReplayedSteps(msgspec.Struct, frozen=True):
    """The steady steps after some edits, and the device work that they launched.

    Args:
        change: What was replayed.
        begin_ns: Start of each step, as recorded; (steps,).
        before_ns: Duration of each step as recorded; (steps,).
        after_ns: Duration of each step after the edits; (steps,).
        work: Positions of the device slices in the nodes of the graph; (slices,).
        step: The step of each of them; (slices,).
        start_ns, end_ns: Start and end of each of them; equal if it no longer runs; (slices,).
    """

    change: Change
    begin_ns: Times
    before_ns: Times
    after_ns: Times
    work: Times
    step: Times
    start_ns: Times
    end_ns: Times


def replay_steps(facts: Facts, edits: Sequence[Edit]) -> ReplayedSteps:
    """Replay the steady steps after some edits, with all that is uncertain at its most favourable.

    Args:
        facts: Facts of a run that can be replayed.
        edits: The edits, applied together.

    Raises:
        NothingToChangeError: The trace has nothing that an edit is about.
    """
    graph = facts.derived(build_graph)
    change = changed(facts, graph, tuple(edits), best=True)
    schedule = change.schedule
    starts_ns = run(graph, schedule).start
    before = recorded_steps(graph)
    after = steps_of(graph, starts_ns, schedule.duration_ns)
    begin_ns = graph.steps.starts
    steady = np.arange(len(begin_ns))[graph.steady]
    inside = np.flatnonzero(np.isin(graph.step, steady) & (graph.step != NULL))
    step = graph.step[inside]
    nodes = graph.nodes.first + inside
    start_ns = starts_ns[nodes] + (begin_ns - after.begin_ns)[step]
    return ReplayedSteps(
        change=change,
        begin_ns=begin_ns[steady],
        before_ns=(before.end_ns - before.begin_ns)[steady],
        after_ns=(after.end_ns - after.begin_ns)[steady],
        work=nodes,
        step=step.astype(np.int64) - steady[0] if len(steady) else step.astype(np.int64),
        start_ns=start_ns,
        end_ns=start_ns + schedule.duration_ns[nodes],
    )


def predicted_rows(facts: Facts, prediction: Prediction) -> list[Row]:
    """The predicted steps, and if they were replayed the device work in them.

    Args:
        facts: Facts of the run.
        prediction: The prediction.
    """
    if prediction.method != "replay":
        steps = facts.steps
        begin = steps.starts[steps.steady]
        return [_steps(begin, begin + prediction.remaining_ns)]
    steps_after = replay_steps(facts, prediction.edits)
    nodes = steps_after.change.graph.nodes
    place = steps_after.work - nodes.first
    order, first = by_code(nodes.stream[place])
    return [
        _steps(steps_after.begin_ns, steps_after.begin_ns + steps_after.after_ns),
        *(
            _stream(
                facts,
                nodes.rows[place[some]],
                steps_after.start_ns[some],
                steps_after.end_ns[some],
            )
            for some in np.split(order, first[1:])
            if len(some)
        ),
    ]


def _steps(begin: Times, end: Times) -> Row:
    return Row(
        "predicted steps", tuple(f"predicted step {n}" for n in range(len(begin))), begin, end
    )


def _stream(facts: Facts, rows: Times, starts: Times, ends: Times) -> Row:
    trace = facts.trace
    name = trace.string(int(trace.tracks.name[trace.slices.track[rows[0]]]))
    names = tuple(trace.string(index) for index in trace.slices.name[rows].tolist())
    remains = ends > starts
    kept = tuple(one for one, stays in zip(names, remains.tolist(), strict=True) if stays)
    return Row(f"predicted {name}", kept, starts[remains], ends[remains])
