"""The events of a plane as columns, read by compiled kernels.

What stands here is the contract with `stepwhy.native.kernels.xplane_events`: which fields its
control block has, and which tables they point to. Kernels know positions as addresses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from stepwhy.importers.source import let_go
from stepwhy.importers.xplane import compiled
from stepwhy.importers.xplane.layout import Run
from stepwhy.native.tables import Texts

if TYPE_CHECKING:
    import mmap
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepwhy.importers.xplane.layout import LineAt
    from stepwhy.importers.xplane.tables import IdTable
    from stepwhy.native import Kernel

    Ints = NDArray[np.signedinteger[Any]]

# Why a sweep ended, as the kernel tells.
_DONE, _STRANGE, _FULL = range(3)
# Fields of the control block, in the order of the kernel.
(
    _POSITION, _GOAL, _SAFE, _ROW, _ROOM, _LINE, _BASE_NS, _LINES, _NAMES, _STARTS, _DURATIONS,
    _NAME_OF, _COUNTS, _ODD, _ODD_COUNT, _ODD_ROOM, _WHICH, _WHICH_COUNT, _STATS, _SHARED,
    _SHARED_COUNT, _ENTRIES, _REFERENCES, _TEXTS, _TAG, _FIELDS,
) = range(26)  # fmt: skip
# Bytes at the end of the data that kernels read one by one.
_TAIL = 16
# Bytes that are mapped at a time.
_PIECE = 1 << 23
# A file with more events than this in a form that is none of a profiler's is read without kernels.
_ODD_EVENTS = 1 << 12
# Ids of wanted statistics have a table of bytes: more is nonsense.
_LARGEST_STAT = 1 << 16
_MOST_STATS = 62  # a bit each


class Wanted(msgspec.Struct, frozen=True):
    """What a plane's events are read with.

    Args:
        stats: Ids of the statistics to read.
        entries: Row of the entry of a metadata id, -1 where there is none.
        names: Code of the name of every entry.
        references: Code of the text that a statistic refers to.
        shared: By place of a statistic in `stats`: numbers and codes of texts by entry.
    """

    stats: Ints
    entries: IdTable
    names: NDArray[np.int32]
    references: IdTable
    shared: Mapping[int, tuple[NDArray[np.int64], NDArray[np.int32]]]


class Read(NamedTuple):
    """What was read.

    Args:
        line: Of every event.
        name: Codes.
        start_ns: On the clock of the profiling session.
        dur_ns: Never negative.
        numbers: By place of a statistic, those that any event has.
        codes: The same of texts; -1 - n for the n-th of `texts`.
        texts: Texts that are spelled out.
        left_out: How many events lack a name, are sums over many, have no usable time.
        odd: Where the events begin that no kernel can read.
        odd_line: Their lines.
        odd_row: The rows that they belong before.
    """

    line: Ints
    name: Ints
    start_ns: Ints
    dur_ns: Ints
    numbers: dict[int, Ints]
    codes: dict[int, Ints]
    texts: list[bytes]
    left_out: tuple[int, ...]
    odd: Ints
    odd_line: Ints
    odd_row: Ints


class Sweeper:
    """Reads one file; `of` says whether there are kernels.

    Args:
        data: The file.
        walk: The kernel that finds where fields end.
        scan: The kernel that reads them.
    """

    def __init__(self, data: bytes | mmap.mmap, walk: Kernel, scan: Kernel) -> None:
        self._data = data
        self._octets = np.frombuffer(data, dtype=np.uint8)
        self._base = self._octets.ctypes.data
        self._walk = walk
        self._scan = scan

    @classmethod
    def of(cls, data: bytes | mmap.mmap) -> Sweeper | None:
        """What reads a file, None where that is better done without kernels."""
        kernels = compiled.for_file(len(data), "walk_fields", "scan_events")
        return cls(data, *kernels) if kernels else None

    def walk(self, at: int, limit: int, tag: int) -> list[Run]:
        """The fields of a tag that follow one another from `at` on, in pieces; see `Walk`."""
        control = self._control()
        control[_TAG] = tag
        runs: list[Run] = []
        while True:
            for goal in (min(at + _PIECE, limit), limit):
                control[_POSITION], control[_GOAL] = self._base + at, self._base + goal
                count = self._walk(control.ctypes.data)
                if count or goal == limit:
                    break  # else the event is longer than a piece
            if not count:
                return runs
            after = int(control[_POSITION]) - self._base
            runs.append(Run(at, after, count))
            let_go(self._data, at, after)
            at = after

    def read(self, lines: Sequence[LineAt], wanted: Wanted) -> Read | None:
        """Read the events of lines; None where too many are in a form that is no profiler's.

        Args:
            lines: Lines that `walk` has passed over.
            wanted: What to read.
        """
        stats = wanted.stats
        if len(stats) > _MOST_STATS or (stats < 0).any() or (stats >= _LARGEST_STAT).any():
            return None
        columns = _Columns(sum(line.count for line in lines), wanted)
        control = self._control()
        columns.describe(control)
        for place, line in enumerate(lines):
            control[_LINE], control[_BASE_NS] = place, line.time_ns
            for run in line.runs:
                control[_POSITION], control[_GOAL] = self._base + run.at, self._base + run.end
                if not columns.take(self._scan, control):
                    return None
                let_go(self._data, run.at, run.end)
            columns.odd_line += [place] * (int(control[_ODD_COUNT]) - len(columns.odd_line))
        return columns.read(control, self._base)

    def _control(self) -> NDArray[np.int64]:
        control = np.zeros(_FIELDS, dtype=np.int64)
        control[_SAFE] = self._base + len(self._octets) - _TAIL
        return control


class _Columns:
    """The columns that a kernel fills.

    Args:
        room: For how many events.
        wanted: What to read.
    """

    def __init__(self, room: int, wanted: Wanted) -> None:
        self.odd_line: list[int] = []
        self._wanted = wanted
        self._room = room
        self._line, self._name = (np.empty(room, dtype=np.int32) for _ in range(2))
        self._start_ns, self._dur_ns = (np.empty(room, dtype=np.int64) for _ in range(2))
        # Memory that nothing is written to is never used.
        self._numbers = [np.empty(room, dtype=np.int64) for _ in wanted.stats]
        self._codes = [np.zeros(room, dtype=np.int32) for _ in wanted.stats]
        self._stats = np.zeros((len(wanted.stats), 4), dtype=np.int64)
        self._stats[:, 0] = [column.ctypes.data for column in self._numbers]
        self._stats[:, 1] = [column.ctypes.data for column in self._codes]
        self._which = np.zeros(int(wanted.stats.max(initial=-1)) + 1, dtype=np.uint8)
        self._which[wanted.stats] = np.arange(len(wanted.stats)) + 1
        self._shared = np.array(
            [(w, n.ctypes.data, c.ctypes.data) for w, (n, c) in wanted.shared.items()],
            dtype=np.int64,
        )
        self._counts = np.zeros(3, dtype=np.int64)
        self._odd = np.empty((_ODD_EVENTS, 2), dtype=np.int64)
        self._texts = Texts()

    def describe(self, control: NDArray[np.int64]) -> None:
        """Fill in where everything lies."""
        wanted = self._wanted
        addresses: dict[int, NDArray[Any]] = {
            _LINES: self._line,
            _NAMES: self._name,
            _STARTS: self._start_ns,
            _DURATIONS: self._dur_ns,
            _NAME_OF: wanted.names,
            _COUNTS: self._counts,
            _ODD: self._odd,
            _WHICH: self._which,
            _STATS: self._stats,
            _SHARED: self._shared,
        }
        for field, array in addresses.items():
            control[field] = array.ctypes.data
        control[_ENTRIES] = wanted.entries.address
        control[_REFERENCES] = wanted.references.address
        control[_TEXTS] = self._texts.address
        control[_ROOM], control[_ODD_ROOM] = self._room, len(self._odd)
        control[_WHICH_COUNT], control[_SHARED_COUNT] = len(self._which), len(self._shared)

    def take(self, scan: Kernel, control: NDArray[np.int64]) -> bool:
        """Read a run of events; whether that was possible."""
        while (status := scan(control.ctypes.data)) == _FULL:
            if not self._texts.make_room():
                self._texts.make_longer()
        return status == _DONE

    def read(self, control: NDArray[np.int64], base: int) -> Read:
        """What was read into the columns."""
        rows = slice(int(control[_ROW]))
        odd = self._odd[: int(control[_ODD_COUNT])]
        has_numbers, has_codes = self._stats[:, 2:].T.tolist()
        return Read(
            self._line[rows],
            self._name[rows],
            self._start_ns[rows],
            self._dur_ns[rows],
            {place: self._numbers[place][rows] for place, has in enumerate(has_numbers) if has},
            {place: self._codes[place][rows] for place, has in enumerate(has_codes) if has},
            [self._texts[number] for number in range(len(self._texts))],
            tuple(self._counts.tolist()),
            odd[:, 0] - base,
            np.array(self.odd_line, dtype=np.int32),
            odd[:, 1],
        )
