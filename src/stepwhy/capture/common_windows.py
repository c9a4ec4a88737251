"""Where the ranks of a job open their windows: at steps that all know without asking each other.

Collectives of ranks are compared in the steps that all of them recorded. By the first of these
steps, the loop of each rank counts as warm, unless it still compiles.
"""

from __future__ import annotations

from stepwhy.capture.process.ranks import place_in_job

# Evaluations and checkpoints run most often every 10, 20, 50 or 100 steps, and a rank that has
# grown by them keeps no window: five steps from here on, and one more to write them, are between.
_FIRST = (12, 22)
_LATER = 2
_EVERY = 50


def may_open(step: int) -> bool:
    """Whether a window may open at a step; in a job of a single rank, at any.

    Args:
        step: Number of the step that begins: its line in the log, from 0.
    """
    if step in _FIRST or (step > _FIRST[-1] and step % _EVERY == _LATER):
        return True
    return (place_in_job()[1] or 1) == 1


__all__ = ["may_open"]
