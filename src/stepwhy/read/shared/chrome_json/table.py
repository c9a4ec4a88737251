"""Records of a file as columns, with integer codes for names, categories and threads."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.base.columns.chunks import take
from stepwhy.base.columns.groups import group_rows
from stepwhy.base.columns.growing import Growing
from stepwhy.base.columns.interning import Codes, Interner, KeyCodes
from stepwhy.read.shared.chrome_json.events import SLICE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.read.shared.chrome_json.events import Batch

_NAME = attrgetter("name")
_CONTEXT = attrgetter("pid", "tid", "cat")
_NAME_BITS = 32

Title = tuple[str, str]
"""Name and category of a record."""
Place = tuple[Any, Any]
"""Process and thread id of a record, as in the file."""


class Table(msgspec.Struct):
    """Some records of a file, in file order.

    A `use` is a distinct combination of place, category and name.

    Args:
        phase: Code point of every record's `ph`, which is ASCII; (records,).
        use: Code of the record's place, category and name; (records,).
        start_ns, timed: As in `Batch`; (records,).
        dur_ns: As in `Batch`, for the slices among the records; (slices,).
        places: All places.
        categories: All categories.
        names: All names; the first one is empty.
        contexts: Codes of the places and categories that occur together; (contexts, 2).
        context_of_use: Code of every use's context; (uses,).
        name_of_use: Code of every use's name; (uses,).
        more: Further columns passed to `Collector.add`; (records,) each.
    """

    phase: NDArray[np.uint8]
    use: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    timed: NDArray[np.bool_]
    dur_ns: NDArray[np.int64]
    places: list[Place]
    categories: list[str]
    names: Sequence[str]
    contexts: NDArray[np.int32]
    context_of_use: NDArray[np.int32]
    name_of_use: NDArray[np.int32]
    more: dict[str, NDArray[Any]]

    @property
    def place(self) -> NDArray[np.int32]:
        """Code of every record's place; (records,)."""
        return take(self.place_of_use, self.use)

    @property
    def place_of_use(self) -> NDArray[np.int32]:
        """Code of every use's place; (uses,)."""
        return take(self.contexts[:, 0], self.context_of_use)

    def title_of(self, use: int) -> Title:
        """Name and category of a use."""
        _, category = self.contexts[self.context_of_use[use]].tolist()
        return self.names[self.name_of_use[use]], self.categories[category]


class Collector:
    """Collects records as columns."""

    def __init__(self) -> None:
        self._names, self._contexts, self._uses = Interner([""]), Codes(), KeyCodes()
        self._columns: dict[str, Growing] = {}

    def add(self, batch: Batch[Any], rows: NDArray[np.int64], **more: NDArray[Any]) -> None:
        """Add some records of a batch.

        Args:
            batch: The batch.
            rows: Rows of the records in the batch.
            more: Further columns, the same in every call; (rows,).
        """
        events = [batch.events[i] for i in rows.tolist()]
        count = len(events)
        names = self._names.numbers(list(map(_NAME, events)))
        contexts = self._contexts.of(map(_CONTEXT, events), count).astype(np.int64)
        keys, which = np.unique(contexts << _NAME_BITS | names, return_inverse=True)
        uses = self._uses.of(keys)[which]
        columns: dict[str, NDArray[Any]] = {
            "phase": batch.phase[rows].astype(np.uint8),
            "use": uses,
            "start_ns": batch.start_ns[rows],
            "timed": batch.timed[rows],
            "dur_ns": batch.dur_ns[rows[batch.phase[rows] == SLICE]],
            **more,
        }
        for name, values in columns.items():
            self._columns.setdefault(name, Growing(values.dtype)).append(values)

    def finish(self) -> Table:
        """All records; call it once, after at least one `add`."""
        columns = {name: column.values() for name, column in self._columns.items()}
        self._columns.clear()
        places, categories, contexts = self._split_contexts()
        names = self._names.strings()
        return Table(
            columns.pop("phase"),
            columns.pop("use"),
            columns.pop("start_ns"),
            columns.pop("timed"),
            columns.pop("dur_ns"),
            places,
            categories,
            names,
            contexts,
            *self._split_uses(),
            more=columns,
        )

    def _split_contexts(self) -> tuple[list[Place], list[str], NDArray[np.int32]]:
        """Places, categories, and the codes of both for every context."""
        places, categories = Codes(), Codes()
        count = len(self._contexts)
        contexts = np.stack(
            (
                places.of(((pid, tid) for pid, tid, _ in self._contexts), count),
                categories.of((cat for _, _, cat in self._contexts), count),
            ),
            axis=1,
        )
        return list(places), list(categories), contexts

    def _split_uses(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Codes of every use's context and name."""
        keys, self._uses = self._uses.keys(), KeyCodes()
        contexts = np.empty(len(keys), dtype=np.int32)
        np.right_shift(keys, _NAME_BITS, out=contexts, casting="unsafe")
        return contexts, keys.astype(np.int32)  # keeps the low 32 bits


def first_seen(codes: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Distinct codes in the order in which they first occur, and the row of each."""
    first, _ = group_rows(codes)
    return codes[first], first.astype(np.int32)
