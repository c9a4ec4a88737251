"""The op table: where time goes by name, device and phase."""

from __future__ import annotations

from heapq import nsmallest
from math import prod
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from stepwhy.passes.devices import FEW_DEVICES, MOST_DEVICES
from stepwhy.passes.grouping import numbered
from stepwhy.passes.self_time import self_times
from stepwhy.passes.sums import sums_of
from stepwhy.trace import NULL, Kind, Phase, Role, among
from stepwhy.trace.memory import empty

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepwhy.passes.nesting import Nesting
    from stepwhy.passes.selection import Ranges
    from stepwhy.trace import Trace

_LISTED = (Kind.OP, Kind.KERNEL, Kind.COLLECTIVE, Kind.MEMCPY, Kind.MEMSET, Kind.INPUT, Kind.SYNC)
# Where the breakdown explains nothing, the table says how long what was waited for.
_LISTED_OF_LIMITED = (Kind.WAIT, Kind.OTHER)
_RANGES = (Kind.ANNOTATION, Kind.PYTHON)
# Operations that are added up at a time.
_PIECE = 1 << 17
# Those that were found are joined with a part of as many, and no fewer than these.
_OFTEN = 4
_FEW = 1 << 13
# How many phases and kinds there are.
_CLASSES = (max(Phase) + 1, max(Kind) + 1)
# Which of the sums is the self time.
_SELF = 2


class OpRow(msgspec.Struct, frozen=True):
    """One operation over the steady steps; sums, not means.

    Args:
        name: Op or kernel name.
        device: Device that ran it; 'host' for calls on host threads.
        phase: Phase.
        kind: What it is.
        count: Number of slices.
        total_ns: Sum of durations.
        self_ns: Sum of durations not spent in children.
        bytes: Bytes moved or produced, None when not recorded.
    """

    name: str
    device: str
    phase: Phase
    kind: Kind
    count: int
    total_ns: int
    self_ns: int
    bytes: int | None


