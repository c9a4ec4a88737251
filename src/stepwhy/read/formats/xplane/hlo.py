"""Compiled HLO programs as graphs of instructions.

Source: xla/service/hlo.proto; `PrimitiveType` of xla/xla_data.proto.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from stepwhy.base.patterns import regex
from stepwhy.read.shared.tensorflow.graphs import text
from stepwhy.read.shared.tensorflow.messages import parse_message

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_INSTRUCTIONS = 50_000
"""Largest program that is decoded; the step of a large model has some ten thousands."""

# Bytes of an element by `PrimitiveType`; of a tuple, a token and types of less than a byte, 0.
_BYTES = {
    1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 2, 8: 4, 9: 8, 10: 2, 11: 4, 12: 8, 15: 8, 16: 2, 18: 16,
    19: 1, 20: 1, 23: 1, 24: 1, 25: 1,
}  # fmt: skip
PRED = 1
"""`PrimitiveType` of truth values."""
TUPLE = 13
"""`PrimitiveType` of tuples."""
INTEGERS = frozenset(range(1, 10))
"""`PrimitiveType` of integers and truth values."""

_TRIPS = regex(rb'"known_trip_count":\{"n":"(\d{1,9})"')
_OF_SELECTION = 3  # operands: the condition and both sides
_NO_CODE = frozenset({"fusion", "reduce", "scatter", "sort", "map", "reduce-window"})
"""Instructions whose computations are no instructions of their own when they run."""


class Shape(NamedTuple):
    """Shape of an array; empty for a tuple.

    Args:
        type: `PrimitiveType` of the elements.
        sizes: Size of each dimension.
        layout: Dimensions from minor to major.
    """

    type: int
    sizes: tuple[int, ...]
    layout: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Its size; 0 for a tuple."""
        size = _BYTES.get(self.type, 0)
        for length in self.sizes:
            size *= length
        return size


class Instruction(NamedTuple):
    """One instruction.

    Args:
        name: E.g. 'loop_fusion.3'.
        opcode: E.g. 'fusion'.
        shape: Shape of its result.
        operands: Ids of the instructions whose results it reads.
        called: Ids of the computations that it calls.
        number: Number of a parameter, or index into a tuple.
        direction: Of a comparison: 'EQ', 'LT', ...
        constant: Value of a constant of one number; None for others.
        trips: Iterations of a loop; None if unknown.
        dimensions: Of a broadcast: the dimensions of the result that its operand has.
        target: What a custom call calls; '' for others.
        op_name: Of a parameter: its name in the program, e.g. 'adj'; '' for others.
    """

    name: str
    opcode: str
    shape: Shape
    operands: tuple[int, ...]
    called: tuple[int, ...]
    number: int
    direction: str
    constant: float | None
    trips: int | None
    dimensions: tuple[int, ...]
    target: str
    op_name: str


class Computation:
    """The instructions of a computation by id, operands before what reads them.

    Args:
        message: A parsed `HloComputation`.

    Attributes:
        root: Id of the instruction with its result.

    Raises:
        KeyError: The program is damaged: an instruction reads one behind it, a selection has no
            two sides, or a parameter has an impossible number.
    """

    def __init__(self, message: Any) -> None:
        self.root: int = message.root_id
        self.instructions: dict[int, Instruction] = {}
        for each in message.instructions:
            instruction = _instruction(each)
            possible = {
                "parameter": 0 <= instruction.number < len(message.instructions),
                "select": len(instruction.operands) == _OF_SELECTION,
            }
            is_known = self.instructions.keys() >= set(instruction.operands)
            if not (is_known and possible.get(instruction.opcode, True)):
                raise KeyError(each.id)
            self.instructions[each.id] = instruction

    def __getitem__(self, key: int) -> Instruction:
        """The instruction of an id.

        Raises:
            KeyError: The program is damaged.
        """
        return self.instructions[key]

    @cached_property
    def users(self) -> dict[int, list[tuple[int, int]]]:
        """For each instruction the ids of those that read it, and the position among operands."""
        found: dict[int, list[tuple[int, int]]] = {}
        for key, instruction in self.instructions.items():
            for position, operand in enumerate(instruction.operands):
                found.setdefault(operand, []).append((key, position))
        return found

    @cached_property
    def parameters(self) -> dict[int, int]:
        """Ids of the parameters by number."""
        every = self.instructions.items()
        return {i.number: key for key, i in every if i.opcode == "parameter"}


class Module:
    """A program.

    Args:
        message: A parsed `HloModule`.

    Attributes:
        entry: Id of the computation that runs.
        derived: What was found out about instructions, by any key.
    """

    def __init__(self, message: Any) -> None:
        self.entry: int = message.entry_computation_id
        self.derived: dict[tuple[int, ...], object] = {}
        self._messages = {m.id: m for m in message.computations}
        self._places = {m.id: place for place, m in enumerate(message.computations)}
        self._computations: dict[int, Computation] = {}

    def computation(self, key: int) -> Computation:
        """The computation of an id; those that it calls come before it in the program.

        Raises:
            KeyError: The program is damaged.
        """
        if key not in self._computations:
            found, place = Computation(self._messages[key]), self._places[key]
            if any(self._places[c] >= place for i in found.instructions.values() for c in i.called):
                raise KeyError(key)
            self._computations[key] = found
        return self._computations[key]

    def running(self) -> Iterator[tuple[int, Computation]]:
        """The computations whose instructions run by themselves: the entry, bodies of loops."""
        waiting, seen = [self.entry], set[int]()
        while waiting:
            key = waiting.pop()
            if key in seen:
                continue
            seen.add(key)
            computation = self.computation(key)
            yield key, computation
            for instruction in computation.instructions.values():
                if instruction.opcode not in _NO_CODE:
                    waiting += instruction.called


def read_module(data: bytes) -> Module | None:
    """The program in a serialised `HloProto`; None if it is damaged or too large."""
    message = parse_message("HloProto", data)
    if message is None:
        return None
    computations = message.hlo_module.computations
    if sum(len(c.instructions) for c in computations) > MOST_INSTRUCTIONS:
        return None
    return Module(message.hlo_module)


def _instruction(message: Any) -> Instruction:
    opcode, shape = text(message.opcode), message.shape
    trips = _TRIPS.search(message.backend_config) if opcode == "while" else None
    return Instruction(
        text(message.name),
        opcode,
        Shape(shape.element_type, tuple(shape.dimensions), tuple(shape.layout.minor_to_major)),
        tuple(message.operand_ids),
        tuple(message.called_computation_ids),
        message.parameter_number if opcode == "parameter" else message.tuple_index,
        text(message.comparison_direction) if opcode == "compare" else "",
        _constant(message) if opcode == "constant" else None,
        int(trips[1]) if trips else None,
        tuple(message.dimensions) if opcode == "broadcast" else (),
        text(message.custom_call_target),
        text(message.metadata.op_name) if opcode == "parameter" else "",
    )


def _constant(message: Any) -> float | None:
    """Value of a constant with one number or truth value."""
    literal = message.literal
    whole = (literal.preds, literal.s32s, literal.s64s, literal.u32s, literal.u64s)
    found = [int(v[0]) for v in whole if len(v) == 1]
    found += [v[0] for v in (literal.f32s, literal.f64s) if len(v) == 1]
    return found[0] if found else None
