"""Time the steps of a process, and switch the fix in blocks of steps where that is asked for.

The order of the blocks is A B B A: a drift of the machine affects both alike.
"""

from __future__ import annotations

import os
import time

from stepwhy.record.core.process import lifetime
from stepwhy.record.trials.ticks import Ticks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stepwhy.record.trials.reports import Trial

_ORDER = (0, 1, 1, 0)
_MOST_STEPS = 100_000


class Blocks:
    """The blocks of this process.

    Args:
        trial: The trial, whose fix is switched.
    """

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._steps: list[tuple[int, int, int]] = []
        self._count = 0
        self._start_ns = 0
        self._pid = os.getpid()
        if trial.spec.block_steps:
            trial.on = False

    def begins(self) -> None:
        """A step begins here; what came before belongs to none."""
        self._start_ns = time.monotonic_ns()

    def ended(self) -> None:
        """Note the end of a step, and switch the fix after the last one of a block."""
        end_ns = time.monotonic_ns()
        if self._start_ns and len(self._steps) < _MOST_STEPS:
            self._steps.append((self._start_ns, end_ns, self._block()))
        self._count += 1
        if self._trial.spec.block_steps:
            self._switch()
        self._start_ns = time.monotonic_ns()

    def _switch(self) -> None:
        """Switch the fix if the current block is of the other setting."""
        trial, block = self._trial, self._block()
        on = block >= 0 and bool(_ORDER[block % len(_ORDER)])
        if on != trial.on:
            trial.on = on
            for switch in trial.switches:
                trial.guard(lambda switch=switch: switch(on))  # type: ignore[misc]

    def _block(self) -> int:
        """Number of the current block; negative during the warm-up."""
        spec = self._trial.spec
        steps = self._count - spec.warm_up
        return steps // spec.block_steps if spec.block_steps else min(steps, 0)

    def write(self) -> None:
        """Write the steps."""
        if os.getpid() == self._pid and self._steps:
            self._trial.write({"steps": self._steps})


def begin(trial: Trial) -> None:
    """Begin to time the steps of this process.

    Args:
        trial: The trial.
    """
    blocks = Blocks(trial)
    lifetime.on_end(lambda: trial.guard(blocks.write))
    Ticks(blocks.ended, blocks.begins).of_all()
