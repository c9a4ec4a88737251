"""How to record again, with the profiler that wrote the file.

Source: the user guide of Nsight Systems.
"""

from __future__ import annotations

from stepwhy.analyse.facts import Facts
from stepwhy.diagnose.shared.advice import advice
from stepwhy.result import Fix

_OF_NSIGHT = frozenset({"nsys", "nsys-recipe"})


def is_of_nsight(facts: Facts) -> bool:
    """Whether Nsight Systems wrote the file."""
    return facts.trace.meta.format in _OF_NSIGHT


def record_later(facts: Facts, of_torch: Fix) -> Fix:
    """How to record steps after the warm-up.

    Args:
        facts: Facts of the run.
        of_torch: The same for the profiler of PyTorch.
    """
    if is_of_nsight(facts):
        return advice(__name__, "later-nsight")
    return of_torch if facts.trace.meta.format == "kineto" else advice(__name__, "later")
