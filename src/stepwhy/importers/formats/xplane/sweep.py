"""The events of a plane as columns, read by compiled kernels.

What stands here is the contract with `stepwhy.native.kernels.xplane_events`: which fields its
control block has, and which tables they point to. Kernels know positions as addresses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from stepwhy.importers.formats.xplane import compiled
from stepwhy.importers.formats.xplane.collect import Collector
from stepwhy.importers.formats.xplane.events import Labels
from stepwhy.importers.formats.xplane.layout import Run
from stepwhy.inputs.source import let_go
from stepwhy.native.tables import Texts

if TYPE_CHECKING:
    import mmap
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepwhy.importers.formats.xplane.events import Events
    from stepwhy.importers.formats.xplane.layout import LineAt
    from stepwhy.importers.formats.xplane.tables import IdTable
    from stepwhy.native import Kernel

    Ints = NDArray[np.signedinteger[Any]]

# Why a sweep ended, as the kernel tells.
_DONE, _STRANGE, _FULL = range(3)
# Fields of the control block, in the order of the kernel.
(
    _POSITION, _GOAL, _SAFE, _ROW, _ROOM, _BASE_NS, _NAMES, _STARTS, _DURATIONS,
    _NAME_OF, _COUNTS, _ODD, _ODD_COUNT, _ODD_ROOM, _WHICH, _WHICH_COUNT, _STATS, _SHARED,
    _SHARED_COUNT, _ENTRIES, _REFERENCES, _TEXTS, _TAG, _FIELDS,
) = range(24)  # fmt: skip
# Bytes at the end of the data that kernels read one by one.
_TAIL = 16
# Bytes that are mapped at a time: the columns of their events stay in a processor's cache.
_PIECE = 1 << 21
# A file with more events than this in a form that is none of a profiler's is read without kernels.
_ODD_EVENTS = 1 << 12
# Ids of wanted statistics have a table of bytes: more is nonsense.
_LARGEST_STAT = 1 << 16
_MOST_STATS = 62  # a bit each


class Wanted(msgspec.Struct, frozen=True):
    """What a plane's events are read with.

    Args:
        stats: Ids of the statistics to read.
        called: Their names.
        entries: Row of the entry of a metadata id, -1 where there is none.
        names: Code of the name of every entry.
        references: Code of the text that a statistic refers to.
        shared: By place of a statistic in `stats`: numbers and codes of texts by entry.
    """

    stats: Ints
    called: tuple[str, ...]
    entries: IdTable
    names: NDArray[np.int32]
    references: IdTable
    shared: Mapping[int, tuple[NDArray[np.int64], NDArray[np.int32]]]


class Read(NamedTuple):
    """What was read.

    Args:
        events: Of the codes of texts, -1 - n stands for the n-th of `texts`.
        texts: Texts that are spelled out.
        left_out: How many events lack a name, are sums over many, have no usable time.
        odd: Where the events begin that no kernel can read.
        odd_line: Their lines.
        odd_row: The rows that they belong before.
    """

    events: Events
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
        group: The kernel that finds which are alike.
    """

    def __init__(self, data: bytes | mmap.mmap, walk: Kernel, scan: Kernel, group: Kernel) -> None:
        self._data = data
        self._octets = np.frombuffer(data, dtype=np.uint8)
        self._base = self._octets.ctypes.data
        self._walk = walk
        self._scan = scan
        self._group = group

    @classmethod
    def of(cls, data: bytes | mmap.mmap) -> Sweeper | None:
        """What reads a file, None where that is better done without kernels."""
        kernels = compiled.for_file(len(data), "walk_fields", "scan_events", "group_rows")
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
        columns = _Columns(max((r.events for ln in lines for r in ln.runs), default=0), wanted)
        collected = Collector(sum(line.count for line in lines), self._group)
        control = self._control()
        columns.describe(control)
        for place, line in enumerate(lines):
            control[_BASE_NS] = line.time_ns
            for run in line.runs:
                control[_POSITION], control[_GOAL] = self._base + run.at, self._base + run.end
                if not columns.fill(self._scan, control, run.events):
                    return None
                columns.note_odd(control, place, len(collected))
                columns.hand_over(control, place, collected)
                let_go(self._data, run.at, run.end)
        return columns.read(control, self._base, collected.finish())

    def _control(self) -> NDArray[np.int64]:
        control = np.zeros(_FIELDS, dtype=np.int64)
        control[_SAFE] = self._base + len(self._octets) - _TAIL
        return control


class _Columns:
    """The columns that a kernel fills with some events of a line, again and again.

    Args:
        room: For how many events.
        wanted: What to read.
    """

    def __init__(self, room: int, wanted: Wanted) -> None:
        self._odd_line: list[int] = []
        self._wanted = wanted
        self._name = np.empty(room, dtype=np.int32)
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
        control[_ODD_ROOM] = len(self._odd)
        control[_WHICH_COUNT], control[_SHARED_COUNT] = len(self._which), len(self._shared)

    def fill(self, scan: Kernel, control: NDArray[np.int64], events: int) -> bool:
        """Read a run of so many events; whether that was possible."""
        control[_ROW], control[_ROOM] = 0, events
        for column, has_codes in zip(self._codes, self._stats[:, 3], strict=True):
            if has_codes:
                column[:] = 0
        self._stats[:, 2:] = 0
        while (status := scan(control.ctypes.data)) == _FULL:
            if not self._texts.make_room():
                self._texts.make_longer()
        return status == _DONE

    def note_odd(self, control: NDArray[np.int64], line: int, before: int) -> None:
        """Say where events belong that no kernel can read.

        Args:
            control: Of a run.
            line: Its line.
            before: How many events were read before it.
        """
        since, count = len(self._odd_line), int(control[_ODD_COUNT])
        self._odd[since:count, 1] += before
        self._odd_line += [line] * (count - since)

    def hand_over(self, control: NDArray[np.int64], line: int, collected: Collector) -> None:
        """Hand over the events of a run."""
        rows = slice(int(control[_ROW]))
        name, called = self._name[rows], self._wanted.called
        has_numbers, has_codes = self._stats[:, 2:].T.tolist()
        labels = Labels(
            np.broadcast_to(np.int32(line), len(name)),
            name,
            {called[n]: self._numbers[n][rows] for n, has in enumerate(has_numbers) if has},
            {called[n]: self._codes[n][rows] for n, has in enumerate(has_codes) if has},
        )
        collected.add(labels, self._start_ns[rows], self._dur_ns[rows])

    def read(self, control: NDArray[np.int64], base: int, events: Events) -> Read:
        """What was read into the columns."""
        odd = self._odd[: int(control[_ODD_COUNT])]
        return Read(
            events,
            [self._texts[number] for number in range(len(self._texts))],
            tuple(self._counts.tolist()),
            odd[:, 0] - base,
            np.array(self._odd_line, dtype=np.int32),
            odd[:, 1],
        )
