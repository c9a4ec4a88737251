"""Collects the slices of host and device planes as columns.

Most slices share everything but their times with many others. These shared values are stored once,
as a template.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from stepwhy.base.columns.chunks import take
from stepwhy.base.columns.narrow import narrowed
from stepwhy.base.columns.order import parents_first
from stepwhy.read.formats.xplane.events import CORRELATION, missing_id
from stepwhy.read.shared.cuda import kernel_copy
from stepwhy.trace import NULL, Copy, Kind, Phase
from stepwhy.trace.schema import NARROW_COLUMNS, columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.base.columns.types import AnyInts
    from stepwhy.read.formats.xplane.events import Events
    from stepwhy.read.formats.xplane.unneeded import Unneeded
    from stepwhy.trace import TraceBuilder


# Dtypes of the schema, so that nothing is converted later.
_TYPES = {column.name: column.dtype for column in columns_of("slices")}
# Columns that differ between slices of one template.
_EACH = ("start_ns", "dur_ns", "correlation")
_OF_COPIES = (("copy", int(Copy.NONE)), ("bytes", NULL), ("pageable", NULL))


class SliceTemplate(NamedTuple):
    """Values that many slices share; each is a column of the schema.

    Args:
        track: Row of the track.
        kind: Kind of the slices.
        name: Name of the slices.
        source: Source line, '' for none.
        phase: Phase, if it is known.
        copy: Direction of a copy.
        bytes: Bytes moved.
        pageable: 1 pageable, 0 pinned, -1 not recorded.
    """

    track: int
    kind: Kind
    name: str
    source: str = ""
    phase: Phase = Phase.UNKNOWN
    copy: Copy = Copy.NONE
    bytes: int = NULL
    pageable: int = NULL


class _Block(msgspec.Struct, eq=False):
    """Slices that were added together.

    Args:
        start_ns: Starts; (slices,).
        dur_ns: Durations; (slices,).
        correlation: Correlation ids; (slices,).
        template: Row of every slice's template; (slices,).
        templates: Columns of the templates; (templates,) each.
        changed: Columns in which slices differ from their template; (slices,) each.
        unneeded: Why slices are not needed, by row of the template.
    """

    start_ns: AnyInts
    dur_ns: AnyInts
    correlation: AnyInts
    template: AnyInts
    templates: dict[str, AnyInts]
    changed: dict[str, AnyInts] = msgspec.field(default_factory=dict)
    unneeded: dict[int, Unneeded] = msgspec.field(default_factory=dict)

    def column(self, name: str) -> AnyInts:
        """A column of all slices; takes no memory if all templates agree."""
        if name in self.changed:
            return self.changed[name]
        values = self.templates[name]
        if (values == values[0]).all():
            return np.broadcast_to(values[0], len(self.template))
        return take(narrowed(values) if name in NARROW_COLUMNS else values, self.template)

    def put_in_order(self) -> None:
        """Sort the slices into the order of the schema."""
        order = parents_first(self.start_ns, self.dur_ns)
        if order is None:
            return
        for name in (*_EACH, "template"):
            setattr(self, name, take(getattr(self, name), order))
        self.changed = {name: take(column, order) for name, column in self.changed.items()}

    def rows(self, chosen: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Rows of the slices with one of the chosen templates."""
        return np.flatnonzero(chosen[self.template]) if chosen.any() else np.empty(0, dtype=np.intp)


