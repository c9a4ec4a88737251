"""Instructions of a compiled program that copy a whole buffer, of which a part is then changed.

XLA changes an array in place where nothing else needs its old values. The argument of a function
that is not donated is such a value: the compiler copies it before the change.

Source: `CopyInsertion` in xla/service/copy_insertion.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from stepwhy.read.formats.xplane.hlo import Computation, Instruction, Module

# Instructions that pass their only operand on, in the same memory.
_SAME = frozenset({"bitcast", "copy-done", "get-tuple-element", "optimization-barrier"})
_DEEPEST = 64  # instructions behind each other that pass an array on or write into it
_WINDOW = 0.5  # of an array is moved within it; below it, it is rather a part of another one


class Rewrite(NamedTuple):
    """A copy of a buffer.

    Args:
        copied_bytes: Size of the buffer.
        changed_bytes: Bytes that are then changed in the copy.
        operation: What changes them: 'scatter', 'dynamic-update-slice' or 'concatenate'.
        of_argument: Whether the buffer is an argument of the program.
    """

    copied_bytes: int
    changed_bytes: int
    operation: str
    of_argument: bool


class _Change(NamedTuple):
    """What a program writes into a buffer: bytes, and by what; 0 and '' for nothing."""

    bytes: int = 0
    operation: str = ""

    def __add__(self, other: tuple[Any, ...]) -> _Change:
        """Both changes together."""
        return _Change(self.bytes + other[0], self.operation or other[1])

    def times(self, count: int) -> _Change:
        """A change that is made several times."""
        return _Change(self.bytes * count, self.operation)


def rewrites_of(module: Module) -> dict[str, Rewrite]:
    """The copies by name of the instruction.

    Raises:
        KeyError: The program is damaged.
    """
    found = {}
    for key, computation in module.running():
        is_entry = key == module.entry
        for id_, instruction in computation.instructions.items():
            source = _copied(module, computation, instruction)
            if source is None:
                source, change = _moved(module, computation, id_, instruction)
            else:
                change = _change(module, computation, id_, 0)
            size = 0 if source is None else computation[source].shape.bytes
            if source is not None and 0 < change.bytes < size:
                of_argument = is_entry and _origin(computation, source).opcode == "parameter"
                found[instruction.name] = Rewrite(size, *change, of_argument)
    return found


def _copied(module: Module, computation: Computation, instruction: Instruction) -> int | None:
    """What an instruction copies; None for one that computes, or changes the layout."""
    if instruction.opcode in {"copy", "copy-start"}:
        source = instruction.operands[0]
        is_start = instruction.opcode == "copy-start"  # its shape is a tuple
        return source if is_start or computation[source].shape == instruction.shape else None
    if instruction.opcode != "fusion":
        return None
    fused = module.computation(instruction.called[0])
    root = fused[fused.root]
    if root.opcode != "copy" or fused[root.operands[0]].opcode != "parameter":
        return None
    inner = fused[root.operands[0]]
    return instruction.operands[inner.number] if inner.shape == root.shape else None


def _origin(computation: Computation, id_: int) -> Instruction:
    """The instruction that made an array, behind those that pass it on."""
    while computation[id_].opcode in _SAME:
        id_ = computation[id_].operands[0]
    return computation[id_]


def _change(module: Module, computation: Computation, id_: int, depth: int) -> _Change:
    """What the instructions behind an array write into it."""
    known = module.derived.get((id(computation), id_))
    if isinstance(known, _Change):
        return known
    total = _Change()
    for user, position in computation.users.get(id_, ()):
        total += _written(module, computation, user, position, depth)
    module.derived[id(computation), id_] = total
    return total


def _written(
    module: Module, computation: Computation, user: int, position: int, depth: int
) -> _Change:
    """What an instruction that reads an array writes into it, itself or further behind.

    Args:
        module: The program.
        computation: The computation of both.
        user: The instruction.
        position: Place of the array among its operands.
        depth: Number of instructions before it.
    """
    instruction = computation[user]
    if depth > _DEEPEST:
        return _Change()
    if instruction.opcode in _SAME:
        return _change(module, computation, user, depth + 1)
    size = _update_bytes(computation, instruction, position)
    if size is not None:
        return _apply_later(module, computation, user, _Change(size, instruction.opcode), depth)
    if instruction.opcode in {"fusion", "call"}:
        inner = module.computation(instruction.called[0])
        change = _change(module, inner, inner.parameters[position], depth + 1)
        return _apply_later(module, computation, user, change, depth)
    if instruction.opcode == "tuple":
        return _element_change(module, computation, user, position, depth)
    return _Change()


def _apply_later(
    module: Module, computation: Computation, id_: int, change: _Change, depth: int
) -> _Change:
    """A change with those that later instructions make to its result."""
    return change + _change(module, computation, id_, depth + 1) if change.bytes else change


def _update_bytes(computation: Computation, instruction: Instruction, position: int) -> int | None:
    """Bytes that an instruction writes into its operand; None if it does not write into it."""
    operands = instruction.operands
    if instruction.opcode == "dynamic-update-slice" and position == 0:
        return computation[operands[1]].shape.bytes
    arrays = len(operands) // 2  # as many arrays as updates, with the indices between them
    if instruction.opcode == "scatter" and position < arrays:
        return computation[operands[arrays + 1 + position]].shape.bytes
    return None


def _element_change(
    module: Module, computation: Computation, id_: int, index: int, depth: int
) -> _Change:
    """What is written into an element of a tuple; nothing by loops of unknown length.

    Args:
        module: The program.
        computation: The computation with the tuple.
        id_: The tuple.
        index: Number of the element.
        depth: Number of instructions before it.
    """
    known = module.derived.get((id(computation), id_, index))
    if isinstance(known, _Change):
        return known
    total = _Change()
    for user, position in computation.users.get(id_, ()) if depth <= _DEEPEST else ():
        instruction = computation[user]
        if instruction.opcode == "get-tuple-element" and instruction.number == index:
            total += _change(module, computation, user, depth + 1)
        elif instruction.opcode == "call" or instruction.trips is not None:
            for called in instruction.called:
                inner = module.computation(called)
                within = _element_change(
                    module, inner, inner.parameters[position], index, depth + 1
                )
                total += within.times(instruction.trips or 1)
            total += _element_change(module, computation, user, index, depth + 1)
    module.derived[id(computation), id_, index] = total
    return total


def _moved(
    module: Module, computation: Computation, id_: int, instruction: Instruction
) -> tuple[int | None, _Change]:
    """The array that is moved within a new one of the same shape, and what else goes into it.

    That is how `jnp.concatenate([buffer[1:], row])` and `jnp.roll` are compiled.
    """
    inner, root, arguments = computation, instruction, None
    if instruction.opcode == "fusion":
        inner = module.computation(instruction.called[0])
        root, arguments = _origin(inner, inner.root), instruction.operands
    if root.opcode != "concatenate":
        return None, _Change()
    moved, source, rest = 0, None, 0
    for operand in root.operands:
        part = _origin(inner, operand)
        of = inner[part.operands[0]] if part.opcode == "slice" else None
        if of is not None and of.shape == root.shape and of.opcode == "parameter":
            moved += part.shape.bytes
            source = part.operands[0] if arguments is None else arguments[of.number]
        else:
            rest += inner[operand].shape.bytes
    if source is None or moved < _WINDOW * root.shape.bytes:
        return None, _Change()
    change = _change(module, computation, id_, 0)
    return source, _Change(rest + change.bytes, "concatenate")
