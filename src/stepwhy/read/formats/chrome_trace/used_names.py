"""The names on the rows of a Chrome trace, each with its category and place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.base.columns.chunks import chunks
from stepwhy.base.columns.strings import texts_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepwhy.read.shared.chrome_json import Place

_NOTHING = np.empty(0, dtype=np.int32)


class Use(msgspec.Struct, frozen=True):
    """A name on a row.

    Args:
        name: The name.
        category: Its category.
        place: Process and thread.
        number: Number of the place.
    """

    name: str
    category: str
    place: Place
    number: int


class Uses(msgspec.Struct):
    """The names on rows that ranges have.

    Args:
        known: One use of each group that differs only in long numbers, in the order of the ranges.
        like: Index into `known` of each use; 0 for uses without a range; (uses,).
        shown: The uses that ranges have, in the order of the ranges.
        of: The use of each range; (ranges,).
        label: Index into `names` of each use; (uses,).
        names: All names.
        shared: Places that represent several ones, see `uses.uses_of`.
        unread: Number of names that were not classified, because there are too many.
    """

    known: list[Use]
    like: NDArray[np.signedinteger[Any]]
    shown: NDArray[np.int32]
    of: NDArray[np.int32]
    label: NDArray[np.int32]
    names: Sequence[str]
    shared: frozenset[Place] = frozenset()
    unread: int = 0

    def places(self, ranges: NDArray[np.int64]) -> NDArray[np.int32]:
        """Numbers of the places of some ranges; (ranges,)."""
        of_known = np.asarray([use.number for use in self.known], dtype=np.int32)
        places: NDArray[np.int32] = of_known[self.like[self.of[ranges]]]
        return places

    def forget_names(self) -> None:
        """Free the names when they are no longer needed."""
        self.shown, self.label, self.names = _NOTHING, _NOTHING, ()

    def name(self, number: int) -> str:
        """The name of a use."""
        return self.names[int(self.label[number])]

    def chunks(self) -> Iterator[tuple[NDArray[np.int32], list[str]]]:
        """The uses that ranges have, in chunks, and their names."""
        for chunk in chunks(len(self.shown)):
            some = self.shown[chunk]
            yield some, texts_at(self.names, self.label[some])
