"""Log the tables of a traced function whose gradients the program turns into dense tensors.

A step looks up some rows of a table, so that its gradient has only these (`tf.IndexedSlices`). It
becomes a tensor as large as the table where the program takes it for one, as in `tf.where`, or
looks rows up in what it computes from the table. What optimizers of Keras do with it is seen in
their operations.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from math import prod
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.tf2.tracing_notes import notes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from stepwhy.record.core.recorder import Recorder

    LineOf = Callable[[int, Any], str]

_LEAST_ELEMENTS = 1 << 18  # of a table; smaller ones take little time
_MOST_TABLES, _MOST_PARTS = 8, 32
_MOST_NODES = 20_000  # of a graph, for each of which a stack is read; that takes 15 us
_GATHERS = frozenset({"ResourceGather", "GatherV2", "Gather"})
_PASSES = frozenset({"Identity", "Cast", "ReadVariableOp"})
_NO_WORK = frozenset({"VariableShape", "Shape", "Const", "NoOp"})
_DENSIFIES = "UnsortedSegmentSum"
_OF_KERAS = ("keras/src/optimizers/", "keras/optimizers/")
_UNKNOWN = 32  # rows that stand for an unknown number


class Table:
    """A variable of which rows are looked up.

    Attributes:
        shape: Its rows and what each consists of.
        lookups: Numbers of rows that a step looks up, for each example if `per_example`.
        per_example: Whether the number of examples is unknown.
        first: Number of the node that first looks rows up.
        is_read: Whether the forward pass uses it otherwise, so that its gradient is dense anyway.
        is_computed: Whether rows are looked up in what is computed from it.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.lookups = self.first = 0
        self.per_example = self.is_read = self.is_computed = False


def log_dense_tables(function: Any, line_in: Callable[[Any], LineOf], recorder: Recorder) -> None:
    """Log tables with dense gradients, and the lines that compute with them; never raises.

    A table is the event 'dense-table': its name is the shape, its source the line that looks rows
    up, its count how many. The reason has the words 'per-example' if the count is that, and
    'computed' if rows are looked up in what is computed from the table. The event
    'dense-table-work' has the type of operations at a line; its reason is the share of their
    elements that is of tables, 0..1.

    Args:
        function: A concrete function that has just been traced.
        line_in: Returns, for a graph, a function from a node's number and operation to its line.
        recorder: Writes the events.
    """
    with contextlib.suppress(Exception):
        graph = function.graph
        begins = notes_of(graph).gradients
        operations = graph.get_operations() if begins else ()
        if not 0 < len(operations) <= _MOST_NODES:
            return
        tables = _looked_up(graph, operations[: begins[0][0]])
        shapes = {table.shape for table in tables.values()}
        if not any(_densifies(each, shapes) for each in operations[begins[0][0] :]):
            return
        line_of = line_in(graph)
        lines = [line_of(number, each) for number, each in enumerate(operations)]
        now = now_ns()
        for table in itertools.islice(tables.values(), _MOST_TABLES):
            shape = "x".join(map(str, table.shape))
            words = ["per-example"] * table.per_example + ["computed"] * table.is_computed
            recorder.event("dense-table", name=shape, source=lines[table.first],
                           reason=" ".join(words), count=table.lookups,
                           start_ns=now, end_ns=now)  # fmt: skip
        for line, kind, share in _parts(operations, lines, shapes):
            recorder.event("dense-table-work", name=kind, source=line, reason=f"{share:.3f}",
                           start_ns=now, end_ns=now)  # fmt: skip


def _looked_up(graph: Any, forward: Sequence[Any]) -> dict[str, Table]:
    """The large tables of which the forward pass only looks rows up, by their placeholder."""
    handles = {id(each.handle): tuple(each.shape) for each in graph.variables}
    tables = {
        inside.op.name: Table(shape)
        for outside, inside in graph.captures
        if len(shape := handles.get(id(outside), ())) > 1 and prod(shape) >= _LEAST_ELEMENTS
    }
    known = dict(tables)  # and the operations that pass a table on
    for number, operation in enumerate(forward if tables else ()):
        sources = [known.get(each.op.name) for each in operation.inputs]
        table = next(filter(None, sources), None)
        if table is None or operation.type in _NO_WORK:
            continue
        if operation.type in _PASSES:
            known[operation.name] = table
        elif operation.type in _GATHERS and sources[:1] == [table]:
            table.first = table.first or number
            _add_lookups(table, operation)
        elif _shape_of(operation) == table.shape:
            known[operation.name], table.is_computed = table, True
        else:
            table.is_read = True
    return {name: one for name, one in tables.items() if one.lookups and not one.is_read}


def _add_lookups(table: Table, gather: Any) -> None:
    indices = gather.inputs[1].shape.as_list()
    table.per_example |= None in indices
    table.lookups += prod(1 if size is None else size for size in indices)


def _parts(
    operations: Sequence[Any], lines: Sequence[str], shapes: set[tuple[int, ...]]
) -> Iterator[tuple[str, str, float]]:
    """Line, type, and share of tables of what computes with whole tables.

    Args:
        operations: The nodes of the graph.
        lines: Their lines.
        shapes: Shapes of the tables.
    """
    whole: Counter[tuple[str, str]] = Counter()
    of_tables: Counter[tuple[str, str]] = Counter()
    for operation, line in zip(operations, lines, strict=True):
        if operation.type in _NO_WORK or operation.type in _PASSES:
            continue
        shape = _shape_of(operation)
        key = line, operation.type
        elements = _elements(shape)
        whole[key] += elements
        of_tables[key] += elements if shape in shapes else 0
    for key, elements in of_tables.most_common(_MOST_PARTS):
        if elements:
            yield *key, elements / whole[key]


def _shape_of(operation: Any) -> tuple[int | None, ...]:
    """The largest shape of what an operation computes, else of what it reads; () if unknown."""
    values = operation.outputs or operation.inputs
    known = [each.shape.as_list() for each in values if each.shape.rank is not None]
    return tuple(max(known, key=_elements, default=()))


def _elements(shape: Iterable[int | None]) -> int:
    return prod(_UNKNOWN if size is None else size for size in shape)


def _densifies(operation: Any, shapes: set[tuple[int, ...]]) -> bool:
    """Whether an operation turns the gradient of a table into a tensor, and not for Keras."""
    if operation.type != _DENSIFIES or _shape_of(operation) not in shapes:
        return False
    files = (frame.filename.replace("\\", "/") for frame in operation.traceback or ())
    return not any(part in file for file in files for part in _OF_KERAS)
