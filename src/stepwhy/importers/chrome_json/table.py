"""Records of a file as columns: what they are called and where they lie are numbers."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.importers.chrome_json.codes import Codes
from stepwhy.importers.chrome_json.events import SLICE
from stepwhy.importers.chrome_json.growing import Growing
from stepwhy.trace.order import taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.importers.chrome_json.events import Batch

_TITLE = attrgetter("name", "cat")
_PLACE = attrgetter("pid", "tid")
_TITLE_BITS = 32

Title = tuple[str, str]
"""Name and category of a record."""
Place = tuple[Any, Any]
"""Process and thread of a record, as the file has them."""


class Table(msgspec.Struct):
    """Some records of a file, in its order.

    Args:
        phase: Code point of every record's `ph`, which is ASCII; (records,).
        use: Number of its title and place in `uses`; (records,).
        start_ns, timed: As in `Batch`; (records,).
        dur_ns: As in `Batch`, of the slices among them; (slices,).
        titles: All titles.
        places: All places.
        uses: Every use's place and title, as numbers of these; (uses, 2).
        more: Further columns, as they were collected; (records,) each.
    """

    phase: NDArray[np.uint8]
    use: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    timed: NDArray[np.bool_]
    dur_ns: NDArray[np.int64]
    titles: list[Title]
    places: list[Place]
    uses: NDArray[np.int32]
    more: dict[str, NDArray[Any]]

    @property
    def place(self) -> NDArray[np.int32]:
        """Number of every record's place; (records,)."""
        return taken(self.uses[:, 0], self.use)

    def names(self) -> tuple[list[str], NDArray[np.int32]]:
        """All names, the first one empty, and the number of every use's; (uses,)."""
        names = Codes({"": 0})
        of_title = names.of((name for name, _ in self.titles), len(self.titles))
        return list(names), of_title[self.uses[:, 1]]

    def title_of(self, use: int) -> Title:
        """Name and category of a use."""
        return self.titles[int(self.uses[use, 1])]

    def place_of(self, use: int) -> Place:
        """Process and thread of a use."""
        return self.places[int(self.uses[use, 0])]


class Collector:
    """Collects records as columns."""

    def __init__(self) -> None:
        self._titles, self._places, self._uses = Codes(), Codes(), Codes()
        self._columns: dict[str, Growing] = {}

    def add(self, batch: Batch[Any], rows: NDArray[np.int64], **more: NDArray[Any]) -> None:
        """Take some records of a batch.

        Args:
            batch: The batch.
            rows: Which.
            more: Further columns, the same in every call; (rows,).
        """
        columns: dict[str, NDArray[Any]] = {
            "phase": batch.phase[rows].astype(np.uint8),
            "use": self._uses_of([batch.events[i] for i in rows.tolist()]),
            "start_ns": batch.start_ns[rows],
            "timed": batch.timed[rows],
            "dur_ns": batch.dur_ns[rows[batch.phase[rows] == SLICE]],
            **more,
        }
        for name, values in columns.items():
            self._columns.setdefault(name, Growing(values.dtype)).append(values)

    def _uses_of(self, events: list[Any]) -> NDArray[np.int32]:
        count = len(events)
        titles = self._titles.of(map(_TITLE, events), count)
        places = self._places.of(map(_PLACE, events), count).astype(np.int64)
        pairs, which = np.unique(places << _TITLE_BITS | titles, return_inverse=True)
        numbers: NDArray[np.int32] = self._uses.of(pairs.tolist(), len(pairs))[which]
        return numbers

    def finish(self) -> Table:
        """All that was taken, once there was a call of `add`; nothing may be added any more."""
        columns = {name: column.values() for name, column in self._columns.items()}
        pairs = np.fromiter(self._uses, dtype=np.int64, count=len(self._uses))
        uses = np.stack([pairs >> _TITLE_BITS, pairs & ((1 << _TITLE_BITS) - 1)], axis=1)
        self._columns.clear()
        return Table(
            columns.pop("phase"),
            columns.pop("use"),
            columns.pop("start_ns"),
            columns.pop("timed"),
            columns.pop("dur_ns"),
            list(self._titles),
            list(self._places),
            uses.astype(np.int32),
            more=columns,
        )
