"""Slices as columns: what the readers of host and device planes append to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from stepwhy.columns.chunks import take
from stepwhy.columns.narrow import narrowed
from stepwhy.columns.order import parents_first
from stepwhy.importers.formats.xplane.events import CORRELATION, missing_id
from stepwhy.importers.shared.cuda import blit_copy
from stepwhy.trace import NULL, Copy, Kind, Phase
from stepwhy.trace.schema import NARROW_COLUMNS, columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.importers.formats.xplane.events import Events
    from stepwhy.trace import TraceBuilder

    Ints = NDArray[np.signedinteger[Any]]

# Of the columns of a trace, so that nothing is converted later.
_TYPES = {column.name: column.dtype for column in columns_of("slices")}
# What slices that look alike do not share.
_EACH = ("start_ns", "dur_ns", "correlation")
_OF_COPIES = (("copy", int(Copy.NONE)), ("bytes", NULL), ("pageable", NULL))


class Look(NamedTuple):
    """What slices have in common that look alike; see the columns of the same names.

    Args:
        track: Where they lie.
        kind: What they are.
        name: Their name.
        source: Their source line, '' for none.
        phase: Their phase where it is known.
        copy: Direction of a copy.
        bytes: How much is moved.
        pageable: See the column.
    """

    track: int
    kind: Kind
    name: str
    source: str = ""
    phase: Phase = Phase.UNKNOWN
    copy: Copy = Copy.NONE
    bytes: int = NULL
    pageable: int = NULL


class _Part(msgspec.Struct, eq=False):
    """Slices of some tracks: what each one has, and what those have in common that look alike.

    Args:
        start_ns: Starts.
        dur_ns: Durations.
        correlation: Correlation ids.
        group: The look of every slice.
        looks: Columns of the looks.
        changed: Columns in which slices differ from their look.
    """

    start_ns: Ints
    dur_ns: Ints
    correlation: Ints
    group: Ints
    looks: dict[str, Ints]
    changed: dict[str, Ints] = msgspec.field(default_factory=dict)

    def column(self, name: str) -> Ints:
        """A column of all slices; where all looks agree, one that takes no memory."""
        if name in self.changed:
            return self.changed[name]
        values = self.looks[name]
        if (values == values[0]).all():
            return np.broadcast_to(values[0], len(self.group))
        return take(narrowed(values) if name in NARROW_COLUMNS else values, self.group)

    def put_in_order(self) -> None:
        """Put the slices into the order that a trace promises."""
        order = parents_first(self.start_ns, self.dur_ns)
        if order is None:
            return
        for name in (*_EACH, "group"):
            setattr(self, name, take(getattr(self, name), order))
        self.changed = {name: take(column, order) for name, column in self.changed.items()}

    def rows(self, looks: NDArray[np.bool_]) -> NDArray[np.intp]:
        """The slices of some looks."""
        return np.flatnonzero(looks[self.group]) if looks.any() else np.empty(0, dtype=np.intp)


class SliceTable:
    """Collects slices and hands them to the builder.

    Args:
        builder: Takes devices, tracks and slices.
        base_ns: Start of the profiling session on the epoch clock, 0 where it is not recorded.
    """

    def __init__(self, builder: TraceBuilder, base_ns: int) -> None:
        self.builder = builder
        self.kinds: set[Kind] = set()
        self._base_ns = base_ns
        self._parts: list[_Part] = []
        self._blits: set[int] = set()

    def add(self, events: Events, looks: Sequence[Look], end_ns: Ints | None = None) -> None:
        """Append one slice for every event.

        Args:
            events: Their columns become those of the slices.
            looks: Of their labels.
            end_ns: When an event ended, where that is after its own end.
        """
        if not len(events):
            return
        self.kinds.update(look.kind for look in looks)
        intern = self.builder.intern
        blits = (look for look in looks if blit_copy(look.name) is not Copy.NONE)
        self._blits.update(intern(look.name) for look in blits)
        common = {
            "track": [look.track for look in looks],
            "kind": [int(look.kind) for look in looks],
            "name": [intern(look.name) for look in looks],
            "source": [intern(look.source) if look.source else NULL for look in looks],
            "phase": [int(look.phase) for look in looks],
            "copy": [int(look.copy) for look in looks],
            "pageable": [look.pageable for look in looks],
            "bytes": [look.bytes for look in looks],
        }
        dur_ns = events.dur_ns
        if end_ns is not None:
            dur_ns = np.maximum(dur_ns, end_ns - events.start_ns)
        events.start_ns += self._base_ns
        columns = {name: np.array(c, dtype=_TYPES[name]) for name, c in common.items()}
        part = _Part(events.start_ns, dur_ns, _correlation(events), events.label, columns)
        self._parts.append(part)

    def sizes_from_calls(self) -> None:
        """Copies that lack a direction or size take those of the call that made them (ROCm).

        A call that copies is a launch, not a copy: what it copies is no property of its own.
        """
        ids, *details = self._copying_calls()
        for part in self._parts:
            is_call = part.looks["kind"] < Kind.KERNEL
            for name, null in _OF_COPIES:
                part.looks[name][is_call] = null
        for part in self._parts if len(ids) else ():
            _complete(part, ids, details)
        blits = np.fromiter(self._blits, dtype=np.int64)
        for part in self._parts if len(blits) else ():
            _stay_within(part, blits)

    def _copying_calls(self) -> list[Ints]:
        """Correlation ids of calls that copy, ascending, and what they copy; `_OF_COPIES`."""
        found = []
        for part in self._parts:
            copies = (part.looks["kind"] < Kind.KERNEL) & (part.looks["copy"] != Copy.NONE)
            rows = part.rows(copies)
            rows = rows[part.correlation[rows] != NULL]
            looks = part.group[rows]
            found.append([part.correlation[rows], *(part.looks[n][looks] for n, _ in _OF_COPIES)])
        columns = [np.concatenate(c) for c in zip(*found, strict=True)]
        # Of calls with the same id the last one counts.
        ids, last = np.unique(columns[0][::-1], return_index=True)
        return [ids, *(column[::-1][last] for column in columns[1:])]

    def finish(self) -> None:
        """Hand the slices over, in their order: until then, little of each is held."""
        if not self._parts:
            return
        every = _joined(self._parts)
        every.put_in_order()
        times = {name: getattr(every, name) for name in _EACH}
        self.builder.slices_from(times | {name: every.column(name) for name in every.looks})
        self.builder.health.events_kept += len(every.group)

    @property
    def copies_with_bytes(self) -> bool:
        """Whether any copy carries its size."""
        return any(_copies_with_bytes(part) for part in self._parts)


def _joined(parts: list[_Part]) -> _Part:
    """Slices one behind another; of several parts nothing is left."""
    if len(parts) == 1:
        return parts[0]
    changed = {name for part in parts for name in part.changed}
    columns = {name: np.concatenate([part.column(name) for part in parts]) for name in changed}
    count = 0
    for part in parts:
        part.group = part.group + np.int32(count)
        count += len(part.looks["kind"])
    looks = {name: np.concatenate([part.looks[name] for part in parts]) for name in parts[0].looks}
    start_ns, dur_ns, correlation, group = (_drained(parts, name) for name in (*_EACH, "group"))
    return _Part(start_ns, dur_ns, correlation, group, looks, columns)


def _drained(parts: list[_Part], name: str) -> Ints:
    """A column of all parts, which they no longer hold."""
    column: Ints = np.concatenate([getattr(part, name) for part in parts])
    for part in parts:
        setattr(part, name, column[:0].copy())  # a view would hold all of it
    return column


def _complete(part: _Part, ids: Ints, details: Sequence[Ints]) -> None:
    """Give the copies of a part the details of their calls, where they lack them."""
    copies = part.rows(part.looks["kind"] == Kind.MEMCPY)
    of_copies = part.correlation[copies]
    place = np.minimum(np.searchsorted(ids, of_copies), len(ids) - 1)
    linked = ids[place] == of_copies
    copies, place = copies[linked], place[linked]
    for (name, null), of_calls in zip(_OF_COPIES, details, strict=True):
        lacking = part.looks[name][part.group[copies]] == null
        if lacking.any():
            column = np.array(part.column(name))
            column[copies[lacking]] = of_calls[place[lacking]]
            part.changed[name] = column


def _stay_within(part: _Part, blits: Ints) -> None:
    """Copies by kernels of ROCm's runtime are within the device where no call says otherwise.

    Args:
        part: The slices.
        blits: Names of such kernels.
    """
    copies = part.rows(np.isin(part.looks["name"], blits))
    column = np.array(part.column("copy"))
    copies = copies[column[copies] == Copy.NONE]
    if len(copies):
        column[copies] = Copy.D2D
        part.changed["copy"] = column


def _copies_with_bytes(part: _Part) -> bool:
    is_copy = part.looks["kind"] == Kind.MEMCPY
    if "bytes" in part.changed:
        return bool((part.changed["bytes"][part.rows(is_copy)] != NULL).any())
    return bool((is_copy & (part.looks["bytes"] != NULL)).any())


def _correlation(events: Events) -> Ints:
    found = events.ids.get(CORRELATION)
    return np.broadcast_to(missing_id(CORRELATION), len(events)) if found is None else found
