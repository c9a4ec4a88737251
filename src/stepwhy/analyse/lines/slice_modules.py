"""The module of the model, or the name scope of the graph, that each slice runs in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.lines.driver_lines import carried_parts
from stepwhy.analyse.lines.op_paths import Paths
from stepwhy.analyse.lines.slice_lines import spread
from stepwhy.base.columns.groups import group_rows, numbered
from stepwhy.base.columns.nesting import inherit
from stepwhy.base.patterns import regex
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.analyse.lines.driver_lines import DriverParts

    Ints = NDArray[np.int64]

# Scopes in which TensorFlow puts gradients, calls of functions and loops: no part of the model.
_NO_MODULE = regex(
    r"gradients(_\d+)?|gradient_tape|.*_grad|(Stateful)?PartitionedCall(_\d+)?"
    r"|(while|cond|body)(_\d+)?|then|else"
)


# JAX writes transformations around the name of a scope, and scopes of its own between them.
_TRANSFORMED = regex(r"(?:transpose|jvp|vmap|pmap|remat|checkpoint)\((.*)\)")
_NO_SCOPE = regex(
    r"|p?jit(\(.*\))?|main|while|body|cond|scan|closed_call|core_call|custom_[jv][vj]p_call.*"
    r"|branch_\d+_fun|rematted_computation|remat2?|checkpoint"
)


class SliceModules(msgspec.Struct, frozen=True):
    """Modules of slices.

    Args:
        number: Number of the module of each slice, 0 for none; (slices,).
        paths: Path of each module, outermost first, '' for none; by number.
        noted: Number of the module that was noted for each part of the driving thread's time, 0 for
            none; (parts of `carried_parts`,). Empty if none was noted.
    """

    number: Ints
    paths: tuple[str, ...]
    noted: Ints


def slice_modules(facts: Facts) -> SliceModules | None:
    """The modules of all slices; None if the trace names none.

    PyTorch's profiler may record calls of modules, else the running module was noted in steps of
    its own; nodes of TensorFlow and instructions of JAX have a name scope. The backward pass of a
    module, and its device work, count as the module.
    """
    paths: dict[str, int] = {"": 0}
    parts, noted = None, np.empty(0, dtype=np.int64)
    for source in (_of_calls, _of_scopes, _of_instructions):
        values = source(facts, paths)
        if len(paths) > 1:
            break
    else:
        parts = facts.derived(carried_parts)
        if parts is None or not (parts.module != NULL).any():
            return None
        noted = _renumbered(parts.module, facts.trace.string, paths)
        values = _of_parts(facts, parts, noted)
    number = spread(facts, np.where(values == 0, NULL, values).astype(np.int32), parts)
    return SliceModules(np.where(number == NULL, 0, number).astype(np.int64), tuple(paths), noted)


def _of_parts(facts: Facts, parts: DriverParts, noted: Ints) -> Ints:
    """Number of the module that was noted for each operation, and for all that it calls; (slices,).

    Args:
        facts: Facts of the run.
        parts: The driving thread's time.
        noted: Number of the module of each part; (parts,).
    """
    is_op = parts.unit != NULL
    found = np.full(len(facts.trace.slices), NULL, dtype=np.int32)
    found[parts.unit[is_op]] = np.where(noted == 0, NULL, noted)[is_op]
    return inherit(facts.nesting.parent, found, NULL).astype(np.int64)


def instruction_scopes(facts: Facts) -> dict[tuple[str, str], str]:
    """What instructions were compiled from, by their name and line; empty outside of JAX."""
    table, text = facts.trace.instruction_scopes, facts.trace.string
    rows = zip(table.name.tolist(), table.source.tolist(), table.scope.tolist(), strict=True)
    return {(text(name), text(line)): text(scope) for name, line, scope in rows}


def _of_calls(facts: Facts, paths: dict[str, int]) -> Ints:
    """Number of the module that each slice is, or is called by; (slices,)."""
    calls = Paths(facts.trace, facts.nesting, with_ranges=False)
    found = calls.within(np.arange(len(facts.trace.slices), dtype=np.int64))
    return _renumbered(found, calls.text, paths)


def _of_scopes(facts: Facts, paths: dict[str, int]) -> Ints:
    """Number of the name scope of each slice; (slices,)."""
    scopes = facts.trace.slices.scope.astype(np.int64)
    return _renumbered(scopes, lambda scope: _module(facts.trace.string(scope)), paths)


def _of_instructions(facts: Facts, paths: dict[str, int]) -> Ints:
    """Number of the name scope of each instruction of a compiled program; (slices,)."""
    slices, table = facts.trace.slices, facts.trace.instruction_scopes
    keys = zip(table.name.tolist(), table.source.tolist(), strict=True)
    scopes = dict(zip(keys, table.scope.tolist(), strict=True))
    found = np.full(len(slices), NULL, dtype=np.int64)
    if scopes:
        first, group = group_rows(slices.name, slices.source)
        used = zip(slices.name[first].tolist(), slices.source[first].tolist(), strict=True)
        found = np.array([scopes.get(key, NULL) for key in used], dtype=np.int64)[group]
    return _renumbered(found, lambda scope: _jax_module(facts.trace.string(scope)), paths)


def _renumbered(values: Ints, text: Callable[[int], str], paths: dict[str, int]) -> Ints:
    """The values as numbers of their texts, which are added to the paths; (values,)."""
    used, place = numbered(values)
    numbers = [paths.setdefault(text(value), len(paths)) for value in used.tolist()]
    return np.asarray(numbers, dtype=np.int64)[place]


def _module(node: str) -> str:
    """The scope of a node, as the model has it: 'gradients/a/b_grad/MatMul' is of 'a'."""
    return "/".join(part for part in node.split("/")[:-1] if not _NO_MODULE.fullmatch(part))


def _jax_module(scope: str) -> str:
    """The scope of an instruction, as the model has it: 'jit(f)/jvp(a)/b/dot' is of 'a/b'."""
    parts = map(_untransformed, scope.split("/")[:-1])
    return "/".join(part for part in parts if not _NO_SCOPE.fullmatch(part))


def _untransformed(part: str) -> str:
    while match := _TRANSFORMED.fullmatch(part):
        part = match[1]
    return part
