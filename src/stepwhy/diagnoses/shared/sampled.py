"""Counters that were sampled while the steps ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.passes.counters import series
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from stepwhy.passes.counters import Series
    from stepwhy.passes.facts import Facts


def during_steps(facts: Facts, name: str, device: int = NULL) -> Series:
    """The samples of a counter from the start of the first step to the end of the last one.

    Args:
        facts: Facts of the run.
        name: The counter.
        device: Row of `devices`; NULL for a counter of no device.
    """
    steps, marks = facts.steps, facts.trace.marks
    first = min([int(steps.starts[0]), *marks.start_ns[:1].tolist()])
    last = max([int(steps.ends[-1]), *(marks.start_ns + marks.dur_ns)[-1:].tolist()])
    return series(facts.trace, name, device).between(first, last)


__all__ = ["during_steps"]