class _Code(msgspec.Struct, frozen=True):
    """How name, device, phase and kind are one number, by which operations are in their order.

    Args:
        lowest: The lowest number of each.
        sizes: How many there are of each.
    """

    lowest: tuple[int, ...]
    sizes: tuple[int, ...]

    def of(self, *columns: NDArray[Any]) -> NDArray[np.int64]:
        """Numbers of operations; (rows,)."""
        codes = np.zeros(len(columns[0]), dtype=np.int64)
        for column, low, size in zip(columns, self.lowest, self.sizes, strict=True):
            codes *= size
            codes += column
            codes -= low
        return codes

    def keys(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Name, device, phase and kind of operations; (codes, 4)."""
        found: NDArray[np.int64] = np.stack(np.unravel_index(codes, self.sizes), axis=1)
        found += np.asarray(self.lowest)
        return found

    def devices(self, codes: NDArray[np.int64]) -> NDArray[np.int32]:
        """Devices of operations; (codes,)."""
        _, count, *others = self.sizes
        found = np.empty(len(codes), dtype=np.int32)
        for first in range(0, len(codes), _PIECE):
            some = slice(first, first + _PIECE)
            found[some] = codes[some] // prod(others) % count + self.lowest[1]
        return found


class OpTable(msgspec.Struct, frozen=True):
    """All operations over the steady steps, of which there may be as many as names.

    Args:
        trace: The trace.
        code: How they are numbered.
        codes: Number of each, ascending; (operations,).
        sums: Count, total, self, bytes and number of known sizes of each; (operations,) each.
    """

    trace: Trace
    code: _Code
    codes: NDArray[np.int64]
    sums: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        """How many operations there are."""
        return len(self.codes)

    def largest(self, most: int) -> list[OpRow]:
        """The operations with the largest self time, largest first.

        Args:
            most: How many of each device, at most.
        """
        found = [row for places in self._of_devices() for row in self._largest_on(places, most)]
        return sorted(found, key=_by_self_time)

    def _of_devices(self) -> Iterator[NDArray[np.int64]]:
        """Operations on the devices of one name, or of the host, for each name."""
        devices, device = numbered(self.code.devices(self.codes))
        by_name: dict[str, int] = {}
        names = [_device_name(self.trace, row) for row in devices.tolist()]
        groups = np.asarray([by_name.setdefault(n, len(by_name)) for n in names], dtype=np.int32)
        if len(by_name) <= FEW_DEVICES:  # less memory
            return (np.flatnonzero(groups[device] == number) for number in range(len(by_name)))
        group = groups[device]
        order = np.argsort(group, kind="stable")
        return iter(np.split(order, np.flatnonzero(np.diff(group[order])) + 1)[:MOST_DEVICES])

    def _largest_on(self, places: NDArray[np.int64], most: int) -> list[OpRow]:
        if len(places) > most:
            places = self._first_of(places, most)
        keys = self.code.keys(self.codes[places]).tolist()
        sums = zip(*(column[places].tolist() for column in self.sums), strict=True)
        rows = (_row(self.trace, *row) for row in zip(keys, sums, strict=True))
        return sorted(rows, key=_by_self_time)[:most]

    def _first_of(self, places: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """Those with the largest self times; of equal ones, which may be all, the first names."""
        self_ns = self.sums[_SELF][places]
        limit = np.partition(self_ns, -most)[-most]
        larger = places[self_ns > limit]
        equal = self._named(places[self_ns == limit])
        first = nsmallest(most - len(larger), equal, key=itemgetter(1))
        return np.append(larger, np.asarray([place for place, _ in first], dtype=np.int64))

    def _named(self, places: NDArray[np.int64]) -> Iterator[tuple[int, str]]:
        """Operations with their names."""
        for first in range(0, len(places), _PIECE):
            piece = places[first : first + _PIECE]
            names = self.code.keys(self.codes[piece])[:, 0].tolist()
            yield from zip(piece.tolist(), map(self.trace.string, names), strict=True)


def _by_self_time(row: OpRow) -> tuple[int, str]:
    return -row.self_ns, row.name


def op_table(trace: Trace, nesting: Nesting, phases: NDArray[np.int8], steady: Ranges) -> OpTable:
    """Operations in the steady steps.

    Args:
        trace: The trace.
        nesting: Its call trees.
        phases: Phase of every slice; (slices,).
        steady: The slices that start in a steady step.
    """
    listed = _listed(trace)
    code = _Code((NULL, NULL, 0, 0), (len(trace.strings) + 1, len(trace.devices) + 1, *_CLASSES))
    found, parts, pending = _NOTHING, list[_Part](), 0
    for piece, times in self_times(nesting):
        rows = np.flatnonzero(among(trace.slices.kind[piece], listed) & steady.within(piece))
        own_ns = times[rows]
        rows += piece.start
        codes, group = numbered(_codes(trace, code, phases, rows))
        parts.append(_Part(codes, _sums(trace, rows, own_ns, group, len(codes))))
        pending += len(codes)
        if pending > max(len(found.codes) // _OFTEN, _FEW):  # so that few are joined often
            found, pending = _with(found, parts), 0
    codes, sums = _with(found, parts)
    return OpTable(trace, code, codes, tuple(sums))


class _Part(NamedTuple):
    """Operations of some rows: their numbers, ascending, and the columns of `OpTable.sums`."""

    codes: NDArray[np.int64]
    sums: list[NDArray[np.int64]]


_NOTHING = _Part(np.empty(0, dtype=np.int64), [np.broadcast_to(np.int64(0), 0)] * 5)


def _with(found: _Part, parts: list[_Part]) -> _Part:
    """Operations with those of further parts, which are gone from there."""
    if not parts:
        return found
    more = _united(parts)
    parts.clear()
    return _merged(found, more) if len(found.codes) else more


def _merged(one: _Part, other: _Part) -> _Part:
    """Operations of two parts, of which nothing is left; the larger one first."""
    place = np.searchsorted(one.codes, other.codes)
    known = one.codes[np.minimum(place, len(one.codes) - 1)] == other.codes
    is_new = np.zeros(len(one.codes) + len(other.codes) - int(known.sum()), dtype=bool)
    new = place[~known] + np.arange(len(is_new) - len(one.codes))
    is_new[new] = True
    codes = _joined(is_new, one.codes, other.codes[~known])
    both = np.flatnonzero(~is_new)[place[known]]
    twice = np.tile(np.arange(len(both)), 2)
    sums = []
    for _ in range(len(_NOTHING.sums)):
        first, second = one.sums.pop(0), other.sums.pop(0)
        if first.strides == (0,) and second.strides == (0,):
            sums.append(_zeros(len(is_new)))
            continue
        joined = _joined(is_new, first, second[~known])
        joined[both] = sums_of(np.append(joined[both], second[known]), twice, len(both))
        sums.append(joined)
    return _Part(codes, sums)


def _joined(
    is_new: NDArray[np.bool_], old: NDArray[np.int64], new: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Two columns as one: where each value of the second comes from is told."""
    joined: NDArray[np.int64] = empty(len(is_new), np.int64)
    np.place(joined, ~is_new, old)
    np.place(joined, is_new, new)
    return joined


def _united(parts: list[_Part]) -> _Part:
    """Operations that stand there several times, added up; column by column, for their memory."""
    if len(parts) == 1:
        return parts[0]
    codes, group = numbered(np.concatenate([part.codes for part in parts]))
    columns = [list(part.sums) for part in parts]
    parts.clear()
    sums = []
    for _ in range(len(_NOTHING.sums)):
        own = [column.pop(0) for column in columns]
        known = any(column.strides != (0,) for column in own)
        added = sums_of(np.concatenate(own), group, len(codes)) if known else _zeros(len(codes))
        sums.append(added)
    return _Part(codes, sums)


def _zeros(count: int) -> NDArray[np.int64]:
    """Zeros without memory; (count,)."""
    return np.broadcast_to(np.int64(0), count)


def _codes(
    trace: Trace, code: _Code, phases: NDArray[np.int8], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Numbers of the operations that rows are of; (rows,)."""
    slices, tracks = trace.slices, trace.tracks
    device = np.where(tracks.role == Role.HOST_THREAD, NULL, tracks.device)[slices.track[rows]]
    return code.of(slices.name[rows], device, phases[rows], slices.kind[rows])


def _listed(trace: Trace) -> tuple[Kind, ...]:
    """What counts as an operation in this trace."""
    limited = _LISTED_OF_LIMITED if trace.meta.limit else ()
    ranges = _RANGES if "ranges" in trace.meta.signals else ()
    return (*_LISTED, *limited, *ranges)


def _sums(
    trace: Trace,
    rows: NDArray[np.int64],
    own_ns: NDArray[np.int64],
    group: NDArray[np.int64],
    groups: int,
) -> list[NDArray[np.int64]]:
    """Count, total, self, bytes and number of known sizes per group; (groups,) each."""
    sizes = trace.slices.bytes[rows]
    known = np.flatnonzero(sizes != NULL)
    sized = [_zeros(groups)] * 2
    if len(known):
        sized = [
            sums_of(sizes[known], group[known], groups),
            np.bincount(group[known], minlength=groups),
        ]
    return [
        np.bincount(group, minlength=groups),
        sums_of(trace.slices.dur_ns[rows], group, groups),
        sums_of(own_ns, group, groups),
        *sized,
    ]


def _row(trace: Trace, key: list[int], sums: Sequence[int]) -> OpRow:
    name, device, phase, kind = key
    count, total_ns, self_ns, size, sized = sums
    return OpRow(
        trace.string(name),
        _device_name(trace, device),
        Phase(phase),
        Kind(kind),
        count,
        total_ns,
        self_ns,
        size if sized else None,
    )


def _device_name(trace: Trace, device: int) -> str:
    return "host" if device == NULL else trace.string(int(trace.devices.name[device]))
