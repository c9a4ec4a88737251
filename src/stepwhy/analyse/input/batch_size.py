"""Examples per batch of a run that stepwhy observed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.columns.groups import distinct
from stepwhy.trace import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.trace import Trace


def batch_size(trace: Trace) -> int | None:
    """Number of examples in a batch; None if it is unknown, or differs.

    A loader for validation often has larger batches than the one for training, and the record does
    not show which is which.

    Args:
        trace: The trace.
    """
    rows = _of_fit(trace)
    if not len(rows):
        rows = rows_of_kinds(trace, "batch")
    sizes = distinct(trace.events.count[rows]).tolist()
    return int(sizes[0]) if len(sizes) == 1 and sizes[0] > 0 else None


def examples_per_step(facts: Facts) -> int | None:
    """Number of examples in a step; None if that is unknown, or if steps fetch several batches.

    Args:
        facts: Facts of the run.
    """
    size, parent = batch_size(facts.trace), facts.nesting.parent
    if size is None or is_in_fit(facts.trace):
        return size
    around = parent[facts.slices(Kind.INPUT, steady=True)]
    fetches = np.count_nonzero((around < 0) | ~facts.in_input[around])
    return size if fetches in {0, facts.steady_count} else None


def is_in_fit(trace: Trace) -> bool:
    """Whether each step is a call of Keras' `fit` for one batch.

    Args:
        trace: The trace.
    """
    return len(_of_fit(trace)) > 0


def _of_fit(trace: Trace) -> NDArray[np.int64]:
    rows = rows_of_kinds(trace, "batch")
    return rows[np.isin(trace.events.name[rows], trace.strings_where(["fit"]))]
