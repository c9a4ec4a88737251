"""The epochs of the training, as far as the log of its steps shows where they begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepwhy.analyse.steps.stalls import (
    LOADING,
    MOST_OF_A_KIND,
    first_of_keras_epochs,
    rows_of_kinds,
)

if TYPE_CHECKING:
    from stepwhy.trace import Trace


class Epoch(NamedTuple):
    """Consecutive steps of one epoch.

    Args:
        first: Row of `marks` of its first step.
        end: Row after that of its last one.
    """

    first: int
    end: int


def training_epochs(trace: Trace, fewest: int) -> list[Epoch]:
    """The epochs with enough steps, in order.

    A step in which an epoch begins belongs to none: it may include a validation, and the restart of
    the loader.

    Args:
        trace: The trace of an observed run.
        fewest: Steps that an epoch must have.

    Returns:
        [] if no epoch is known to begin.
    """
    epochs = _of_loader(trace) or _of_keras(trace)
    return [epoch for epoch in epochs if epoch.end - epoch.first >= fewest]


def _of_loader(trace: Trace) -> list[Epoch]:
    """Epochs by the loader that the training takes its batches from."""
    marks, events = trace.marks, trace.events
    rows = rows_of_kinds(trace, "epoch")
    if not len(rows) or not len(marks):
        return []
    # Loops evaluate before the training, between epochs or in the middle of one; the loader that
    # began last before the first step is that of the training.
    before = np.searchsorted(events.start_ns[rows], marks.start_ns[0], side="right")
    own = rows[events.name[rows] == events.name[rows[max(before - 1, 0)]]]
    began, got = events.start_ns[own], events.start_ns[own] + events.dur_ns[own]
    firsts = np.searchsorted(marks.start_ns, got).tolist()
    ends = np.searchsorted(marks.start_ns + marks.dur_ns, began[1:], side="right").tolist()
    epochs = [Epoch(*each) for each in zip(firsts, [*ends, len(marks)], strict=True)]
    # After a full log, others may have begun.
    is_full = len(rows_of_kinds(trace, *LOADING)) >= MOST_OF_A_KIND
    return epochs[:-1] if is_full else epochs


def _of_keras(trace: Trace) -> list[Epoch]:
    """Epochs by the pauses of Keras' `fit`."""
    firsts = np.flatnonzero(first_of_keras_epochs(trace)).tolist()
    if not firsts:
        return []
    ends = [*firsts, len(trace.marks)]
    return [Epoch(*each) for each in zip([0, *(first + 1 for first in firsts)], ends, strict=True)]
