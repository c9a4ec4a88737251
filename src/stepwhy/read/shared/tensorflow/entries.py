"""Entries of step statistics, collected as columns."""

from __future__ import annotations

from array import array
from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepwhy.base.columns.chunks import CHUNK, put, take
from stepwhy.base.columns.groups import distinct_rows, rows_by_group
from stepwhy.base.columns.growing import BufferedColumn
from stepwhy.base.columns.lanes import assign_lanes
from stepwhy.read.shared.tensorflow.ops import TRANSFERS
from stepwhy.read.shared.tensorflow.rows import Row, RowKind
from stepwhy.trace import NULL
from stepwhy.trace.model import among

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from stepwhy.base.columns.types import AnyInts


class Execution(NamedTuple):
    """Measurements of the executor of an op; NULL where it did not record them.

    Args:
        op_ns: Time from the start until the op itself returned.
        requested: Bytes that it requested.
        peak: Most bytes allocated at once.
        residual: Bytes still allocated when it returned.
    """

    op_ns: int
    requested: int
    peak: int
    residual: int


_NOTHING = Execution(NULL, NULL, NULL, NULL)


class Activity(NamedTuple):
    """One entry of a row.

    Args:
        row: Its row.
        op: Op type as the runtime wrote it, or the tracer's text in its place.
        node: Node name with its name scope.
        start_ns: Start on the epoch clock.
        dur_ns: Duration, not negative.
        lane: Number within the row; activities of one lane do not overlap.
        bytes: Bytes moved or produced, NULL when not recorded.
        inputs: Tensors that it reads, as 'node' or 'node:1'; empty when not recorded.
        execution: Measurements of the executor; None if it is not an op.
    """

    row: Row
    op: str
    node: str
    start_ns: int
    dur_ns: int
    lane: int = 0
    bytes: int = NULL
    inputs: tuple[str, ...] = ()
    execution: Execution | None = None

    @property
    def is_transfer(self) -> bool:
        """Whether it is a tensor that arrives from another server process."""
        return self.op in TRANSFERS


_COLUMNS = (
    "row",
    "op",
    "node",
    "start_ns",
    "dur_ns",
    "bytes",
    "reads",
    "recorded",
    *Execution._fields,
)


class Entries:
    """Activities as columns.

    Attributes:
        rows: Number of each row, in order of appearance.
        names: Number of each op, node and input node, in order of appearance.
    """

    def __init__(self, activities: Iterable[Activity] = ()) -> None:
        self.rows: dict[Row, int] = {}
        self.names: dict[str, int] = {}
        self._columns = {name: _column(name) for name in _COLUMNS}
        self._count = 0
        self._lanes = array("I")  # without the zeros at the end
        self._lists: dict[tuple[int, ...], int] = {(): 0}
        self._latest: tuple[tuple[str, ...], int] = (), 0
        for activity in activities:
            self.add(activity)

    def __len__(self) -> int:
        """Number of entries."""
        return self._count

    def add(self, activity: Activity) -> None:
        """Append an activity."""
        columns, names = self._columns, self.names
        if activity.lane:
            self._lanes.extend(repeat(0, len(self) - len(self._lanes)))
            self._lanes.append(activity.lane)
        columns["row"].append(self.rows.setdefault(activity.row, len(self.rows)))
        columns["op"].append(names.setdefault(activity.op, len(names)))
        columns["node"].append(names.setdefault(activity.node, len(names)))
        columns["start_ns"].append(activity.start_ns)
        columns["dur_ns"].append(activity.dur_ns)
        columns["bytes"].append(activity.bytes)
        columns["reads"].append(self._list(activity.inputs))
        if activity.execution is not None and activity.execution != _NOTHING:
            columns["recorded"].append(self._count)
            for name, value in zip(Execution._fields, activity.execution, strict=True):
                columns[name].append(value)
        self._count += 1
        if self._count % CHUNK == 0:
            for column in columns.values():
                column.flush()

    def _list(self, inputs: tuple[str, ...]) -> int:
        """Number of a list of inputs; consecutive runs of one node share the same tuple."""
        if inputs is not self._latest[0]:
            names = self.names
            key = tuple(names.setdefault(t.partition(":")[0], len(names)) for t in inputs)
            self._latest = inputs, self._lists.setdefault(key, len(self._lists))
        return self._latest[1]

    def pop(self, column: str) -> AnyInts:
        """As `[column]`, and free the column."""
        values = self[column]
        self._columns[column] = _column(column)
        return values

    def __getitem__(self, column: str) -> AnyInts:
        """A column by its name; (entries,) unless stated otherwise.

        The names are fields of `Activity` ('row', 'op' and 'node' are numbers of `rows` and
        `names`), and 'reads', the number of a list of `inputs`. 'recorded' lists the entries with
        an `execution`, ascending, and the fields of `Execution` are its values; (recorded,) each.
        """
        return self._columns[column].values()

    def inputs(self) -> tuple[AnyInts, AnyInts, AnyInts]:
        """The different lists of inputs.

        Returns:
            Names of the nodes that produced the inputs, list after list; (inputs,). First position
            and length of each list; (lists,) each.
        """
        counts = np.fromiter(map(len, self._lists), dtype=np.int32, count=len(self._lists))
        names = np.fromiter(chain(*self._lists), dtype=np.int32, count=int(counts.sum()))
        return names, np.cumsum(counts, dtype=np.int32) - counts, counts

    def lanes(self) -> AnyInts:
        """Recorded lane of every entry; (entries,)."""
        found: AnyInts = np.zeros(len(self), dtype=np.int64 if self._lanes else np.int32)
        found[: len(self._lanes)] = self._lanes
        return found

    def of_rows(self, values: Iterable[int]) -> NDArray[np.int32]:
        """Spread a value of each row over its entries; (entries,).

        Args:
            values: One value for each of `rows`.
        """
        return take(np.fromiter(values, dtype=np.int32, count=len(self.rows)), self["row"])

    def is_on(self, chosen: Callable[[Row], bool]) -> NDArray[np.bool_]:
        """Whether the row of each entry fulfils a condition; (entries,)."""
        flags = np.fromiter(map(chosen, self.rows), dtype=bool, count=len(self.rows))
        return take(flags, self["row"])

    def is_kind(self, *kinds: RowKind) -> NDArray[np.bool_]:
        """Whether the row of each entry is of one of the kinds; (entries,)."""
        return self.is_on(lambda row: row.kind in kinds)

    def is_transfer(self) -> NDArray[np.bool_]:
        """Whether each is a tensor that arrives from another server process; (entries,)."""
        known = [self.names[op] for op in TRANSFERS if op in self.names]
        return among(self["op"], known)

    def by_lanes(self) -> tuple[NDArray[np.int32], AnyInts]:
        """The entries ordered by row, and lanes in which they do not overlap.

        Arriving tensors get lanes of their own. Rows of waits keep the threads that were recorded.

        Returns:
            The order, and the lane of every entry; (entries,) each.
        """
        found, group = distinct_rows(self["row"], self.is_transfer())
        order, parts = rows_by_group(group, len(found))
        del group
        lanes, rows = self.lanes(), list(self.rows)
        for (row, _), members in zip(found, parts, strict=True):
            if rows[row].kind is not RowKind.SYNC:
                times = (take(self[name], members) for name in ("start_ns", "dur_ns"))
                put(lanes, members, assign_lanes(*times))
        return order, lanes


def _column(name: str) -> BufferedColumn:
    return BufferedColumn(np.int64 if name == "start_ns" else np.int8)
