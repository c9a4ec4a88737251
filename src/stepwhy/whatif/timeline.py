"""The predicted steps as rows of a timeline, each beginning where the recorded step began."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.columns.groups import by_code
from stepwhy.trace import NULL
from stepwhy.whatif.changes import changed
from stepwhy.whatif.graph import build_graph
from stepwhy.whatif.replay import recorded_steps, run, steps_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.findings.predictions import Prediction
    from stepwhy.passes.facts import Facts

    Times = NDArray[np.int64]


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
    graph = facts.derived(build_graph)
    change = changed(facts, graph, prediction.edits, best=True)
    starts = run(graph, change.schedule).start
    before = recorded_steps(graph)
    after = steps_of(graph, starts, change.duration_ns)
    shift = before.begin_ns - after.begin_ns
    steady = np.arange(len(shift))[graph.steady]
    inside = np.flatnonzero(np.isin(graph.step, steady) & (graph.step != NULL))
    moved = starts[graph.nodes.first + inside] + shift[graph.step[inside]]
    ends = moved + change.duration_ns[graph.nodes.first + inside]
    order, first = by_code(graph.nodes.stream[inside])
    return [
        _steps((after.begin_ns + shift)[steady], (after.end_ns + shift)[steady]),
        *(
            _stream(facts, graph.nodes.rows[inside[rows]], moved[rows], ends[rows])
            for rows in np.split(order, first[1:])
            if len(rows)
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


__all__ = ["Row", "predicted_rows"]
