"""What the events of a plane refer to by number: names, statistics that many events share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.importers.formats.xplane.groups import alike
from stepwhy.importers.formats.xplane.kernels.layout import MISSING, IdTable
from stepwhy.importers.formats.xplane.scan import REFERENCE, TEXT, chosen
from stepwhy.importers.formats.xplane.sweep import Wanted
from stepwhy.importers.shared.tensorflow.graphs import text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from stepwhy.importers.formats.xplane.events import Labels, Texts
    from stepwhy.importers.formats.xplane.layout import Bytes
    from stepwhy.importers.formats.xplane.scan import Stats

    Ints = NDArray[np.int64]
    Codes = NDArray[np.int32]

# What any part of the importer asks for; the many other statistics are not decoded. Names and
# paths of machines, commands and options are not among them.
_WANTED = frozenset(
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

# More ids for the few names above are nonsense.
_MOST_WANTED = 10_000


class Metadata:
    """Resolves what events refer to by number within one plane.

    Args:
        plane: A message of type XPlane; its lines are not looked at.
        texts: Takes all texts.
    """

    def __init__(self, plane: Any, texts: Texts) -> None:
        self._texts = texts
        self._stat_names = {e.key: text(e.value.name) for e in plane.stat_metadata}
        self._wanted = {key: n for key, n in self._stat_names.items() if n in _WANTED}
        # Of several with the same key the last one counts.
        places = {e.key: place for place, e in enumerate(plane.event_metadata)}
        self._keys = np.array(sorted(places), dtype=np.int64)
        self._names = np.zeros(len(places), dtype=np.int32)
        self._shared = self._entries(plane.event_metadata, [places[k] for k in sorted(places)])
        self.stats = self.values(plane.stats)

    def leave_out(self, stats: Collection[str]) -> None:
        """Do not ask for some statistics of events."""
        self._wanted = {key: name for key, name in self._wanted.items() if name not in stats}
        self._shared = {name: c for name, c in self._shared.items() if name not in stats}

    @property
    def wanted(self) -> Ints:
        """Ids of the statistics that are asked for, ascending."""
        return np.array(sorted(self._wanted)[:_MOST_WANTED], dtype=np.int64)

    def for_kernels(self) -> Wanted | None:
        """The same for kernels, None where two statistics share a name."""
        wanted = self.wanted
        names = tuple(self._wanted[key] for key in wanted.tolist())
        if len(set(names)) < len(names):
            return None
        shared = {names.index(name): columns for name, columns in self._shared.items()}
        rows = np.arange(len(self._keys), dtype=np.int32)
        entries = IdTable.of(self._keys, rows, missing=-1)
        return Wanted(wanted, names, entries, self._names, self._references(), shared)

    def _references(self) -> IdTable:
        """Codes of the texts that stand among the names of statistics."""
        keys = sorted(self._stat_names)
        codes = [self._texts.code(self._stat_names[key]) for key in keys]
        return IdTable.of(
            np.array(keys, dtype=np.int64), np.array(codes, dtype=np.int32), missing=0
        )

    def spell(self, labels: Labels, spelled: Sequence[bytes]) -> None:
        """Give texts that kernels read their codes: -1 - n stands for the n-th spelled one."""
        codes = np.array([self._texts.code(text(t)) for t in spelled], dtype=np.int32)
        for column in labels.texts.values():
            those = np.flatnonzero(column < 0)
            column[those] = codes[-1 - column[those]]

    def values(self, stats: Iterable[Any]) -> dict[str, int | str]:
        """The wanted ones of some statistics."""
        found = {}
        for stat in stats:
            name = self._wanted.get(stat.metadata_id)
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
        """Read what describes events.

        Args:
            table: All entries; none is held, as there may be very many.
            places: Where the entries stand in it, in the order of their keys.

        Returns:
            By statistic: numbers and codes of texts that all events of an entry share.
        """
        code, wanted = self._texts.code, self._wanted
        found: dict[str, tuple[Ints, Codes]] = {}
        for row, place in enumerate(places):
            entry = table[place].value
            self._names[row] = code(_shown(entry))
            for stat in entry.stats:
                name = wanted.get(stat.metadata_id)
                if name is not None:
                    numbers, codes = found.get(name) or _new_columns(found, name, len(places))
                    # Of several with the same name the last one counts.
                    numbers[row], codes[row] = self._number_and_code(self._value(stat))
        return found

    def _number_and_code(self, value: int | str) -> tuple[int, int]:
        """A statistic's value as it stands in the columns of numbers and of texts."""
        if isinstance(value, str):
            return MISSING, self._texts.code(value)
        return value if value < 1 << 63 else MISSING, 0

    def rows_of(self, ids: Ints) -> Ints:
        """The entry of every id, -1 where there is none."""
        if not len(self._keys):
            return np.full(len(ids), -1)
        first, group = alike(ids)
        some = ids[first]
        place = np.minimum(np.searchsorted(self._keys, some), len(self._keys) - 1)
        found: Ints = np.where(self._keys[place] == some, place, -1)[group]
        return found

    def names(self, rows: Ints) -> Codes:
        """Codes of the names of entries, 0 for those that are missing."""
        if not len(self._names):
            return np.zeros(len(rows), dtype=np.int32)
        return np.where(rows >= 0, self._names[rows], np.int32(0))

    def columns(
        self, rows: Ints, stats: Stats, data: Bytes
    ) -> tuple[dict[str, Ints], dict[str, Codes]]:
        """Statistics as columns: each event's own, else what its entry shares.

        Args:
            rows: The entry of every event.
            stats: Statistics of the events.
            data: The bytes that texts lie in.

        Returns:
            Numbers and codes of texts, by statistic.
        """
        numbers = {n: s[0][rows] for n, s in self._shared.items() if (s[0] != MISSING).any()}
        texts = {n: s[1][rows] for n, s in self._shared.items() if s[1].any()}
        wanted = self.wanted.tolist()
        for place in np.flatnonzero(np.bincount(stats.which)).tolist():
            name = self._wanted[wanted[place]]
            own = chosen(stats, np.flatnonzero(stats.which == place))
            is_text = (own.tag == TEXT) | (own.tag == REFERENCE)
            if not is_text.all():
                column = numbers.setdefault(name, np.full(len(rows), MISSING))
                column[own.row[~is_text]] = own.value[~is_text]
            if is_text.any():
                codes = texts.setdefault(name, np.zeros(len(rows), dtype=np.int32))
                codes[own.row[is_text]] = self._codes(chosen(own, is_text), data)
        return numbers, texts

    def _codes(self, stats: Stats, data: Bytes) -> Codes:
        """Codes of statistics that are texts."""
        codes = np.zeros(len(stats.row), dtype=np.int32)
        is_spelled = stats.tag == TEXT
        codes[is_spelled] = self._spelled(chosen(stats, is_spelled), data)
        codes[~is_spelled] = self._referred(stats.value[~is_spelled])
        return codes

    def _spelled(self, stats: Stats, data: Bytes) -> list[int]:
        code = self._texts.code
        spans = zip(stats.value.tolist(), stats.size.tolist(), strict=True)
        return [code(text(data[start : start + size])) for start, size in spans]

    def _referred(self, keys: Ints) -> Codes:
        """Texts that stand among the names of statistics."""
        first, group = alike(keys)
        codes = [self._texts.code(self._stat_names.get(k, "")) for k in keys[first].tolist()]
        return np.array(codes, dtype=np.int32)[group]


def _new_columns(
    columns: dict[str, tuple[Ints, Codes]], name: str, length: int
) -> tuple[Ints, Codes]:
    """Columns of numbers and of codes of a statistic that nothing has yet."""
    columns[name] = np.full(length, MISSING), np.zeros(length, dtype=np.int32)
    return columns[name]


def _shown(metadata: Any) -> str:
    """The name of an event; compilers write a whole instruction there, and a short one beside."""
    name = text(metadata.name)
    return text(metadata.display_name) or name if name.startswith("%") else name
