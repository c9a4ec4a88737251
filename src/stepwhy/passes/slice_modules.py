"""The module of the model, or the name scope of the graph, that each slice runs in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.columns.groups import numbered
from stepwhy.passes.op_paths import Paths
from stepwhy.passes.slice_lines import spread
from stepwhy.patterns import regex
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from stepwhy.passes.facts import Facts

    Ints = NDArray[np.int64]

# Scopes in which TensorFlow puts gradients, calls of functions and loops: no part of the model.
_NO_MODULE = regex(
    r"gradients(_\d+)?|gradient_tape|.*_grad|(Stateful)?PartitionedCall(_\d+)?"
    r"|(while|cond|body)(_\d+)?|then|else"
)


class SliceModules(msgspec.Struct, frozen=True):
    """Modules of slices.

    Args:
        number: Number of the module of each slice, 0 for none; (slices,).
        paths: Path of each module, outermost first, '' for none; by number.
    """

    number: Ints
    paths: tuple[str, ...]


def slice_modules(facts: Facts) -> SliceModules | None:
    """The modules of all slices; None if the trace names none.

    PyTorch's profiler records calls of modules, and nodes of TensorFlow have a name scope. The
    backward pass of a module, and its device work, count as the module.
    """
    paths: dict[str, int] = {"": 0}
    values = _of_calls(facts, paths)
    if len(paths) == 1:
        values = _of_scopes(facts, paths)
    if len(paths) == 1:
        return None
    number = spread(facts, np.where(values == 0, NULL, values).astype(np.int32), None)
    return SliceModules(np.where(number == NULL, 0, number).astype(np.int64), tuple(paths))


def _of_calls(facts: Facts, paths: dict[str, int]) -> Ints:
    """Number of the module that each slice is, or is called by; (slices,)."""
    calls = Paths(facts.trace, facts.nesting, with_ranges=False)
    found = calls.within(np.arange(len(facts.trace.slices), dtype=np.int64))
    return _renumbered(found, calls.text, paths)


def _of_scopes(facts: Facts, paths: dict[str, int]) -> Ints:
    """Number of the name scope of each slice; (slices,)."""
    scopes = facts.trace.slices.scope.astype(np.int64)
    return _renumbered(scopes, lambda scope: _module(facts.trace.string(scope)), paths)


def _renumbered(values: Ints, text: Callable[[int], str], paths: dict[str, int]) -> Ints:
    """The values as numbers of their texts, which are added to the paths; (values,)."""
    used, place = numbered(values)
    numbers = [paths.setdefault(text(value), len(paths)) for value in used.tolist()]
    return np.asarray(numbers, dtype=np.int64)[place]


def _module(node: str) -> str:
    """The scope of a node, as the model has it: 'gradients/a/b_grad/MatMul' is of 'a'."""
    return "/".join(part for part in node.split("/")[:-1] if not _NO_MODULE.fullmatch(part))


__all__ = ["SliceModules", "slice_modules"]
