"""Repeated looks at a growing experiment."""

from __future__ import annotations

from stepwhy.measure.stats import look_level

LEVEL = 0.98
"""Two comparisons in a hundred may be wrong, all looks at one comparison together."""
MOST_PAIRS = 40
"""Most pairs of runs or of blocks: more hardly narrow an interval, as noise of a computer does not
average out."""


class Looks:
    """Confidence levels of the looks at one comparison."""

    def __init__(self) -> None:
        self._pairs: list[int] = []
        self._spent: list[float] = []

    def level(self, pairs: int, spent: float) -> float:
        """Confidence level of the next look.

        Args:
            pairs: Number of pairs so far.
            spent: Share of the budget that is used up; 1 at the last look.
        """
        spent = max([spent, *self._spent])
        if self._pairs[-1:] == [pairs]:  # no new pair: the same look, later
            self._spent[-1] = spent
        else:
            self._pairs.append(pairs)
            self._spent.append(spent)
        return look_level(self._pairs, self._spent, LEVEL)
