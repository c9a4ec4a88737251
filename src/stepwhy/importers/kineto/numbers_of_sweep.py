"""From the numbers of a sweep to those that the importer gives things itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.importers.kineto.codes import first_sights
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from stepwhy.importers.kineto.codes import Codes


class OfSweep:
    """Looks up what a number of a sweep stands for once, at its first sight."""

    def __init__(self) -> None:
        self._known: dict[Hashable, NDArray[np.int64]] = {}

    def numbers(
        self,
        role: Hashable,
        numbers: NDArray[Any],
        codes: Codes,
        meaning: Callable[[int], Hashable],
    ) -> NDArray[np.int64]:
        """The importer's numbers of things.

        Args:
            role: Whose numbers of what; each role is translated on its own.
            numbers: Their numbers in the sweep, negative where there is nothing; (things,).
            codes: Gives out the importer's.
            meaning: What a number of the sweep stands for.

        Returns:
            Numbers, NULL where there is nothing; (things,).
        """
        known = self._known_up_to(role, int(numbers.max(initial=-1)))
        found: NDArray[np.int64] = known[numbers]  # the last one is NULL, for all negative numbers
        unknown = numbers[(found == NULL) & (numbers >= 0)]
        if not len(unknown):
            return found
        for number in _in_order(unknown):
            known[number] = codes[meaning(number)]
        return np.take(known, numbers)

    def _known_up_to(self, role: Hashable, most: int) -> NDArray[np.int64]:
        """The importer's numbers by those of the sweep, NULL where unknown; the last is NULL."""
        known = self._known.get(role, np.full(1, NULL, dtype=np.int64))
        if most + 1 >= len(known):
            more = np.full(2 * most + 2, NULL, dtype=np.int64)
            known = self._known[role] = np.concatenate([known, more])
        return known


def _in_order(numbers: NDArray[Any]) -> list[int]:
    """Each number once, in the order of their first sight."""
    ordered: list[int] = numbers[np.sort(first_sights(numbers))].tolist()
    return ordered
