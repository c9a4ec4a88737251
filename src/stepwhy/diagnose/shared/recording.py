"""How to record again, with the profiler that wrote the file.

Source: the user guide of Nsight Systems.
"""

from __future__ import annotations

from stepwhy.analyse.facts import Facts
from stepwhy.result import Fix

_OF_NSIGHT = frozenset({"nsys", "nsys-recipe"})

_LATER_NSIGHT = Fix(
    "Record later: 'nsys profile --delay=60 --duration=10 ...' begins after a minute. Or record "
    "from the tenth step on with 'nsys profile --capture-range=cudaProfilerApi ...', where the "
    "program calls cudaProfilerStart and cudaProfilerStop.",
    "",
    "none",
)
_LATER = Fix("Record later, after ten or more steps, and record several steps.", "", "none")
HOST_NSIGHT = Fix(
    "Record what the host does meanwhile: 'nsys profile --trace=cuda,nvtx,osrt "
    "--python-sampling=true ...', and open a range of NVTX around each part of the step.",
    "",
    "none",
)


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
        return _LATER_NSIGHT
    return of_torch if facts.trace.meta.format == "kineto" else _LATER


__all__ = ["HOST_NSIGHT", "is_of_nsight", "record_later"]
