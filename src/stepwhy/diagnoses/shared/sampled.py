"""Counters and stacks that were sampled while the steps ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.findings import Evidence
from stepwhy.passes.counters import series
from stepwhy.passes.sampled_lines import python_lines
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from stepwhy.passes.counters import Series
    from stepwhy.passes.facts import Facts

_SHOWN = 3
_LEAST = 0.02  # of the samples; fewer are not where the time goes


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


def own_lines(facts: Facts) -> tuple[Evidence, ...]:
    """The lines of the program outside the framework with most samples of the driving thread.

    In PyTorch, these call operations directly: calls of modules are lines of the framework.
    """
    return tuple(
        Evidence("samples of the driving thread at", share, "fraction", line)
        for line, share in python_lines(facts.sampled)[:_SHOWN]
        if share >= _LEAST
    )


__all__ = ["during_steps", "own_lines"]
