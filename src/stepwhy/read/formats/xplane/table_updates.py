"""Instructions that work on a whole table for a gradient that has some of its rows.

The gradient of a lookup in a table is a scatter of the batch's rows into zeros of the size of the
table. An optimizer that computes with it works on all rows. Where something else adds to the
gradient, such as a product with the same table, it has all rows anyway.

Source: `_gather_transpose_rule` of jax/_src/lax/slicing.py.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.read.formats.xplane.hlo import TUPLE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from stepwhy.read.formats.xplane.hlo import Computation, Instruction, Module

# Instructions that pass their only operand on.
_SAME = frozenset(
    {"bitcast", "copy", "copy-start", "copy-done", "get-tuple-element", "optimization-barrier"}
)
# Instructions by which an optimizer computes with its state.
_ELEMENTWISE = frozenset(
    {
        "abs", "add", "broadcast", "compare", "constant", "convert", "divide", "exponential",
        "fusion", "log", "maximum", "minimum", "multiply", "negate", "power", "rsqrt", "select",
        "sign", "sqrt", "subtract",
    }
)  # fmt: skip
_DEEPEST = 64  # of them behind each other
_MOST_GRADIENTS = 64  # of one computation; a model has a few tables
_INSIDE = -1


class TableUpdate(NamedTuple):
    """Work on a whole table.

    Args:
        table_bytes: Size of the table.
        used_bytes: Size of the rows in the gradient.
    """

    table_bytes: int
    used_bytes: int


class _Gradient(NamedTuple):
    """A gradient of some rows of a table.

    Args:
        zeros: Id of the instruction that makes the zeros, `_INSIDE` if the scatter does so itself.
        sizes: Size of the table in each dimension.
        update: Sizes of the table and of the rows.
        whole: Ids of the instructions with results of the table's size that depend on it.
        others: Ids of others that read those.
    """

    zeros: int
    sizes: tuple[int, ...]
    update: TableUpdate
    whole: set[int]
    others: set[int]


def updates_of(module: Module) -> dict[str, TableUpdate]:
    """The instructions by name.

    Raises:
        KeyError: The program is damaged.
    """
    found: dict[str, TableUpdate] = {}
    for _, computation in module.running():
        gradients = dict(islice(_gradients(module, computation), _MOST_GRADIENTS))
        for gradient in gradients.values():
            if not _updates_argument(computation, gradient, gradients):
                continue
            joined = [g.update for g in gradients.values() if g.whole & gradient.whole]
            used = sum(update.used_bytes for update in joined)
            ids = gradient.whole | gradient.others | ({gradient.zeros} - {_INSIDE})
            update = gradient.update._replace(used_bytes=used)
            found |= {computation[id_].name: update for id_ in ids}
    return found


def _gradients(module: Module, computation: Computation) -> Iterator[tuple[int, _Gradient]]:
    """The scatters of rows into zeros by their ids."""
    for id_, instruction in computation.instructions.items():
        inner = computation
        if instruction.opcode == "fusion":
            inner = module.computation(instruction.called[0])
        elif instruction.opcode != "scatter":
            continue
        scatter = _scatter(module, inner, instruction)
        if scatter is None:
            continue
        zeros = _zeros(module, computation, instruction, inner, scatter.operands[0])
        table, rows = (inner[scatter.operands[n]].shape for n in (0, 2))
        if zeros is not None and 0 < rows.bytes < table.bytes:
            update = TableUpdate(table.bytes, rows.bytes)
            whole, others = _dependents(computation, id_, table.sizes)
            yield id_, _Gradient(zeros, table.sizes, update, whole, others)


def _scatter(module: Module, inner: Computation, instruction: Instruction) -> Instruction | None:
    """The scatter that an instruction is, or contains, if it adds rows to one array."""
    each = [instruction] if instruction.opcode == "scatter" else inner.instructions.values()
    found = next((i for i in each if i.opcode == "scatter"), None)
    # It reads the array, the places and the rows, and calls what combines two values.
    if found is None or len(found.operands) != 3 or not found.called:
        return None
    combined = module.computation(found.called[0])
    return found if combined[combined.root].opcode == "add" else None


def _zeros(
    module: Module, outer: Computation, instruction: Instruction, inner: Computation, id_: int
) -> int | None:
    """Id of the instruction that makes an array of zeros; None if it is another array.

    Args:
        module: The program.
        outer: The computation of the instruction.
        instruction: The scatter, or a fusion with it.
        inner: The computation of the scatter.
        id_: The array.
    """
    id_ = _source(inner, id_)
    if inner is not outer:
        if inner[id_].opcode != "parameter":
            return _INSIDE if _is_filled(module, inner, id_) else None
        id_ = _source(outer, instruction.operands[inner[id_].number])
    return id_ if _is_filled(module, outer, id_) else None


def _is_filled(module: Module, computation: Computation, id_: int) -> bool:
    """Whether all elements of an array are the same constant."""
    instruction = computation[id_]
    if instruction.opcode == "fusion":
        inner = module.computation(instruction.called[0])
        if inner[_source(inner, inner.root)].opcode != "broadcast":
            return False
    elif instruction.opcode != "broadcast":
        return False
    sources = (_source(computation, operand) for operand in instruction.operands)
    return all(computation[source].opcode == "constant" for source in sources)


def _source(computation: Computation, id_: int) -> int:
    """The instruction that makes a value, behind those that pass it on."""
    while computation[id_].opcode in _SAME:
        id_ = computation[id_].operands[0]
    return id_


def _dependents(
    computation: Computation, start: int, sizes: tuple[int, ...]
) -> tuple[set[int], set[int]]:
    """Instructions that depend on one: with results of some size, and others that read those."""
    whole, others, waiting = {start}, set[int](), [start]
    while waiting:
        for user, _ in computation.users.get(waiting.pop(), ()):
            # A fusion with several results has a tuple of them, which has no size.
            shape = computation[user].shape
            has_several = computation[user].opcode == "fusion" and shape.type == TUPLE
            if not has_several and shape.sizes != sizes:
                others.add(user)
            elif user not in whole:
                whole.add(user)
                waiting.append(user)
    return whole, others


def _updates_argument(
    computation: Computation, gradient: _Gradient, gradients: Collection[int]
) -> bool:
    """Whether a gradient changes an argument of the program, and nothing adds other rows to it."""
    sizes = gradient.sizes
    read = {
        operand
        for id_ in gradient.whole
        for operand in computation[id_].operands
        if operand not in gradient.whole and computation[operand].shape.sizes == sizes
    }
    read -= {gradient.zeros, *gradients}
    known: dict[int, bool] = {}
    if not all(_is_state(computation, id_, sizes, known) for id_ in read):
        return False
    is_returned = computation.root in gradient.whole | gradient.others
    return is_returned and any(
        computation[_source(computation, id_)].opcode == "parameter" for id_ in read
    )


def _is_state(
    computation: Computation,
    id_: int,
    sizes: tuple[int, ...],
    known: dict[int, bool],
    depth: int = 0,
) -> bool:
    """Whether a value is made of arguments of some size, and of numbers.

    Args:
        computation: The computation.
        id_: The value.
        sizes: The size.
        known: The values that were asked for, which may be reached in many ways.
        depth: Number of instructions behind it.
    """
    if id_ not in known:
        instruction, shape = computation[_source(computation, id_)], computation[id_].shape
        known[id_] = instruction.opcode == "parameter" or not shape.sizes
        if shape.sizes == sizes and instruction.opcode in _ELEMENTWISE and depth < _DEEPEST:
            known[id_] = all(
                _is_state(computation, each, sizes, known, depth + 1)
                for each in instruction.operands
            )
    return known[id_]
