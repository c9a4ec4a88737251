"""Copies in another order of dimensions that a program of PyTorch makes around its convolutions."""

from __future__ import annotations

import re

import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.base.columns.groups import distinct
from stepwhy.base.columns.nesting import climb
from stepwhy.base.columns.types import AnyRows, Mask
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.slices import launched_ops, named, steady_work
from stepwhy.trace import NULL, Kind, Phase

FEWEST = 2  # per step; one copy of the images or of the last features is no pattern

# Those of images and volumes, for which PyTorch knows both orders of dimensions as memory formats.
_CONVOLUTION = regex(r"aten::(?:conv[23]d|conv_transpose[23]d|convolution)")
_PERMUTE = regex(r"aten::(?:permute|transpose|movedim|swapaxes|swapdims)")
_COPY = regex(r"aten::(?:contiguous|clone)")
_WRITES = "aten::copy_"
_GRADIENT = "aten::convolution_backward"


def permuted_copies(facts: Facts) -> AnyRows:
    """Copies of permuted tensors right before and after convolutions, and those of gradients.

    They count if there are at least as many in the forward pass as convolutions: a model that
    permutes once or twice needs it.

    Returns:
        On an accelerator, the work that they launched, else the operations; (slices,).
    """
    none = np.empty(0, dtype=np.int64)
    if not is_pytorch(facts):
        return none
    forward = launched_ops(facts)
    forward = forward[facts.phases[forward] != Phase.BACKWARD]
    is_convolution = _is(facts, forward, _CONVOLUTION)
    copies = _that_copy(facts, forward[_is_around(facts, forward, is_convolution)])
    fewest = max(int(is_convolution.sum()), FEWEST * facts.steady_count)
    if len(copies) < fewest:
        return none
    return _work(facts, np.concatenate([copies, named(facts, _GRADIENT)]))


def _is(facts: Facts, rows: AnyRows, pattern: re.Pattern[str]) -> Mask:
    return facts.trace.matches(facts.trace.slices.name[rows], pattern.fullmatch)


def _is_around(facts: Facts, rows: AnyRows, is_convolution: Mask) -> Mask:
    """Mask of the copies in permute, copy, convolution, or in convolution, permute, copy; (rows,).

    Args:
        facts: Facts of the run.
        rows: Operations in the order of their launches; (rows,).
        is_convolution: Mask of the convolutions; (rows,).
    """
    is_permute, padded = _is(facts, rows, _PERMUTE), np.pad(is_convolution, 2)
    before, after = padded[3:-1], padded[:-4]  # the next operation, and that before the permute
    copies = _is(facts, rows, _COPY)
    found: Mask = copies & np.pad(is_permute, 1)[:-2] & (before | after)
    return found


def _that_copy(facts: Facts, ops: AnyRows) -> AnyRows:
    """Those of some operations inside of which something is copied, ascending."""
    around = climb(facts.nesting, named(facts, _WRITES), _mask(facts, ops))
    return distinct(around[around != NULL])


def _mask(facts: Facts, rows: AnyRows) -> Mask:
    chosen = np.zeros(len(facts.trace.slices), dtype=bool)
    chosen[rows] = True
    return chosen


def _work(facts: Facts, ops: AnyRows) -> AnyRows:
    """What copies within some operations."""
    writes = named(facts, _WRITES)
    writes = _inside(facts, writes, writes, _mask(facts, ops))
    if not facts.has_accelerator:
        return writes
    rows = steady_work(facts, Kind.KERNEL, Kind.MEMCPY)
    calls = facts.launches.calls_of(rows)
    rows, calls = rows[calls != NULL], calls[calls != NULL]
    return _inside(facts, rows, calls, _mask(facts, writes))


def _inside(facts: Facts, rows: AnyRows, calls: AnyRows, chosen: Mask) -> AnyRows:
    """The slices whose calls are inside of chosen ones."""
    found: AnyRows = rows[climb(facts.nesting, calls, chosen) != NULL]
    return found
