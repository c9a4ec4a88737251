"""Instructions of a compiled program whose results are only read where a scalar condition holds.

`jnp.where(step % 50 == 0, f(x), y)` computes `f(x)` in every step: the program selects one of two
results that are both there. A selection counts if its condition is one truth value. How often it
holds is known of whole numbers alone, such as counters. Of what the program computes, such as 'is
the loss finite', it is not: only the shorter of both sides is lost in any case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepwhy.read.formats.xplane.hlo import INTEGERS, PRED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.read.formats.xplane.hlo import Computation, Instruction, Module

_SAME = frozenset({"broadcast", "bitcast", "reshape", "copy", "convert", "copy-done"})
_ARITHMETIC = {
    "remainder": "%", "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "and": "&",
    "or": "|", "xor": "^",
}  # fmt: skip
_COMPARED = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
_OTHERS = frozenset({"not", "sign", "negate", "abs", "select", "maximum", "minimum", "clamp"})
_PRODUCTS = frozenset({"multiply", "dot", "convolution"})
_SUMS = frozenset({"add", "subtract", "concatenate", "dynamic-update-slice", "pad"})
# Their result is zero if their first operand is.
_FIRST_ALONE = _SAME | {"negate", "transpose", "slice", "dynamic-slice", "reduce", "divide"}
_DEEPEST = 4  # computations that are written out in a condition
_LONGEST = 32  # instructions of a condition; `%` of negative numbers takes eight


class Discard(NamedTuple):
    """When the result of an instruction is read.

    Args:
        condition: What is tested, e.g. 'argument 2 % 50 == 0'.
        holds: Whether the result is read if it holds, or if it does not.
        one_in: The condition holds once in so many steps; 0 if unknown.
    """

    condition: str
    holds: bool
    one_in: int


class _Condition(NamedTuple):
    """A condition.

    Args:
        text: What is tested; equal for equal conditions.
        one_in: As in `Discard`.
    """

    text: str
    one_in: int


_Needs = frozenset[tuple[_Condition, bool]]
_NONE: _Needs = frozenset()


class _Scope:
    """A computation, and the arguments of its parameters where it is fused.

    Args:
        module: The program.
        computation: The computation.
        outer: The scope of the fusion; None for one that runs by itself.
        arguments: Ids of the operands of the fusion.
    """

    def __init__(
        self,
        module: Module,
        computation: Computation,
        outer: _Scope | None = None,
        arguments: tuple[int, ...] = (),
    ) -> None:
        self.module, self.computation = module, computation
        self.outer, self.arguments = outer, arguments
        self._zeros: dict[int, _Needs | None] | None = None

    @property
    def zeros(self) -> dict[int, _Needs | None]:
        """For each instruction, the conditions without which its result is zero; None if always."""
        if self._zeros is None:
            self._zeros = {}
            for id_ in self.computation.instructions:
                self._zeros[id_] = _zero_unless(self, id_, self._zeros)
        return self._zeros

    def inside(self, fusion: Instruction) -> _Scope:
        """The computation of a fusion."""
        computation = self.module.computation(fusion.called[0])
        return _Scope(self.module, computation, self, fusion.operands)


def discards_of(module: Module) -> dict[str, Discard]:
    """When results are read, by name of the instruction; those that are always read are left out.

    Raises:
        KeyError: The program is damaged.
    """
    found: dict[str, Discard] = {}
    for _, computation in module.running():
        needs = _needs(_Scope(module, computation))
        for id_, instruction in computation.instructions.items():
            if needs.get(id_):
                condition, holds = max(needs[id_], key=lambda need: (need[0].one_in, need))
                discard = Discard(condition.text, holds, condition.one_in)
                found.update(dict.fromkeys(_names(module, instruction), discard))
    return found


def _names(module: Module, instruction: Instruction) -> Iterator[str]:
    """Name of an instruction, and of those that run within it."""
    yield instruction.name
    if instruction.opcode in {"while", "call", "conditional"}:
        for called in instruction.called:
            for inner in module.computation(called).instructions.values():
                yield from _names(module, inner)


def _needs(scope: _Scope) -> dict[int, _Needs]:
    """For each instruction, the conditions without which its result is not read.

    Operands come before what reads them, so that the order is reversed.
    """
    computation = scope.computation
    needs: dict[int, _Needs] = {}
    edges: dict[tuple[int, int], _Needs] = {}
    for id_ in reversed(computation.instructions):
        users = computation.users.get(id_, ())
        each = [edges.get(user, _NONE) | needs.get(user[0], _NONE) for user in users]
        is_read = id_ == computation.root or not each
        # What is known to be zero need not be computed, and neither what it is multiplied by.
        needs[id_] = (scope.zeros[id_] or _NONE) | (
            _NONE if is_read else frozenset.intersection(*each)
        )
        edges.update(_edges(scope, id_))
    return needs


def _zero_unless(scope: _Scope, id_: int, zeros: dict[int, _Needs | None]) -> _Needs | None:
    """The conditions without which a result is zero, such as a gradient; None if it always is.

    Args:
        scope: Where the instruction is.
        id_: The instruction.
        zeros: The same of those before it.
    """
    instruction = scope.computation[id_]
    each = [zeros[operand] for operand in instruction.operands if operand in zeros]
    match instruction.opcode:
        case "constant":
            return None if instruction.constant == 0 else _NONE
        case "parameter" if scope.outer is not None:
            return scope.outer.zeros[scope.arguments[instruction.number]]
        case "fusion":
            inner = scope.inside(instruction)
            return inner.zeros[inner.computation.root]
        case "select":
            condition = _condition(scope, instruction.operands[0])
            sides = zip(each[1:], (True, False), strict=True)
            known = [
                None if zero is None else zero | ({(condition, holds)} if condition else _NONE)
                for zero, holds in sides
            ]
            return _either(known)
        case opcode if opcode in _PRODUCTS:
            return None if None in each else _NONE.union(*(zero for zero in each if zero))
        case opcode if opcode in _FIRST_ALONE:
            return each[0] if each else _NONE
        case opcode if opcode in _SUMS:
            return _either(each)
    return _NONE


def _either(each: list[_Needs | None]) -> _Needs | None:
    """The conditions without which all of several values are zero; None if they always are."""
    values = [zero for zero in each if zero is not None]
    return frozenset.intersection(*values) if values else None


def _edges(scope: _Scope, id_: int) -> Iterator[tuple[tuple[int, int], _Needs]]:
    """Conditions under which an instruction reads its operands: by its id and the position."""
    instruction = scope.computation[id_]
    if instruction.opcode == "select":
        condition = _condition(scope, instruction.operands[0])
        if condition is not None:
            yield (id_, 1), frozenset({(condition, True)})
            yield (id_, 2), frozenset({(condition, False)})
    elif instruction.opcode == "fusion":
        inner = scope.inside(instruction)
        needs = _needs(inner)
        for number, parameter in inner.computation.parameters.items():
            if needs.get(parameter):
                yield (id_, number), needs[parameter]


def _condition(scope: _Scope, id_: int) -> _Condition | None:
    """The condition of a selection; None if it is not one truth value."""
    scope, id_ = _source(scope, id_)
    shape = scope.computation[id_].shape
    if shape.type != PRED or shape.sizes:
        return None
    words: list[str] = []
    moduli: dict[int, str] = {}
    instruction = scope.computation[id_]
    if not _write(scope, id_, words, moduli):
        return _Condition(_computed(scope, id_), 0)
    if instruction.direction == "EQ" and len(moduli) == 1:
        modulus, of = moduli.popitem()
        return _Condition(f"{of} % {modulus} == {words[-1]}", modulus)
    return _Condition(" ".join(words), 0)


def _computed(scope: _Scope, id_: int, depth: int = 0) -> str:
    """What a condition is made of that is computed, by the names of instructions.

    The compiler repeats short computations in each fusion that needs them: those are written out.
    """
    scope, id_ = _source(scope, id_)
    instruction = scope.computation[id_]
    if instruction.constant is not None:
        return f"{instruction.constant:g}"
    if (scope.outer is None and depth) or depth >= _DEEPEST:
        return instruction.name
    words = [_computed(scope, operand, depth + 1) for operand in instruction.operands]
    between = _COMPARED.get(instruction.direction) or _ARITHMETIC.get(instruction.opcode)
    return f" {between} ".join(words) if between else f"{instruction.opcode} of {', '.join(words)}"


def _source(scope: _Scope, id_: int) -> tuple[_Scope, int]:
    """The instruction that makes a value, behind fusions and those that pass it on."""
    while True:
        instruction = scope.computation[id_]
        if instruction.opcode in _SAME:
            id_ = instruction.operands[0]
        elif instruction.opcode == "fusion":
            scope = scope.inside(instruction)
            id_ = scope.computation.root
        elif instruction.opcode == "parameter" and scope.outer is not None:
            id_, scope = scope.arguments[instruction.number], scope.outer
        else:
            return scope, id_


def _write(scope: _Scope, id_: int, words: list[str], moduli: dict[int, str]) -> bool:
    """Write down what a value is made of; False if that is not whole numbers alone.

    Args:
        scope: Where the value is.
        id_: The value.
        words: What is written so far.
        moduli: Constants by which a remainder is taken, and of what.
    """
    scope, id_ = _source(scope, id_)
    instruction = scope.computation[id_]
    if len(words) > _LONGEST or instruction.shape.type not in INTEGERS or instruction.shape.sizes:
        return False
    match instruction.opcode:
        case "constant":
            words.append("?" if instruction.constant is None else str(instruction.constant))
            return True
        case "parameter":
            words.append(instruction.name.rpartition(".")[0] or instruction.name)
            return True
        case "get-tuple-element":
            words.append(f"element {instruction.number}")
            return scope.computation[instruction.operands[0]].opcode == "parameter"
    between = _ARITHMETIC.get(instruction.opcode) or _COMPARED.get(instruction.direction)
    if between is None and instruction.opcode not in _OTHERS:
        return False
    start = len(words)
    if between is None:
        words.append(instruction.opcode)
    for place, operand in enumerate(instruction.operands):
        if place and between is not None:
            words.append(between)
        if not _write(scope, operand, words, moduli):
            return False
    if instruction.opcode == "remainder" and words[-1].isdigit():
        moduli[int(words[-1])] = " ".join(words[start:-2])
    return True
