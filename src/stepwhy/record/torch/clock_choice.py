"""Choose the clock of a PyTorch loop: the optimizer whose steps end those of the loop.

The first optimizer that steps is the clock, until another one steps repeatedly without it. Others,
such as a GAN's second optimizer, count as work within the steps. A loop without an optimizer, which
updates its parameters by hand, has a step per backward pass.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# After so many consecutive steps of another optimizer, the current clock no longer drives the loop.
_SILENT_STEPS = 4
# If the former clock returns after at most so many steps of the other, those belonged to one step
# of its own (a critic trained several times per generator step). It may then be silent for longer.
_MOST_INSIDE = 16
_LONG_SILENCE = 50
# After so many backward passes without a step of an optimizer, the program updates its parameters
# by hand. Fewer may be the batches that one step accumulates.
_PASSES_BY_HAND = 20
# The same where an optimizer exists: it may accumulate the gradients of many batches.
_PASSES_BESIDE_OPTIMIZER = 1000


class _BackwardPasses:
    """Stands for an optimizer in a loop that has none."""


class ClockChoice:
    """Compares optimizers with the clock.

    Attributes:
        passes: Stands for an optimizer in a loop that has none.
        has_optimizer: Whether the program has made an optimizer.
        others: Ends of the steps of each other optimizer since the last one of the clock, by id.
    """

    def __init__(self) -> None:
        self.passes = _BackwardPasses()
        self.has_optimizer = False
        self.forget()

    def forget(self) -> None:
        """Start over, as in a process that has seen no step (after a fork)."""
        self.others: dict[int, list[int]] = {}
        self._former: weakref.ref[Any] | None = None
        self._taken_over_at = 0
        self._silence = _SILENT_STEPS

    def takes_over(self, optimizer: Any, clock: Any) -> bool:
        """Whether an optimizer that has stepped becomes the clock.

        Each candidate is counted separately: a program may have one optimizer per parameter.

        Args:
            optimizer: It, or `passes`.
            clock: The current clock; None for none.
        """
        if optimizer is self.passes:
            fewest = _PASSES_BESIDE_OPTIMIZER if self.has_optimizer else _PASSES_BY_HAND
        elif clock is None or clock is self.passes or self._returns(optimizer):
            return True
        else:
            fewest = self._silence
        ends = self.others.setdefault(id(optimizer), [])
        ends.append(now_ns())
        return len(ends) >= fewest

    def _returns(self, optimizer: Any) -> bool:
        """Whether an optimizer was the clock before the current one."""
        return self._former is not None and self._former() is optimizer

    def take_over(self, optimizer: Any, clock: Any, steps: int) -> Sequence[int]:
        """An optimizer becomes the clock.

        Args:
            optimizer: It, or `passes`.
            clock: The clock so far; None for none.
            steps: Number of steps so far.

        Returns:
            The ends of its steps that were seen in a row, the last one among them; may be empty.
        """
        returns = self._returns(optimizer)
        if returns and steps - self._taken_over_at <= _MOST_INSIDE:
            self._silence = _LONG_SILENCE
        self._former = weakref.ref(clock) if clock is not None and not returns else None
        self._taken_over_at = steps
        return self.others.get(id(optimizer), ())
