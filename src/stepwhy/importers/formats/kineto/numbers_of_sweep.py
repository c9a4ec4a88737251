"""From the numbers of a sweep to those that the importer gives things itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from stepwhy.importers.formats.kineto.codes import first_sights
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from stepwhy.importers.formats.kineto.sweep import Said

    Numbers = NDArray[np.int32]


class OfSweep:
    """Looks up what a number of a sweep stands for once, at its first sight."""

    def __init__(self) -> None:
        # Gone with what the numbers stand for.
        self._known: WeakKeyDictionary[Said, dict[str, Numbers]] = WeakKeyDictionary()

    def numbers(
        self,
        said: Said,
        role: str,
        numbers: NDArray[Any],
        codes: Callable[[Iterable[Any], int], Numbers],
        meanings: Callable[[NDArray[Any]], Sequence[Hashable]],
    ) -> Numbers:
        """The importer's numbers of things.

        Args:
            said: Whose numbers.
            role: Numbers of what; each role is translated on its own.
            numbers: Their numbers in the sweep, negative where there is nothing; (things,).
            codes: Gives out the importer's, for what some stand for, and how many these are.
            meanings: What numbers of the sweep stand for.

        Returns:
            Numbers, NULL where there is nothing; (things,).
        """
        known = self._known_up_to(said, role, int(numbers.max(initial=-1)))
        found: Numbers = known[numbers]  # the last one is NULL, for all negative numbers
        unknown = numbers[(found == NULL) & (numbers >= 0)]
        if not len(unknown):
            return found
        new = unknown[np.sort(first_sights(unknown))]
        known[new] = codes(meanings(new), len(new))
        return np.take(known, numbers)

    def _known_up_to(self, said: Said, role: str, most: int) -> Numbers:
        """The importer's numbers by those of the sweep, NULL where unknown; the last is NULL."""
        roles = self._known.setdefault(said, {})
        known = roles.get(role, np.full(1, NULL, dtype=np.int32))
        if most + 1 >= len(known):
            more = np.full(2 * most + 2, NULL, dtype=np.int32)
            known = roles[role] = np.concatenate([known, more])
        return known
