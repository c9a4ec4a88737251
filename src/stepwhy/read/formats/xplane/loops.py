"""Loops of compiled programs whose iterations do not need each other, and work for outside of them.

`lax.map` and a `lax.scan` over rows run their body once per row. A loop has a state if an iteration
reads what an earlier one has computed, as a recurrent layer does. Counters are no state, nor keys
of random numbers, nor what is only written: rows of a result, and sums.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, cast

from stepwhy.read.formats.xplane.hlo import INTEGERS, TUPLE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from stepwhy.read.formats.xplane.hlo import Computation, Instruction, Module

FEWEST_TRIPS = 8
"""Iterations; with fewer, one operation for all rows saves little."""
_MOST_BYTES = 8 << 20  # of all rows together; more do not fit into the caches of a CPU
_SMALL_BYTES = 64  # of a counter or a key
_DEEPEST = 32  # instructions behind each other, until a value is added or written
_PASSES_ON = frozenset({"bitcast", "copy", "copy-start", "copy-done", "reshape", "convert"})
# Their first operand is the array of which they change a part.
_CHANGES = frozenset({"dynamic-update-slice", "scatter"})
_MATRIX = 2  # dimensions
_CHANGED = -2  # of what is known of a computation: the operands that it may change
_RUNS = frozenset({"fusion", "call"})


class LoopWork(NamedTuple):
    """What is known of an instruction in a loop.

    Args:
        loop: Name of the loop.
        trips: Its iterations.
        is_independent: Whether no iteration needs an earlier one. Else the instruction is a product
            of matrices that needs none, or that no later one needs.
    """

    loop: str
    trips: int
    is_independent: bool


class _Carried(NamedTuple):
    """The elements of the tuple that an iteration passes on.

    Args:
        state: Numbers of those that later iterations need.
        written: Numbers of those that are only written to.
        kept: Ids of the instructions that take out what no iteration changes.
        needs: Whether each instruction depends on earlier iterations.
        needed: Ids of the instructions that later iterations depend on.
    """

    state: set[int]
    written: set[int]
    kept: set[int]
    needs: dict[int, bool]
    needed: set[int]


def loop_work_of(module: Module) -> dict[str, LoopWork]:
    """Such instructions by name; the outermost loop without a state counts.

    Raises:
        KeyError: The program is damaged.
    """
    found: dict[str, LoopWork] = {}
    dependent: list[tuple[LoopWork, Computation, _Carried]] = []
    for _, computation in module.running():
        for loop in computation.instructions.values():
            if loop.opcode != "while" or (loop.trips or 0) < FEWEST_TRIPS:
                continue
            # The condition of a loop returns one truth value, its body a tuple.
            body = next(
                (c for c in map(module.computation, loop.called) if c[c.root].opcode == "tuple"),
                None,
            )
            if body is None:
                continue
            carried = _carried(module, body)
            about = LoopWork(loop.name, loop.trips or 0, not carried.state)
            if carried.state:
                dependent.append((about, body, carried))
            else:
                found.update(dict.fromkeys((loop.name, *_names(module, body)), about))
    return {**_outer_products(module, dependent), **found}


def _outer_products(
    module: Module, loops: list[tuple[LoopWork, Computation, _Carried]]
) -> dict[str, LoopWork]:
    """Products that could be outside of a loop, and the sums of the gradients of their weights.

    They need no earlier iteration, or no later one needs them and their weights are the same. All
    rows together fit into the caches: else one product can take longer than many small ones.

    Args:
        module: The program.
        loops: Loops with a state.
    """
    found: dict[str, LoopWork] = {}
    weights = Counter[tuple[int, ...]]()
    for about, body, carried in loops:
        for id_, instruction in body.instructions.items():
            kept = {body[one].shape.sizes for one in instruction.operands if one in carried.kept}
            matrices = {sizes for sizes in kept if len(sizes) == _MATRIX}
            is_late = bool(matrices) and id_ not in carried.needed
            rows = (id_, *(one for one in instruction.operands if one not in carried.kept))
            is_small = max(body[one].shape.bytes for one in rows) * about.trips <= _MOST_BYTES
            is_outer = (is_late or not carried.needs[id_]) and is_small
            if is_outer and _has_product(module, instruction):
                found[instruction.name] = about
                weights.update(matrices)
    for about, body, carried in loops:
        for number in carried.written:
            id_ = body[body.root].operands[number]
            sizes = body[id_].shape.sizes
            # Of weights with the same sizes, the gradients of as many as have such a product.
            if weights[sizes] > 0 and _is_sum(module, body, id_):
                weights[sizes] -= 1
                every = (id_, *(o for o in body[id_].operands if _has_product(module, body[o])))
                found.update({body[one].name: about for one in every})
    return found


def _is_sum(module: Module, computation: Computation, id_: int) -> bool:
    """Whether an instruction adds to an array, not writes rows of it."""
    instruction = computation[id_]
    if instruction.opcode in _RUNS:
        inner = module.computation(instruction.called[0])
        return inner[inner.root].opcode == "add"
    return instruction.opcode == "add"


def _names(module: Module, computation: Computation) -> Iterator[str]:
    """Names of the instructions of a computation, and of those that run within them."""
    for instruction in computation.instructions.values():
        yield instruction.name
        if instruction.opcode in {"while", "call", "conditional"}:
            for called in instruction.called:
                yield from _names(module, module.computation(called))


def _carried(module: Module, body: Computation) -> _Carried:
    """What the iterations of a loop pass on to the next ones."""
    elements = _elements(body)
    root = body[body.root]
    depends: dict[int, int] = {}
    for id_, instruction in body.instructions.items():
        mask = 1 << elements[id_] if id_ in elements else 0
        for operand in instruction.operands:
            mask |= depends[operand]
        depends[id_] = mask
    kept = {n for n, id_ in enumerate(root.operands) if elements.get(_source(body, id_)) == n}
    shapes = [body[id_].shape for id_ in root.operands]
    small = {n for n, one in enumerate(shapes) if 0 < one.bytes <= _SMALL_BYTES}
    counters = {n for n in small if shapes[n].type in INTEGERS} - kept
    while beyond := {n for n in counters if depends[root.operands[n]] & ~_mask(counters | kept)}:
        counters -= beyond
    others = set(range(len(root.operands))) - kept - counters
    # Changed in parts or added to, and nothing else reads it.
    written = {
        number
        for number in others
        if (starts := {id_ for id_, n in elements.items() if n == number})
        and _reaches(module, body, root.operands[number], starts)
    }
    needed = _mask(others)
    needs = {id_: bool(mask & needed) for id_, mask in depends.items()}
    same = {id_ for id_, n in elements.items() if n in kept}
    state = others - written
    return _Carried(state, written, same, needs, _behind(body, [root.operands[n] for n in state]))


def _behind(body: Computation, ends: list[int]) -> set[int]:
    """Ids of some instructions, and of all that they depend on."""
    found: set[int] = set()
    while ends:
        id_ = ends.pop()
        if id_ not in found:
            found.add(id_)
            ends.extend(body[id_].operands)
    return found


def _mask(numbers: Collection[int]) -> int:
    return sum(1 << number for number in numbers)


def _elements(body: Computation) -> dict[int, int]:
    """The number of the element of the carried tuple that an instruction takes out of it."""
    start = body.parameters.get(0)
    return {
        id_: one.number
        for id_, one in body.instructions.items()
        if one.opcode == "get-tuple-element" and one.operands[0] == start
    }


def _source(body: Computation, id_: int) -> int:
    while body[id_].opcode in _PASSES_ON:
        id_ = body[id_].operands[0]
    return id_


def _reaches(module: Module, computation: Computation, end: int, starts: Collection[int]) -> bool:
    """Whether a value is one of some, changed in parts or added to, that nothing else reads."""
    path = _path(module, computation, end, starts, set(), depth=_DEEPEST)
    if path is None or not set(starts) <= set(path):
        return False
    root = computation.root
    for id_, reader in zip(path, [end, *path], strict=False):
        if computation[id_].shape.type == TUPLE:  # other results of it are other values
            continue
        every = [user for user, _ in computation.users.get(id_, ())]
        others = [
            user
            for user in every
            if (user != root or root == end) and not _keeps_row(computation, user, reader)
        ]
        if others != ([] if id_ == end else [reader]):
            return False
    return True


def _keeps_row(computation: Computation, reader: int, change: int) -> bool:
    """Whether an instruction reads a row only to write it again, where a place is out of bounds."""
    one, other = computation[reader], computation[change]
    if (one.opcode, other.opcode) != ("dynamic-slice", "dynamic-update-slice"):
        return False
    users = [user for user, _ in computation.users.get(reader, ())]
    is_same = one.operands[1:] == other.operands[2:] and users == [other.operands[1]]
    return is_same and computation[users[0]].opcode == "select"


def _path(
    module: Module,
    computation: Computation,
    id_: int,
    starts: Collection[int],
    seen: set[int],
    *,
    depth: int,
) -> list[int] | None:
    """The instructions from a value back to one of some; None if it does not change one of them."""
    if id_ in starts:
        return [id_]
    if not depth or id_ in seen:
        return None
    seen.add(id_)
    for operand in _changed(module, computation, id_):
        path = _path(module, computation, operand, starts, seen, depth=depth - 1)
        if path is not None:
            return [id_, *path]
    return None


def _changed(module: Module, computation: Computation, id_: int) -> tuple[int, ...]:
    """The operands that an instruction may change, to return the rest as it was."""
    instruction = computation[id_]
    if instruction.opcode in _PASSES_ON | _CHANGES:
        return instruction.operands[:1]
    if instruction.opcode == "add":
        return instruction.operands
    if instruction.opcode == "get-tuple-element":
        made = computation[instruction.operands[0]]
        is_tuple = made.opcode in _RUNS and made.shape.type == TUPLE
        return instruction.operands if is_tuple else ()
    if instruction.opcode not in _RUNS:
        return ()
    key = (instruction.called[0], _CHANGED)
    if key not in module.derived:
        inner = module.computation(instruction.called[0])
        root = inner[inner.root]
        ends = root.operands if root.opcode == "tuple" else (inner.root,)
        module.derived[key] = [
            number
            for number, parameter in inner.parameters.items()
            if any(_reaches(module, inner, end, {parameter}) for end in ends)
        ]
    numbers = cast("list[int]", module.derived[key])
    return tuple(instruction.operands[number] for number in numbers)


def _has_product(module: Module, instruction: Instruction) -> bool:
    if instruction.opcode != "fusion":
        return instruction.opcode == "dot"
    inner = module.computation(instruction.called[0])
    return any(one.opcode == "dot" for one in inner.instructions.values())
