"""What the ranges of a Chrome trace are called and where they lie: few things, of many ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.importers.chrome_json import first_seen

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stepwhy.importers.chrome_json import Place, Table
    from stepwhy.importers.chrome_spans import Spans


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


class Uses(msgspec.Struct, frozen=True):
    """The names on rows that ranges have.

    Args:
        known: By their number, in the order in which ranges show them.
        of: Number of every range's; (ranges,).
        count: Numbers are below this.
    """

    known: dict[int, Use]
    of: NDArray[np.int32]
    count: int


def uses_of(table: Table, spans: Spans) -> Uses:
    """The names on rows that ranges have: those of the records that begin them.

    Args:
        table: The records.
        spans: The ranges.
    """
    numbers = table.use[spans.first]
    known = {}
    for use in first_seen(numbers, len(table.uses))[0].tolist():
        name, category = table.title_of(use)
        known[use] = Use(name, category, table.place_of(use), int(table.uses[use, 0]))
    return Uses(known, numbers, len(table.uses))


__all__ = ["Use", "Uses", "uses_of"]
