"""Large NumPy arrays that a JAX program copies to the device."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.steps.stalls import rows_of_kinds

if TYPE_CHECKING:
    from stepwhy.analyse.facts import Facts


class HostCopies(msgspec.Struct, frozen=True):
    """Copies of NumPy arrays in the steps.

    Args:
        line: Line of the program that copies most.
        bytes_per_step: What it copies in a step.
        unchanged: Share of its copies that repeat the one before, 0..1.
    """

    line: str
    bytes_per_step: int
    unchanged: float


def host_copies(facts: Facts) -> HostCopies | None:
    """The copies of the line that copies most in the observed steps; None if there are none."""
    events, marks = facts.trace.events, facts.trace.marks
    rows = rows_of_kinds(facts.trace, "copy")
    step = np.searchsorted(marks.start_ns, events.start_ns[rows], side="right") - 1
    rows, step = rows[step > 0], step[step > 0]
    if not len(rows):
        return None
    sizes: Counter[int] = Counter()
    for line, size in zip(events.source[rows].tolist(), events.count[rows].tolist(), strict=True):
        sizes[line] += size
    line, size = sizes.most_common(1)[0]
    of_line = rows[events.source[rows] == line]
    unchanged = np.isin(events.reason[of_line], facts.trace.strings_where({"unchanged"}))
    # The log ends after so many copies, so not all steps of a long run are in it.
    steps = int(step[-1] - step[0]) + 1
    return HostCopies(facts.trace.string(line), round(size / steps), float(unchanged.mean()))


__all__ = ["HostCopies", "host_copies"]
