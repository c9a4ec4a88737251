"""Whether a record holds a single run, and whether it holds all of the run's graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.analyse.activity.graph_runs import SOURCE

if TYPE_CHECKING:
    from stepwhy.analyse.facts import Facts


FEWEST_IN_LOOP = 3
"""With fewer runs of a session, no loop is seen, so that each run is its own step."""


def is_single(facts: Facts) -> bool:
    """Whether the record holds one run or step, so that nothing shows what is usual."""
    if facts.observed is not None:
        return len(facts.observed.durations_ns) == 1
    return len(facts.steps.starts) == 1


def lone_runs(facts: Facts) -> int:
    """Number of observed runs of a session that are too few for a loop; 0 where there is one.

    Such a run is its own step: it has no time outside of `Session.run`.
    """
    marks = facts.trace.marks
    is_alone = 0 < len(marks) < FEWEST_IN_LOOP and bool((marks.graph_ns == marks.dur_ns).all())
    return len(marks) if is_alone else 0


def is_whole_graph(facts: Facts) -> bool:
    """Whether all operations of a run were recorded, however few: TensorFlow begins with a source.

    A file from which rows were removed lacks it in general, as no filter asks for it.
    """
    trace = facts.trace
    if "whole-step" not in trace.meta.signals:
        return False
    return bool(np.isin(trace.slices.scope, trace.strings_where({SOURCE})).any())
