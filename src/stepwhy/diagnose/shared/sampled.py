"""Counters and stacks that were sampled while the steps ran."""

from __future__ import annotations

from collections import Counter

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.steps.counters import Series, series
from stepwhy.analyse.steps.sampled_lines import driver_lines, python_lines
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.result import Evidence
from stepwhy.trace import NULL

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
        Evidence("stack samples outside the framework", share, "fraction", line)
        for line, share in python_lines(facts.sampled)[:_SHOWN]
        if share >= _LEAST
    )


def launching_lines(facts: Facts) -> tuple[Evidence, ...]:
    """The lines at which the driving thread is most often, in the framework or outside of it.

    In PyTorch, without calls of modules and of `backward`, which are lines of the framework.
    """
    lines = driver_lines(facts.sampled)
    if lines is None:
        return ()
    counts: Counter[str] = Counter()
    is_torch = is_pytorch(facts)
    for (line, in_framework), count in lines.items():
        counts[line] += count if line and not (is_torch and in_framework) else 0
    return tuple(
        Evidence("samples of the driving thread at", count / lines.total(), "fraction", line)
        for line, count in counts.most_common(_SHOWN)
        if count
    )
