"""Translation of the codes of one sweep to codes that hold for the whole file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from stepwhy.base.columns.groups import first_rows
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from stepwhy.read.formats.kineto.sweep import StringTable

    Numbers = NDArray[np.int32]


class SweepCodes:
    """Translates codes of a sweep's string table, each of them once."""

    def __init__(self) -> None:
        # An entry is dropped together with its string table.
        self._known: WeakKeyDictionary[StringTable, dict[str, Numbers]] = WeakKeyDictionary()

    def translate(
        self,
        strings: StringTable,
        role: str,
        codes: NDArray[Any],
        assign: Callable[[Iterable[Any], int], Numbers],
        values_of: Callable[[NDArray[Any]], Sequence[Hashable]],
    ) -> Numbers:
        """Codes of the whole file for codes of one sweep.

        Args:
            strings: The string table that the sweep's codes refer to.
            role: What is coded ('thread', 'title', ...); each role has its own translation.
            codes: Codes of the sweep, negative where the value is absent; (rows,).
            assign: Returns the file's codes of values, given the values and their number.
            values_of: Returns the values of codes of the sweep.

        Returns:
            Codes, NULL where the value is absent; (rows,).
        """
        known = self._known_up_to(strings, role, int(codes.max(initial=-1)))
        found: Numbers = known[codes]  # the NULL at the end is for negative codes
        unknown = codes[(found == NULL) & (codes >= 0)]
        if not len(unknown):
            return found
        new = unknown[np.sort(first_rows(unknown))]
        known[new] = assign(values_of(new), len(new))
        return np.take(known, codes)

    def _known_up_to(self, strings: StringTable, role: str, largest: int) -> Numbers:
        """Translation table for codes up to the largest, NULL where unknown and at its end."""
        roles = self._known.setdefault(strings, {})
        known = roles.get(role, np.full(1, NULL, dtype=np.int32))
        if largest + 1 >= len(known):
            more = np.full(2 * largest + 2, NULL, dtype=np.int32)
            known = roles[role] = np.concatenate([known, more])
        return known