class SliceTable:
    """Collects slices and passes them to the builder.

    Args:
        builder: Receives devices, tracks and slices.
        base_ns: Start of the profiling session on the epoch clock, 0 where it is not recorded.
    """

    def __init__(self, builder: TraceBuilder, base_ns: int) -> None:
        self.builder = builder
        self.kinds: set[Kind] = set()
        self._base_ns = base_ns
        self._blocks: list[_Block] = []
        self._blits: set[int] = set()

    def add(
        self,
        events: Events,
        templates: Sequence[SliceTemplate],
        end_ns: AnyInts | None = None,
        unneeded: Sequence[Unneeded | None] = (),
    ) -> None:
        """Append one slice for every event.

        Args:
            events: The events; their columns are reused.
            templates: The template of every label of the events.
            end_ns: End of every event, used where it is later than the recorded end.
            unneeded: Why each label is not needed; nothing is known for an empty sequence.
        """
        if not len(events):
            return
        self.kinds.update(template.kind for template in templates)
        intern = self.builder.intern
        blits = (template for template in templates if kernel_copy(template.name) is not Copy.NONE)
        self._blits.update(intern(template.name) for template in blits)
        common = {
            "track": [template.track for template in templates],
            "kind": [int(template.kind) for template in templates],
            "name": [intern(template.name) for template in templates],
            "source": [
                intern(template.source) if template.source else NULL for template in templates
            ],
            "phase": [int(template.phase) for template in templates],
            "copy": [int(template.copy) for template in templates],
            "pageable": [template.pageable for template in templates],
            "bytes": [template.bytes for template in templates],
        }
        dur_ns = events.dur_ns
        if end_ns is not None:
            dur_ns = np.maximum(dur_ns, end_ns - events.start_ns)
        events.start_ns += self._base_ns
        columns = {name: np.array(c, dtype=_TYPES[name]) for name, c in common.items()}
        found = events.ids.get(CORRELATION)
        correlation = (
            np.broadcast_to(missing_id(CORRELATION), len(events)) if found is None else found
        )
        block = _Block(events.start_ns, dur_ns, correlation, events.label, columns)
        block.unneeded = {label: why for label, why in enumerate(unneeded) if why is not None}
        self._blocks.append(block)

    def fill_copy_details(self) -> None:
        """Give copies without a direction or size those of the call that launched them (ROCm).

        The launching calls themselves lose direction and size, because they are not copies.
        """
        ids, *details = self._copying_calls()
        for block in self._blocks:
            is_call = block.templates["kind"] < Kind.KERNEL
            for name, null in _OF_COPIES:
                block.templates[name][is_call] = null
        for block in self._blocks if len(ids) else ():
            _complete(block, ids, details)
        blits = np.fromiter(self._blits, dtype=np.int64)
        for block in self._blocks if len(blits) else ():
            _mark_blits(block, blits)

    def _copying_calls(self) -> list[AnyInts]:
        """Ascending correlation ids of calls that copy, and their columns `_OF_COPIES`."""
        found = []
        for block in self._blocks:
            copies = (block.templates["kind"] < Kind.KERNEL) & (
                block.templates["copy"] != Copy.NONE
            )
            rows = block.rows(copies)
            rows = rows[block.correlation[rows] != NULL]
            templates = block.template[rows]
            found.append(
                [block.correlation[rows], *(block.templates[n][templates] for n, _ in _OF_COPIES)]
            )
        columns = [np.concatenate(c) for c in zip(*found, strict=True)]
        # The last of several calls with one id counts.
        ids, last = np.unique(columns[0][::-1], return_index=True)
        return [ids, *(column[::-1][last] for column in columns[1:])]

    def finish(self) -> None:
        """Pass all slices to the builder, in the order of the schema."""
        if not self._blocks:
            return
        every = _joined(self._blocks)
        every.put_in_order()
        times = {name: getattr(every, name) for name in _EACH}
        self.builder.slices_from(times | {name: every.column(name) for name in every.templates})
        for template, why in every.unneeded.items():
            for row in np.flatnonzero(every.template == template).tolist():
                why.add_to(self.builder, row)
        self.builder.health.events_kept += len(every.template)

    @property
    def copies_with_bytes(self) -> bool:
        """Whether any copy carries its size."""
        return any(_copies_with_bytes(block) for block in self._blocks)


def _joined(blocks: list[_Block]) -> _Block:
    """Concatenate blocks; empties them if there are several."""
    if len(blocks) == 1:
        return blocks[0]
    changed = {name for block in blocks for name in block.changed}
    columns = {name: np.concatenate([block.column(name) for block in blocks]) for name in changed}
    count, unneeded = 0, {}
    for block in blocks:
        block.template = block.template + np.int32(count)
        unneeded.update({count + row: why for row, why in block.unneeded.items()})
        count += len(block.templates["kind"])
    templates = {
        name: np.concatenate([block.templates[name] for block in blocks])
        for name in blocks[0].templates
    }
    start_ns, dur_ns, correlation, template = (
        _drained(blocks, name) for name in (*_EACH, "template")
    )
    return _Block(start_ns, dur_ns, correlation, template, templates, columns, unneeded)


def _drained(blocks: list[_Block], name: str) -> AnyInts:
    """Concatenate a column of all blocks, and remove it from them."""
    column: AnyInts = np.concatenate([getattr(block, name) for block in blocks])
    for block in blocks:
        setattr(block, name, column[:0].copy())  # a view would keep the whole column alive
    return column


def _complete(block: _Block, ids: AnyInts, details: Sequence[AnyInts]) -> None:
    """Fill in missing details of copies from the calls that launched them."""
    copies = block.rows(block.templates["kind"] == Kind.MEMCPY)
    of_copies = block.correlation[copies]
    place = np.minimum(np.searchsorted(ids, of_copies), len(ids) - 1)
    linked = ids[place] == of_copies
    copies, place = copies[linked], place[linked]
    for (name, null), of_calls in zip(_OF_COPIES, details, strict=True):
        lacking = block.templates[name][block.template[copies]] == null
        if lacking.any():
            column = np.array(block.column(name))
            column[copies[lacking]] = of_calls[place[lacking]]
            block.changed[name] = column


def _mark_blits(block: _Block, blits: AnyInts) -> None:
    """Mark copies by kernels of ROCm's runtime as device-to-device, if no call says otherwise.

    Args:
        block: The slices.
        blits: Names of these kernels.
    """
    copies = block.rows(np.isin(block.templates["name"], blits))
    column = np.array(block.column("copy"))
    copies = copies[column[copies] == Copy.NONE]
    if len(copies):
        column[copies] = Copy.D2D
        block.changed["copy"] = column


def _copies_with_bytes(block: _Block) -> bool:
    is_copy = block.templates["kind"] == Kind.MEMCPY
    if "bytes" in block.changed:
        return bool((block.changed["bytes"][block.rows(is_copy)] != NULL).any())
    return bool((is_copy & (block.templates["bytes"] != NULL)).any())
