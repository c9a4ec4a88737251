"""Operations on float64, where the profiler recorded the types of their arguments."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.program.operands import shapes_of, types_of
from stepwhy.base.columns.types import AnyRows, Ints
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import Group, by_string, on_scale
from stepwhy.trace import NULL, Kind, Phase

_DOUBLE = frozenset({"float64", "complex128"})
_SHORTER = frozenset({"float32", "float16", "bfloat16", "complex64"})
_COPY = "aten::copy_"
# Random numbers take as long in any type. Source: names in native_functions.yaml of PyTorch.
_RANDOM = regex(r"aten::(?:bernoulli|uniform|normal|random|exponential|rand\w*|native_dropout)_?")


class Float64Work(msgspec.Struct, frozen=True):
    """Operations on float64 in the steady steps.

    Args:
        count: Number of them per step.
        computing_ns: Time per step in those that compute.
        converting_ns: Time per step in those that convert from or to another type.
        longest: Those with the most time, by name.
        rows: All of them; (slices,).
        enters: The first of a step that mixes float64 with a shorter type, with its tensors;
            '' if none does.
        enters_ns: How long it takes.
    """

    count: float
    computing_ns: int
    converting_ns: int
    longest: list[Group]
    rows: AnyRows
    enters: str
    enters_ns: int


def float64_work(facts: Facts) -> Float64Work:
    """The operations on float64 tensors, without those that draw random numbers."""
    trace = facts.trace
    rows = facts.slices(Kind.OP, steady=True)
    types = _types(facts, rows)
    is_double, is_mixed = types == _ONLY_DOUBLE, types == _MIXED
    is_random = trace.matches(trace.slices.name[rows], _RANDOM.fullmatch)
    is_copy = np.isin(trace.slices.name[rows], trace.strings_where([_COPY]))
    own_ns = facts.nesting.self_ns(rows)
    computes = (is_double | is_mixed & ~is_copy) & ~is_random
    converts = is_mixed & is_copy
    chosen = computes | converts
    return Float64Work(
        int(chosen.sum()) / max(facts.steady_count, 1),
        _scaled(facts, own_ns[computes]),
        _scaled(facts, own_ns[converts]),
        by_string(facts, trace.slices.name[rows[chosen]], own_ns[chosen])[:3],
        rows[chosen],
        *_first(facts, rows[is_mixed & ~is_copy]),
    )


_OTHER, _ONLY_DOUBLE, _MIXED = range(3)


def _types(facts: Facts, rows: AnyRows) -> NDArray[np.int8]:
    """Whether the tensors of each operation are float64, all of them or some; (rows,)."""
    texts = np.stack([types_of(facts.trace)[rows], shapes_of(facts.trace)[rows]], axis=1)
    pairs, place = np.unique(texts, axis=0, return_inverse=True)
    codes = np.array([_code(facts, *pair) for pair in pairs.tolist()], dtype=np.int8)
    return codes[place.reshape(-1)] if len(rows) else np.empty(0, dtype=np.int8)


def _code(facts: Facts, types: int, shapes: int) -> int:
    if types == NULL:
        return _OTHER
    tensors = {kind for kind, _ in _tensors(facts, types, shapes)}
    if not tensors & _DOUBLE:
        return _OTHER
    return _MIXED if tensors & _SHORTER else _ONLY_DOUBLE


def _tensors(facts: Facts, types: int, shapes: int) -> list[tuple[str, str]]:
    """Type and shape of each argument with dimensions: scalars do not decide the result's type."""
    string: Callable[[int], str] = facts.trace.string
    pairs = zip(string(types).split(","), string(shapes).split(","), strict=False)
    return [(kind, shape) for kind, shape in pairs if kind and shape]


def _scaled(facts: Facts, own_ns: Ints) -> int:
    return on_scale(facts, facts.mean_ns(float(own_ns.sum())), "compute")


def _first(facts: Facts, rows: AnyRows) -> tuple[str, int]:
    """The first of some operations that is not of the backward pass, and its time; '' for none."""
    forward = rows[facts.phases[rows] != Phase.BACKWARD]
    if not len(forward):
        return "", 0
    row, slices = int(forward[0]), facts.trace.slices
    tensors = _tensors(facts, int(types_of(facts.trace)[row]), int(shapes_of(facts.trace)[row]))
    described = " and ".join(f"{kind} [{shape.replace('x', ', ')}]" for kind, shape in tensors)
    name = facts.trace.string(int(slices.name[row]))
    return f"{name} of {described}", int(slices.dur_ns[row])
