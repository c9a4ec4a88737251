"""Time of lines in the step that compute from the batch alone, such as a spectrogram."""

from __future__ import annotations

import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.constants import (
    OF_BATCH,
    SAME,
    instructions_reading,
    passed_arguments,
)
from stepwhy.diagnose.shared.measure import Group
from stepwhy.diagnose.shared.work_lines import groups_at_lines, groups_of_events
from stepwhy.trace import NULL

# Source: `stepwhy.record.watchers.batch_lines` and `stepwhy.record.torch.batch_lines`.
_EVENT = "batch-line"
# Of the names of instructions: they choose, move or convert, which making a batch consists of, too.
_MOVES = frozenset(
    {
        "bitcast", "broadcast", "concatenate", "convert", "copy", "dynamic", "fusion", "gather",
        "iota", "pad", "reshape", "reverse", "slice", "transpose", "wrapped",
    }
)  # fmt: skip


def batch_features(facts: Facts) -> list[Group]:
    """Lines whose operations read neither weights nor random numbers, and their time, ns per step.

    The longest comes first; empty if no such line is known, or if the input pipeline draws random
    numbers: then the batch is new in each epoch, and so is what is computed from it.
    """
    events = facts.trace.events
    changing = events.reason[rows_of_kinds(facts.trace, "changing-lines")]
    if (changing != NULL).any() or (facts.trace.stages.random == 1).any():
        return []
    if facts.trace.meta.framework == "jax":
        return _of_programs(facts)
    return groups_of_events(facts, _EVENT)


def _of_programs(facts: Facts) -> list[Group]:
    """The same of compiled programs, by what of their arguments an instruction reads."""
    batch, same = passed_arguments(facts, OF_BATCH), passed_arguments(facts, SAME)
    known = {name: found | same.get(name, set()) for name, found in batch.items() if found}
    rows = instructions_reading(facts, known) if known else np.zeros(0, dtype=np.int64)
    rows = rows[~np.isin(rows, instructions_reading(facts, same))]
    names = facts.trace.slices.name[rows]
    return groups_at_lines(facts, rows[~facts.trace.matches(names, _only_moves)])


def _only_moves(name: str) -> bool:
    """Whether an instruction of such a name, as 'wrapped_gather' or 'copy.3', computes nothing."""
    return set(filter(str.isalpha, regex(r"[^A-Za-z]+").split(name))) <= _MOVES
