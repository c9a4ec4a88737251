"""Log the tables of a traced function whose gradients the program turns into dense tensors.

A step looks up some rows of a table, so that its gradient has only these (`tf.IndexedSlices`). It
becomes a tensor as large as the table where the program takes it for one, as in `tf.where`. What
optimizers of Keras do with it is seen in their operations.
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
_GATHERS = frozenset({"ResourceGather", "GatherV2", "Gather"})
_PASSES = frozenset({"Identity", "Cast"})
# Read, or name, a variable or its shape, and compute nothing.
_NO_WORK = frozenset({"ReadVariableOp", "Identity", "VariableShape", "Shape", "Const", "NoOp"})
_DENSIFIES = "UnsortedSegmentSum"
_OF_KERAS = ("keras/src/optimizers/", "keras/optimizers/")
_UNKNOWN = 32  # rows that stand for an unknown number


class Table:
    """A variable of which rows are looked up.

    Attributes:
        shape: Its rows and what each consists of.
        lookups: Numbers of rows that a step looks up, for each example if `per_example`.
        per_example: Whether the number of examples is unknown.
        line: Line of the first lookup; '' if unknown.
        is_read: Whether the forward pass uses it otherwise, so that its gradient is dense anyway.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.lookups = 0
        self.per_example = False
        self.line = ""
        self.is_read = False


def log_dense_tables(function: Any, line_in: Callable[[Any], LineOf], recorder: Recorder) -> None:
    """Log tables with dense gradients, and the lines that compute with them; never raises.

    A table is the event 'dense-table': its name is the shape, its source the line that looks rows
    up, its count how many; the reason is 'per example' if the count is that. The event
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
        if not begins:
            return
        operations = graph.get_operations()
        tables = _looked_up(graph, operations[: begins[0][0]])
        shapes = {table.shape for table in tables.values()}
        if not any(_densifies(each, shapes) for each in operations[begins[0][0] :]):
            return
        line_of = line_in(graph)
        lines = [line_of(number, each) for number, each in enumerate(operations)]
        parts = list(_parts(operations, lines, begins[0][0], shapes))
        if parts:
            _log(recorder, tables, operations, lines, parts)


def _looked_up(graph: Any, forward: Sequence[Any]) -> dict[str, Table]:
    """The large tables of which the forward pass only looks rows up, by their placeholder."""
    handles = {id(each.handle): tuple(each.shape) for each in graph.variables}
    tables = {
        inside.op.name: Table(shape)
        for outside, inside in graph.captures
        if len(shape := handles.get(id(outside), ())) > 1 and prod(shape) >= _LEAST_ELEMENTS
    }
    for operation in forward if tables else ():
        if operation.type in _GATHERS:
            table = tables.get(_table_of(operation))
            if table is not None:
                _add_lookups(table, operation)
        elif operation.type == "ReadVariableOp":
            table = tables.get(operation.inputs[0].op.name)
            if table is not None:
                table.is_read |= any(map(_reads_all, _readers(operation, set(forward))))
    return {name: one for name, one in tables.items() if one.lookups and not one.is_read}


def _table_of(gather: Any) -> str:
    """Placeholder of the variable whose rows an operation looks up; '' for another tensor."""
    source = gather.inputs[0].op
    while source.type in _PASSES and source.inputs:
        source = source.inputs[0].op
    return str((source.inputs[0].op if source.type == "ReadVariableOp" else source).name)


def _add_lookups(table: Table, gather: Any) -> None:
    indices = gather.inputs[1].shape.as_list()
    table.per_example |= None in indices
    table.lookups += prod(1 if size is None else size for size in indices)


def _readers(operation: Any, among: set[Any]) -> Iterator[Any]:
    """What reads the value of an operation, or what passes it on."""
    for reader in itertools.chain.from_iterable(each.consumers() for each in operation.outputs):
        if reader not in among:
            continue
        if reader.type in _PASSES:
            yield from _readers(reader, among)
        else:
            yield reader


def _reads_all(reader: Any) -> bool:
    return reader.type not in _GATHERS and reader.type not in _NO_WORK


def _parts(
    operations: Sequence[Any], lines: Sequence[str], begin: int, shapes: set[tuple[int, ...]]
) -> Iterator[tuple[str, str, float]]:
    """Line, type, and share of tables of what computes with whole tables, after the forward pass.

    Args:
        operations: The nodes of the graph.
        lines: Their lines.
        begin: Number of the first node that is not of the forward pass.
        shapes: Shapes of the tables.
    """
    whole: Counter[tuple[str, str]] = Counter()
    of_tables: Counter[tuple[str, str]] = Counter()
    for number, operation in enumerate(operations[begin:], begin):
        if operation.type in _NO_WORK:
            continue
        shape = _shape_of(operation)
        key = lines[number], operation.type
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


def _log(
    recorder: Recorder,
    tables: dict[str, Table],
    operations: Sequence[Any],
    lines: Sequence[str],
    parts: Sequence[tuple[str, str, float]],
) -> None:
    for operation, line in zip(operations, lines, strict=True):
        table = tables.get(_table_of(operation)) if operation.type in _GATHERS else None
        if table is not None:
            table.line = table.line or line
    now = now_ns()
    for table in list(tables.values())[:_MOST_TABLES]:
        shape = "x".join(map(str, table.shape))
        reason = "per example" if table.per_example else ""
        recorder.event("dense-table", name=shape, source=table.line, reason=reason,
                       count=table.lookups, start_ns=now, end_ns=now)  # fmt: skip
    for line, kind, share in parts:
        recorder.event("dense-table-work", name=kind, source=line, reason=f"{share:.3f}",
                       start_ns=now, end_ns=now)  # fmt: skip


def _densifies(operation: Any, shapes: set[tuple[int, ...]]) -> bool:
    """Whether an operation turns the gradient of a table into a tensor, and not for Keras."""
    if operation.type != _DENSIFIES or _shape_of(operation) not in shapes:
        return False
    files = (frame.filename.replace("\\", "/") for frame in operation.traceback or ())
    return not any(part in file for file in files for part in _OF_KERAS)
