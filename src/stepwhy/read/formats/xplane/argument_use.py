"""What instructions of a compiled program compute from: which arguments, and how they meet.

Where an argument is the same in each call, so is everything that is computed from it alone. A
result that two arrays make, each repeated for the other, compares all pairs of their elements. An
argument that products multiply as it is may be almost only zeros.
"""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.base.patterns import regex

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepwhy.read.formats.xplane.hlo import Computation, Instruction, Module

_MOST_ARGUMENTS = 8  # of an instruction that is listed; what reads more hardly is a constant
# As a set of bits: depends on more than arguments, such as random numbers.
_UNKNOWN = -1
_CHANGING = frozenset(
    {"rng", "rng-bit-generator", "rng-get-and-update-state", "infeed", "recv", "recv-done"}
)
_CALLBACK = "callback"  # in the target of calls into Python, as in 'xla_ffi_python_cpu_callback'
_LOOPS = frozenset({"while", "conditional"})
# They take no time, or the compiler added them: nothing in the program could be left out for them.
_NOT_OF_PROGRAM = frozenset(
    {
        "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "copy", "copy-start",
        "copy-done",
    }
)  # fmt: skip
_PASS_ON = frozenset({"bitcast", "reshape", "convert", "copy", "transpose"})
_OF_PRODUCT = regex(r"dot|convolution|custom-call .*(matmul|gemm|conv).*", re.IGNORECASE)
_OF_VECTORS = 2
_FEATURES = 8  # of a vector; squared distances of shorter ones gain little by a product
_LARGE = 1 << 16  # elements of a factor; products with smaller ones take little
_PAIRED = frozenset(
    {"add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "compare", "atan2"}
)
# Unsigned types, by `PrimitiveType`. Random bits are made of them: each key meets each counter.
_UNSIGNED = frozenset({6, 7, 8, 9})


class ArgumentUse(NamedTuple):
    """What an instruction computes from.

    Args:
        arguments: Names of the arguments of the program that its result depends on, e.g. 'adj' or
            "params[0]['w']", if on nothing else; None otherwise, and where it depends on none.
        compares_pairs: 1 if it combines two arrays that are each repeated for the other, 2 if it
            multiplies the differences of such arrays of vectors, or makes or reads an array of
            their shape, 0 otherwise.
        factors: Names of large arguments of two dimensions or more that it multiplies as they are,
            in a product of matrices.
    """

    arguments: tuple[str, ...] | None = None
    compares_pairs: int = 0
    factors: tuple[str, ...] = ()


def argument_uses(module: Module) -> dict[str, ArgumentUse]:
    """What is known of the instructions of a program, by name; others are left out.

    Raises:
        KeyError: The program is damaged.
    """
    entry = module.computation(module.entry)
    names = {i.number: i.op_name for i in entry.instructions.values() if i.opcode == "parameter"}
    sources = dict(_sources(module, entry, {number: 1 << number for number in names}))
    found = {name: ArgumentUse(_named(mask, names)) for name, mask in sources.items()}
    for _, computation in module.running():
        for name, pairs in _pairs(module, computation):
            known = found.get(name, ArgumentUse())
            found[name] = known._replace(compares_pairs=max(pairs, known.compares_pairs))
    large = {i.number: i.number for i in entry.instructions.values() if _may_be_factor(i)}
    for name, number in _factors(module, entry, large)[1]:
        known = found.get(name, ArgumentUse())
        found[name] = known._replace(factors=(*known.factors, names[number]))
    return {name: use for name, use in found.items() if use != ArgumentUse()}


def _may_be_factor(instruction: Instruction) -> bool:
    sizes = instruction.shape.sizes
    is_matrix = sum(size > 1 for size in sizes) > 1 and prod(sizes) >= _LARGE
    return instruction.opcode == "parameter" and is_matrix


def _factors(
    module: Module, computation: Computation, given: Mapping[int, int]
) -> tuple[dict[int, int], list[tuple[str, int]]]:
    """Instructions that pass arguments on unchanged, and products that multiply these.

    Args:
        module: The program.
        computation: One that runs, or is fused.
        given: Number of the argument that each parameter is.

    Returns:
        The number of the argument by the id of the instruction that passes it on; and names of
        products, each with the number of the argument that it multiplies.
    """
    passed: dict[int, int] = {}
    products: list[tuple[str, int]] = []
    for id_, instruction in computation.instructions.items():
        read = {n: passed[one] for n, one in enumerate(instruction.operands) if one in passed}
        if instruction.opcode == "parameter":
            read = {n: given[n] for n in (instruction.number,) if n in given}
        elif read and instruction.opcode in {"fusion", "call"}:
            inner = module.computation(instruction.called[0])
            ways, found = _factors(module, inner, read)
            is_one = instruction.opcode == "fusion"
            products += [(instruction.name if is_one else name, one) for name, one in found]
            read = {0: ways[inner.root]} if inner.root in ways else {}
        elif read and _OF_PRODUCT.fullmatch(f"{instruction.opcode} {instruction.target}".strip()):
            products += [(instruction.name, one) for one in dict.fromkeys(read.values())]
            read = {}
        elif instruction.opcode not in _PASS_ON:
            read = {}
        if read:
            passed[id_] = next(iter(read.values()))
    return passed, products


def _named(mask: int, names: Mapping[int, str]) -> tuple[str, ...] | None:
    """The arguments of a set of bits; None if there are none or many, or if any has no name."""
    if mask == _UNKNOWN or mask.bit_count() > _MOST_ARGUMENTS:
        return None
    used = tuple(name for number, name in sorted(names.items()) if mask >> number & 1)
    return used if used and all(used) else None


def _sources(
    module: Module, computation: Computation, given: Mapping[int, int]
) -> Iterator[tuple[str, int]]:
    """Names of instructions, and the arguments of the program that each depends on, as bits.

    Args:
        module: The program.
        computation: One that runs.
        given: The arguments that each parameter depends on.
    """
    masks: dict[int, int] = {}
    for id_, instruction in computation.instructions.items():
        masks[id_] = _mask(module, instruction, masks, given)
        if instruction.opcode == "call":
            inner = module.computation(instruction.called[0])
            passed = {number: masks[one] for number, one in enumerate(instruction.operands)}
            yield from _sources(module, inner, passed)
        elif instruction.opcode in _LOOPS:
            for called in instruction.called:
                yield from ((name, masks[id_]) for name in _names(module, called))
        if instruction.opcode not in _NOT_OF_PROGRAM:
            yield instruction.name, masks[id_]


def _mask(
    module: Module, instruction: Instruction, masks: Mapping[int, int], given: Mapping[int, int]
) -> int:
    if instruction.opcode == "parameter":
        return given.get(instruction.number, _UNKNOWN)
    if _is_changing(module, instruction):
        return _UNKNOWN
    found = 0
    for operand in instruction.operands:
        found |= masks[operand]
    return found


def _is_changing(module: Module, instruction: Instruction) -> bool:
    """Whether a result differs where all operands are the same."""
    if instruction.opcode in _CHANGING or _CALLBACK in instruction.target:
        return True
    return any(_runs_changing(module, called) for called in instruction.called)


def _runs_changing(module: Module, key: int) -> bool:
    """Whether a computation has an instruction whose result differs for the same operands."""
    if (key,) not in module.derived:
        every = module.computation(key).instructions.values()
        module.derived[key,] = any(_is_changing(module, one) for one in every)
    return bool(module.derived[key,])


def _names(module: Module, key: int) -> Iterator[str]:
    """Names of the instructions of a computation, and of those that it calls."""
    for instruction in module.computation(key).instructions.values():
        yield instruction.name
        if instruction.opcode in _LOOPS or instruction.opcode == "call":
            for called in instruction.called:
                yield from _names(module, called)


def _pairs(module: Module, computation: Computation) -> Iterator[tuple[str, int]]:
    """Names of the instructions of a computation that compare pairs, with how."""
    shapes = set()
    for instruction in computation.instructions.values():
        pairs, sizes = _compares_pairs(module, computation, instruction)
        if pairs:
            yield instruction.name, pairs
        if pairs == _OF_VECTORS:
            shapes.add(sizes)
    for instruction in computation.instructions.values() if shapes else ():
        around = (computation[one].shape.sizes for one in instruction.operands)
        if instruction.opcode not in _NOT_OF_PROGRAM and shapes & {
            instruction.shape.sizes,
            *around,
        }:
            yield instruction.name, _OF_VECTORS


def _compares_pairs(
    module: Module, computation: Computation, instruction: Instruction
) -> tuple[int, tuple[int, ...]]:
    """Whether two operands are each repeated for the other, as for an `ArgumentUse`; and the sizes.

    A fusion is the most that any of its instructions is.
    """
    sizes = instruction.shape.sizes
    if instruction.opcode == "fusion":
        inner = module.computation(instruction.called[0])
        every = inner.instructions.values()
        return max((_compares_pairs(module, inner, one) for one in every), default=(0, sizes))
    if instruction.opcode not in _PAIRED or len(instruction.operands) != 2:
        return 0, sizes
    if instruction.shape.type in _UNSIGNED:
        return 0, sizes
    one, other = (_kept(computation, operand) for operand in instruction.operands)
    is_long = {place for place, size in enumerate(sizes) if size > 1}
    if not (one and other and (one - other) & is_long and (other - one) & is_long):
        return 0, sizes
    is_of_vectors = any(sizes[place] >= _FEATURES for place in one & other)
    is_squared = is_of_vectors and _is_multiplied(computation, instruction)
    return _OF_VECTORS if is_squared else 1, sizes


def _is_multiplied(computation: Computation, instruction: Instruction) -> bool:
    """Whether nothing but products reads a difference; its square is one."""
    number = next(id_ for id_, one in computation.instructions.items() if one is instruction)
    readers = [computation[id_].opcode for id_, _ in computation.users.get(number, ())]
    return instruction.opcode == "subtract" and set(readers) == {"multiply"}


def _kept(computation: Computation, id_: int) -> set[int]:
    """Dimensions of an array that were there before it was repeated; all if it was not."""
    instruction = computation[id_]
    while instruction.opcode in _PASS_ON and instruction.operands:
        before = computation[instruction.operands[0]]
        if before.shape.sizes != instruction.shape.sizes:
            break
        instruction = before
    if instruction.opcode == "broadcast":
        return set(instruction.dimensions)
    return set(range(len(instruction.shape.sizes)))
