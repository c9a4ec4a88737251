"""Metadata of a plane: names and shared statistics, which events refer to by id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.read.formats.xplane.groups import equal_rows
from stepwhy.read.formats.xplane.kernels.layout import MISSING, IdTable
from stepwhy.read.formats.xplane.scan import REFERENCE, TEXT, selected
from stepwhy.read.formats.xplane.sweep import Request
from stepwhy.read.shared.tensorflow.graphs import text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from stepwhy.base.columns.types import Ints
    from stepwhy.read.formats.xplane.events import Labels, Texts
    from stepwhy.read.formats.xplane.layout import Bytes
    from stepwhy.read.formats.xplane.scan import Stats

    Codes = NDArray[np.int32]

# Statistics that the importer uses; the many others are not decoded. Names and paths of machines,
# commands and options are not among them.
_USED = frozenset(
    {
        "Memset_details",
        "_c",
        "_p",
        "allocator_name",
        "correlation_id",
        "device_ordinal",
        "device_type_string",
        "gpu_device_name",
        "hlo_category",
        "hlo_op",
        "id",
        "jax_version",
        "memcpy_details",
        "memset_details",
        "name",
        "process_id",
        "program_id",
        "profile_start_time",
        "step_num",
        "tf_function_call",
        "tf_op",
    }
)

# Only a damaged file has more ids for the few names above.
_MAX_STATS = 10_000


class Metadata:
    """Resolves ids that events of one plane refer to.

    Args:
        plane: A message of type XPlane; its lines are not used.
        texts: Interns all texts.
    """

    def __init__(self, plane: Any, texts: Texts) -> None:
        self._texts = texts
        self._stat_names = {e.key: text(e.value.name) for e in plane.stat_metadata}
        self._used = {key: n for key, n in self._stat_names.items() if n in _USED}
        # The last of several entries with one key counts.
        places = {e.key: place for place, e in enumerate(plane.event_metadata)}
        self._keys = np.array(sorted(places), dtype=np.int64)
        self._names = np.zeros(len(places), dtype=np.int32)
        self._shared = self._entries(plane.event_metadata, [places[k] for k in sorted(places)])
        self.stats = self.values(plane.stats)

    def leave_out(self, stats: Collection[str]) -> None:
        """Do not read some statistics of events."""
        self._used = {key: name for key, name in self._used.items() if name not in stats}
        self._shared = {name: c for name, c in self._shared.items() if name not in stats}

    @property
    def stat_ids(self) -> Ints:
        """Ids of the statistics to read, ascending; (stats,)."""
        return np.array(sorted(self._used)[:_MAX_STATS], dtype=np.int64)

    def request(self) -> Request | None:
        """What kernels have to read, None if two statistics share a name."""
        ids = self.stat_ids
        names = tuple(self._used[key] for key in ids.tolist())
        if len(set(names)) < len(names):
            return None
        shared = {names.index(name): columns for name, columns in self._shared.items()}
        rows = np.arange(len(self._keys), dtype=np.int32)
        entries = IdTable.of(self._keys, rows, missing=-1)
        keys = sorted(self._stat_names)
        codes = [self._texts.code(self._stat_names[key]) for key in keys]
        references = IdTable.of(
            np.array(keys, dtype=np.int64), np.array(codes, dtype=np.int32), missing=0
        )
        return Request(ids, names, entries, self._names, references, shared)

    def resolve_texts(self, labels: Labels, inline: Sequence[bytes]) -> None:
        """Replace the provisional codes of kernels in place: -1 - n is the n-th inline text."""
        codes = np.array([self._texts.code(text(t)) for t in inline], dtype=np.int32)
        for column in labels.texts.values():
            rows = np.flatnonzero(column < 0)
            column[rows] = codes[-1 - column[rows]]

    def values(self, stats: Iterable[Any]) -> dict[str, int | str]:
        """Values by name of those statistics that are used."""
        found = {}
        for stat in stats:
            name = self._used.get(stat.metadata_id)
            if name is not None:
                found[name] = self._value(stat)
        return found

    def _value(self, stat: Any) -> int | str:
        if stat.str_value:
            return text(stat.str_value)
        if stat.ref_value:
            return self._stat_names.get(stat.ref_value, "")
        number: int = stat.int64_value or stat.uint64_value
        return number

    def _entries(self, table: Any, places: list[int]) -> dict[str, tuple[Ints, Codes]]:
        """Read the entries that describe events: their names and shared statistics.

        Args:
            table: All entries; no reference to one is kept, because there may be very many.
            places: Positions of the entries in the table, by ascending key.

        Returns:
            Numbers and codes of texts that all events of an entry share, by statistic; (entries,)
            each.
        """
        code, used = self._texts.code, self._used
        found: dict[str, tuple[Ints, Codes]] = {}
        for row, place in enumerate(places):
            entry = table[place].value
            self._names[row] = code(_shown(entry))
            for stat in entry.stats:
                name = used.get(stat.metadata_id)
                if name is not None:
                    numbers, codes = found.get(name) or _new_columns(found, name, len(places))
                    # The last of several values of one name counts.
                    numbers[row], codes[row] = self._number_and_code(self._value(stat))
        return found

    def _number_and_code(self, value: int | str) -> tuple[int, int]:
        """Value of a statistic in the columns of numbers and of texts."""
        if isinstance(value, str):
            return MISSING, self._texts.code(value)
        return value if value < 1 << 63 else MISSING, 0

    def rows_of(self, ids: Ints) -> Ints:
        """Row of every id's entry, -1 where there is none; (ids,)."""
        if not len(self._keys):
            return np.full(len(ids), -1)
        first, group = equal_rows(ids)
        distinct = ids[first]
        place = np.minimum(np.searchsorted(self._keys, distinct), len(self._keys) - 1)
        found: Ints = np.where(self._keys[place] == distinct, place, -1)[group]
        return found

    def names(self, rows: Ints) -> Codes:
        """Codes of the names of entries, 0 for missing entries; (rows,)."""
        if not len(self._names):
            return np.zeros(len(rows), dtype=np.int32)
        return np.where(rows >= 0, self._names[rows], np.int32(0))

    def columns(
        self, rows: Ints, stats: Stats, data: Bytes
    ) -> tuple[dict[str, Ints], dict[str, Codes]]:
        """Statistics as columns: those of each event, else those of its entry.

        Args:
            rows: Row of every event's entry; (events,).
            stats: Statistics of the events.
            data: The bytes that contain the texts.

        Returns:
            Numbers and codes of texts, by statistic; (events,) each.
        """
        numbers = {n: s[0][rows] for n, s in self._shared.items() if (s[0] != MISSING).any()}
        texts = {n: s[1][rows] for n, s in self._shared.items() if s[1].any()}
        ids = self.stat_ids.tolist()
        for place in np.flatnonzero(np.bincount(stats.which)).tolist():
            name = self._used[ids[place]]
            own = selected(stats, np.flatnonzero(stats.which == place))
            is_text = (own.tag == TEXT) | (own.tag == REFERENCE)
            if not is_text.all():
                column = numbers.setdefault(name, np.full(len(rows), MISSING))
                column[own.row[~is_text]] = own.value[~is_text]
            if is_text.any():
                codes = texts.setdefault(name, np.zeros(len(rows), dtype=np.int32))
                codes[own.row[is_text]] = self._codes(selected(own, is_text), data)
        return numbers, texts

    def _codes(self, stats: Stats, data: Bytes) -> Codes:
        """Codes of statistics that are texts; (stats,)."""
        codes = np.zeros(len(stats.row), dtype=np.int32)
        is_inline = stats.tag == TEXT
        codes[is_inline] = self._inline(selected(stats, is_inline), data)
        codes[~is_inline] = self._referenced(stats.value[~is_inline])
        return codes

    def _inline(self, stats: Stats, data: Bytes) -> list[int]:
        """Codes of texts inside events; (stats,)."""
        code = self._texts.code
        spans = zip(stats.value.tolist(), stats.size.tolist(), strict=True)
        return [code(text(data[start : start + size])) for start, size in spans]

    def _referenced(self, keys: Ints) -> Codes:
        """Codes of texts that are stored as names of statistics; (keys,)."""
        first, group = equal_rows(keys)
        codes = [self._texts.code(self._stat_names.get(k, "")) for k in keys[first].tolist()]
        return np.array(codes, dtype=np.int32)[group]


def _new_columns(
    columns: dict[str, tuple[Ints, Codes]], name: str, length: int
) -> tuple[Ints, Codes]:
    """Add empty columns of numbers and codes for a statistic."""
    columns[name] = np.full(length, MISSING), np.zeros(length, dtype=np.int32)
    return columns[name]


def _shown(metadata: Any) -> str:
    """Name of an event; where compilers write a whole instruction as the name, its display name."""
    name = text(metadata.name)
    return text(metadata.display_name) or name if name.startswith("%") else name
