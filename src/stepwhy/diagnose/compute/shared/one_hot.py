"""Matrix products whose first factor are one-hot rows, on a CPU."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.program.operands import shapes_of
from stepwhy.base.columns.groups import distinct
from stepwhy.base.columns.types import AnyRows, Mask
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.slices import launched_ops, named
from stepwhy.trace import NULL, FlowKind, Kind, Phase

_ONE_HOT, _WRITE = "aten::one_hot", "aten::scatter_"
_BETWEEN = regex(r"aten::(?:to|type_as|_to_copy|view|reshape|flatten)")
_PRODUCT = regex(r"aten::(?:matmul|mm|linear|addmm)")
_GRADIENT = regex(r"autograd::engine::evaluate_function: .*")
_MOST_BETWEEN = 3  # conversions and views between the rows and their product
# The same in a graph of TensorFlow.
_OF_GRAPH, _PASSED_ON = "OneHot", frozenset({"Reshape", "Cast", "Identity"})
_PRODUCTS = frozenset({"MatMul", "BatchMatMulV2"})
_OF_GRADIENT = regex(r"(?:.*/)?gradients(?:_\d+)?/")


class OneHot(msgspec.Struct, frozen=True):
    """Operations on one-hot rows in the steady steps.

    Args:
        rows: Those that make the rows, convert and multiply them, with gradients; slices.
        shape: Shape of the largest ones, such as '16 x 64 x 8000'; '' if unknown.
    """

    rows: AnyRows
    shape: str


def of_pytorch(facts: Facts) -> OneHot | None:
    """Those of a program of PyTorch; None if there are one-hot rows of unknown shape."""
    made = named(facts, _ONE_HOT)
    if not len(made):
        return OneHot(made, "")
    if not len(facts.trace.operands):
        return None
    launched, shapes = launched_ops(facts), shapes_of(facts.trace)
    found: list[int] = []
    largest = ""
    for row in np.intersect1d(made, launched).tolist():
        shape = _shape_of_rows(facts, row, shapes)
        place = int(np.searchsorted(launched, row))
        chain = _chain(facts, launched[place : place + _MOST_BETWEEN + 2], shape, shapes)
        if chain:
            found += chain
            largest = max(largest, shape, key=len)
    rows = np.asarray(found, dtype=np.int64)
    return OneHot(np.concatenate([rows, gradients_of(facts, rows)]), largest.replace("x", " x "))


def of_graph(facts: Facts) -> OneHot | None:
    """Those of a graph, by what flows where; None if that is not recorded for one-hot rows."""
    slices, flows = facts.trace.slices, facts.trace.flows
    rows = facts.slices(Kind.KERNEL, Kind.OP, steady=True)
    made = rows[slices.name[rows] == _string(facts, _OF_GRAPH)]
    data = flows.kind == FlowKind.DATA
    if len(made) and not np.isin(made, flows.source[data]).any():
        return None
    passing, products = made, made[:0]
    for _ in range(_MOST_BETWEEN + 1):
        reached = flows.target[data & np.isin(flows.source, passing)]
        products = np.append(products, reached[_named(facts, reached, _PRODUCTS)])
        passing = reached[_named(facts, reached, _PASSED_ON)]
    is_forward = ~facts.trace.matches(slices.scope[products], _OF_GRADIENT.match)
    if not is_forward.any():
        return OneHot(made[:0], "")
    return OneHot(np.concatenate([made, distinct(products)]), "")


def _named(facts: Facts, rows: AnyRows, names: frozenset[str]) -> Mask:
    return np.isin(facts.trace.slices.name[rows], facts.trace.strings_where(names))


def _shape_of_rows(facts: Facts, row: int, shapes: NDArray[np.int32]) -> str:
    """Shape of the result of a one-hot operation: that of what it writes the ones into."""
    slices = facts.trace.slices
    end_ns = slices.start_ns[row] + slices.dur_ns[row]
    inside = np.arange(row + 1, np.searchsorted(slices.start_ns, end_ns))
    inside = inside[facts.nesting.parent[inside] == row]
    written = inside[slices.name[inside] == _string(facts, _WRITE)]
    return _first_shape(facts, int(written[0]), shapes) if len(written) else ""


def _chain(facts: Facts, launched: AnyRows, shape: str, shapes: NDArray[np.int32]) -> list[int]:
    """A one-hot operation, conversions, and the product of its result; [] without that.

    Args:
        facts: Facts of the run.
        launched: The one-hot operation and those launched after it.
        shape: Shape of its result.
        shapes: Of all slices.
    """
    for number, row in enumerate(launched.tolist()[1:], start=1):
        name = facts.trace.string(int(facts.trace.slices.name[row]))
        if _PRODUCT.fullmatch(name):
            is_factor = shape and _same(_first_shape(facts, row, shapes), shape)
            return launched[: number + 1].tolist() if is_factor else []
        if not _BETWEEN.fullmatch(name):
            return []
    return []


def _same(factor: str, rows: str) -> bool:
    """Whether a factor is the one-hot rows, in their shape or as one row per line."""
    sizes = [int(size) for size in rows.split("x")]
    flat = f"{int(np.prod(sizes[:-1]))}x{sizes[-1]}"
    return factor in {rows, flat}


def _first_shape(facts: Facts, row: int, shapes: NDArray[np.int32]) -> str:
    return facts.trace.string(int(shapes[row])).partition(",")[0]


def gradients_of(facts: Facts, rows: AnyRows) -> AnyRows:
    """The gradients of some operations, which have their numbers; (slices,)."""
    slices = facts.trace.slices
    numbers = distinct(slices.sequence[rows])
    back = facts.slices(Kind.OP, Kind.FRAMEWORK, steady=True)
    back = back[facts.phases[back] == Phase.BACKWARD]
    back = back[facts.trace.matches(slices.name[back], _GRADIENT.fullmatch)]
    found: AnyRows = back[np.isin(slices.sequence[back], numbers[numbers != NULL])]
    return found


def _string(facts: Facts, text: str) -> int:
    found = facts.trace.strings_where([text])
    return int(found[0]) if len(found) else NULL
