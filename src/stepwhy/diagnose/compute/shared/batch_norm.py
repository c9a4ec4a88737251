"""Find batch normalisations that consist of separate operations.

In a graph, the operations of one normalisation share a name scope; in an eager program they follow
one another. Sources: `tf.nn.moments` and `tf.nn.batch_normalization` (`nn_impl.py`), the gradient
scopes of `tf.gradients`, and the operators and autograd sequence numbers of PyTorch.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.program.placement import Node, placed_nodes
from stepwhy.base.columns.groups import distinct, numbered
from stepwhy.base.columns.types import AnyRows, Ints, Mask
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import by_name, nearest, outermost
from stepwhy.diagnose.shared.slices import ops_of_nodes, steady_work
from stepwhy.trace import NULL, Kind, Role

PlaceOf = Callable[[str], "_Place"]

CONVOLUTION = regex(
    r"_?(Fused)?(Depthwise)?Conv[23]D(Native)?|aten::(conv[123]d|conv_transpose[123]d|convolution)"
)
FUSED = regex(r"_?FusedBatchNorm(Ex|V[23])?|aten::batch_norm")


class UnfusedNorms(msgspec.Struct, frozen=True):
    """The unfused batch normalisations of a run.

    Args:
        names: Their name scopes in the graph; () for an eager program.
        per_step: Number of them per step.
        rows: Their device work in the steady steps, forward and backward; (slices,).
        group: Number that is equal for the work of one normalisation in one direction and step;
            (slices,).
        backward: Mask of the work in the backward pass; (slices,).
        doubtful: Number of further normalisations that may be of another kind.
        predicts: Whether all of them use stored statistics, as a model does that only predicts.
    """

    names: tuple[str, ...]
    per_step: float
    rows: AnyRows
    group: Ints
    backward: Mask
    doubtful: int = 0
    predicts: bool = False


# --- graphs ------------------------------------------------------------------------------------

# `tf.nn.moments` and `tf.nn.batch_normalization` each open a scope, so one normalisation has two
# sibling scopes; 'batchnorm_1' belongs to 'moments_1'. Where only the moments are the library's,
# the arithmetic is in the scope around them.
_FUNCTION = regex(r"(?P<scope>(?:.*/)?)(?P<function>moments|batchnorm)(?P<number>(?:_\d+)?)/[^/]+")
_GRADIENT = regex(r"(?:.*/)?gradients(?:_\d+)?/(?P<node>.+?)_grad/.+")
_ROOTS = frozenset({"Rsqrt", "Sqrt"})
_SCALING = frozenset({"Mul", "RealDiv", "Div"})
_UPDATE = regex(r"Assign(Sub|Add)?(VariableOp)?")
_RUNNING_UPDATE = regex(r"Assign(Sub|Add)(VariableOp)?")
_BATCH = regex(r"(^|[/_\d])bn(?=[/_\d])|batch_?norm", re.IGNORECASE)
_OTHER_KIND = regex(r"(layer|instance|group)_?norm|(^|[/_\d])(ln|gn)(?=[/_\d])", re.IGNORECASE)
# Variables that hold statistics of the training, in the scope of a normalisation that predicts.
_STORED = regex(
    r"(?P<scope>(?:.*/)?)(?:moving|running|pop|population|global|ema)_?(?:mean|var)[^/]*(?:/.*)?",
    re.IGNORECASE,
)
_SUMS = frozenset({"Add", "AddV2", "Sub"})
_HEAVY = regex(r"\w*(Conv\d|MatMul|Pool|Softmax)\w*")
_NEIGHBOUR = regex(r"\w*(Conv\d|MatMul|Pool|Softmax|Relu|Elu)\w*")


class _Place(NamedTuple):
    """Location of one normalisation in the graph.

    Args:
        scope: Name scope with a trailing slash; '' for the outermost.
        number: Suffix of several normalisations in one scope ('_1'), or ''.
        by_function: Whether library functions created the operations.
    """

    scope: str
    number: str
    by_function: bool


def in_graph(facts: Facts) -> UnfusedNorms:
    """Find unfused batch normalisations by the names of graph nodes."""
    slices, text = facts.trace.slices, facts.trace.string
    named = ops_of_nodes(facts, Kind.KERNEL, Kind.OP).items()
    ops = {scope: _Node(text(scope), text(name)) for scope, name in named}
    place_of = _placing(ops.values())
    places, doubtful = _places(ops, place_of, _with_statistics(placed_nodes(facts)))
    stored = _by_stored_statistics(ops, place_of, places)
    places += stored
    member = {s: found for s, n in ops.items() if (found := _member(n, place_of, places))}
    is_member = np.zeros(len(facts.trace.strings) + 1, dtype=bool)
    is_member[list(member)] = True
    on_device = steady_work(facts, Kind.KERNEL, Kind.OP)
    on_device = on_device[is_member[slices.scope[on_device]]]
    keys = np.array([member[s] for s in slices.scope[on_device].tolist()], dtype=np.int64)
    keys = keys.reshape(-1, 2)
    step = np.searchsorted(facts.steps.starts, slices.start_ns[on_device], side="right")
    group = (step * (len(places) + 1) + keys[:, 0]) * 2 + keys[:, 1]
    names = tuple(f"{p.scope}batchnorm{p.number}" if p.by_function else p.scope for p in places)
    backward, predicts = keys[:, 1].astype(bool), bool(places) and stored == places
    return UnfusedNorms(names, len(places), on_device, group, backward, doubtful, predicts)


class _Node(NamedTuple):
    """A node of the graph that ran: its name and op type."""

    node: str
    op: str


def _with_statistics(nodes: Sequence[Node]) -> set[str]:
    """Scopes of a graph with running statistics, whether or not these are updated in the steps.

    A plain `Assign` is no evidence: it initialises any variable.
    """
    scopes: set[str] = set()
    for node in nodes:
        if (match := _STORED.fullmatch(node.name)) is not None:
            scopes.add(match["scope"])
        elif _RUNNING_UPDATE.fullmatch(node.op):
            scopes |= _scopes_around(node.name)
    return scopes - {""}


def _places(
    ops: Mapping[int, _Node], place_of: PlaceOf, keeping: set[str]
) -> tuple[list[_Place], int]:
    """Places of unfused batch normalisations, and the number of other candidates.

    Args:
        ops: The nodes that ran.
        place_of: Returns the place of a node.
        keeping: Scopes of the graph with running statistics.
    """
    members: dict[_Place, Counter[str]] = defaultdict(Counter)
    updated = set(keeping)
    for node, op in ops.values():
        if _GRADIENT.fullmatch(node) is None:
            members[place_of(node)][op] += 1
            updated |= _scopes_around(node) if _UPDATE.fullmatch(op) else set()
    # Where the arithmetic is in the scope of a whole model, it is not known what belongs to it.
    with_moments = {place_of(node) for node, _ in ops.values() if _is_of(node, "moments")}
    normalising = [p for p, found in members.items() if _normalises(found, p)]
    sure = [
        p
        for p in normalising
        if not _OTHER_KIND.search(p.scope) and (_BATCH.search(p.scope) or p.scope in updated)
    ]
    possible = {p for p in (*normalising, *with_moments) if not _OTHER_KIND.search(p.scope)}
    return sure, len(possible.difference(sure))


def _by_stored_statistics(
    ops: Mapping[int, _Node], place_of: PlaceOf, found: list[_Place]
) -> list[_Place]:
    """Places of batch normalisations by the statistics of a training, in a graph that predicts.

    No mean is computed in them. Their scope is that of the library's function, or contains the
    variables of the statistics; these belong to the innermost scope with arithmetic.
    """
    members: dict[_Place, Counter[str]] = defaultdict(Counter)
    stored: set[str] = set()
    for node, op in ops.values():
        if _GRADIENT.fullmatch(node) is None:
            members[place_of(node)][op] += 1
        if (match := _STORED.fullmatch(node)) is not None:
            stored.add(match["scope"])
    return [
        place
        for place, inside in members.items()
        if place not in found
        and _scales(inside)
        and not _OTHER_KIND.search(place.scope)
        and (place.by_function or place.scope in stored)
    ]


def _scales(found: Counter[str]) -> bool:
    """Whether operations scale and shift, and compute no statistics.

    The root of a stored variance may have been computed when the graph was optimised.
    """
    if any(found[op] for op in ("Mean", "Sum", "SquaredDifference")):
        return False
    return any(found[op] for op in _SCALING) and any(found[op] for op in _SUMS)


def _is_of(node: str, function: str) -> bool:
    """Whether a call of a function of the library made a node."""
    match = _FUNCTION.fullmatch(node)
    return match is not None and match["function"] == function


def _placing(nodes: Iterable[_Node]) -> PlaceOf:
    """The function from the name of a node to its place."""
    matches = (_FUNCTION.fullmatch(node) for node, _ in nodes if _GRADIENT.fullmatch(node) is None)
    calls = {
        (match["scope"], match["number"])
        for match in matches
        if match is not None and match["function"] == "batchnorm"
    }

    def place_of(node: str) -> _Place:
        match = _FUNCTION.fullmatch(node)
        if match is None:
            return _Place(node[: node.rfind("/") + 1], "", by_function=False)
        if (match["scope"], match["number"]) in calls:
            return _Place(match["scope"], match["number"], by_function=True)
        return _Place(match["scope"], "", by_function=False)

    return place_of


def _scopes_around(node: str) -> set[str]:
    """All scopes around a node, each with a trailing slash."""
    return {node[: end + 1] for end, letter in enumerate(node) if letter == "/"} | {""}


def _normalises(found: Counter[str], place: _Place) -> bool:
    """Whether the operations are two means, a root and a product, and none is heavy."""
    return (
        found["Mean"] > 1
        and any(found[op] for op in _ROOTS)
        and any(found[op] for op in _SCALING)
        and (place.by_function or not any(_HEAVY.fullmatch(op) for op in found))
    )


def _member(ran: _Node, place_of: PlaceOf, places: list[_Place]) -> tuple[int, int] | None:
    """Index of the place of a node, and 1 for its backward pass, else 0; None outside of all.

    A convolution in the same scope, and the activation after it, do not normalise.
    """
    gradient = _GRADIENT.fullmatch(ran.node)
    place = place_of(gradient["node"] if gradient else ran.node)
    if place not in places or _NEIGHBOUR.fullmatch(ran.op):
        return None
    return places.index(place), int(gradient is not None)


# --- eager programs ----------------------------------------------------------------------------

_STATISTIC = regex(r"aten::(mean|var|var_mean|std|std_mean)")
_ROOT = regex(r"aten::(sqrt|rsqrt|std|std_mean)_?")
_PRODUCT = regex(r"aten::(mul|lerp)")
_IN_PLACE = regex(r"aten::(mul|add|sub|lerp|copy)_")
# Operations that a normalisation may consist of; any other one ends it.
_ALPHABET = regex(
    r"aten::(mean|var|var_mean|std|std_mean|sum|sub|rsub|add|mul|div|lerp|pow|square|sqrt|rsqrt|neg"
    r"|reciprocal|copy|detach|lift_fresh|alias|view|reshape|unsqueeze|squeeze|expand|expand_as"
    r"|permute|transpose|slice|select|to|_to_copy|ones_like|zeros_like|clone|contiguous|item"
    r"|_local_scalar_dense|clamp|clamp_min|numel)_?"
)
# Scale and square are two products; further ones update running statistics.
_OWN_PRODUCTS = 2
_FEWEST_UPDATES = 2  # mean and variance


def in_calls(facts: Facts) -> UnfusedNorms:
    """Find unfused batch normalisations in the operations of an eager program.

    A layer normalisation consists of the same operations, but has no running statistics. So only
    normalisations that update running statistics count.
    """
    tops = _top_calls(facts)
    groups, doubtful = _groups(facts, tops)
    if not groups:
        none = np.empty(0, dtype=np.int64)
        return UnfusedNorms((), 0.0, none, none, none.astype(bool), doubtful)
    outer = outermost(facts, Kind.OP)
    forward = {row: number for number, group in enumerate(groups) for row in group}
    backward = _backward(facts, outer, groups)
    owner = {row: (number, 0) for row, number in forward.items()} | {
        row: (number, 1) for row, number in backward.items()
    }
    rows, called_by = _work(facts, outer, np.array(sorted(owner), dtype=np.int64))
    keys = np.array([owner[row] for row in called_by.tolist()], dtype=np.int64).reshape(-1, 2)
    steps = max(facts.steady_count, 1)
    return UnfusedNorms(
        (),
        len(groups) / steps,
        rows,
        keys[:, 0] * 2 + keys[:, 1],
        keys[:, 1].astype(bool),
        doubtful,
    )


def _top_calls(facts: Facts) -> list[Ints]:
    """Top-level operations of each host thread, in time order."""
    rows = facts.slices(Kind.OP, steady=True)
    tracks = facts.trace.slices.track[rows]
    around = facts.nesting.parent[rows]
    is_called = (around != NULL) & (nearest(facts, Kind.OP)[around] != NULL)
    on_top = ~is_called & (facts.trace.tracks.role[tracks] == Role.HOST_THREAD)
    rows, tracks = rows[on_top], tracks[on_top]
    return [rows[tracks == track] for track in distinct(tracks)]


def _groups(facts: Facts, threads: list[Ints]) -> tuple[list[list[int]], int]:
    """Operations of each batch normalisation, and the number of other normalisations."""
    found, doubtful = [], 0
    for calls in threads:
        names, place = numbered(facts.trace.slices.name[calls])
        texts = [facts.trace.string(int(name)) for name in names]
        for begin, end in _normalising(texts, place):
            ops = [texts[i] for i in place[begin:end].tolist()]
            in_place = sum(_IN_PLACE.fullmatch(op) is not None for op in ops)
            products = sum(_PRODUCT.fullmatch(op) is not None for op in ops)
            kept = in_place + max(products - _OWN_PRODUCTS, 0) >= _FEWEST_UPDATES
            found += [calls[begin:end].tolist()] if kept else []
            doubtful += not kept
    return found, doubtful


def _normalising(texts: list[str], place: NDArray[np.int32]) -> list[tuple[int, int]]:
    """Ranges of consecutive operations of the alphabet with a mean, a variance and a root.

    Args:
        texts: Names of operations.
        place: Index into `texts` for each operation of a thread, in time order; (operations,).
    """
    foreign = [_ALPHABET.fullmatch(text) is None for text in texts]
    ends = np.flatnonzero(np.asarray(foreign, dtype=bool)[place])
    begin, end = np.append(0, ends + 1), np.append(ends, len(place))

    def count(numbers: list[int]) -> Ints:
        before = np.concatenate([[0], np.cumsum(np.asarray(numbers, dtype=np.int64)[place])])
        total: Ints = before[end] - before[begin]
        return total

    statistics = count([_statistics_of(text) for text in texts])
    roots = count([_ROOT.fullmatch(text) is not None for text in texts])
    chosen = (statistics > 1) & (roots > 0)
    return list(zip(begin[chosen].tolist(), end[chosen].tolist(), strict=True))


def _statistics_of(name: str) -> int:
    """Number of statistics that an operation computes: 2 for mean and variance, or 1, or 0."""
    return 0 if _STATISTIC.fullmatch(name) is None else 2 if "_mean" in name else 1


def _backward(facts: Facts, outer: NDArray[np.int32], groups: list[list[int]]) -> dict[int, int]:
    """Index of the group whose gradient an operation computes, by row of the operation."""
    slices = facts.trace.slices
    numbered = {
        number: place
        for place, group in enumerate(groups)
        for number in slices.sequence[group].tolist()
        if number != NULL
    }
    rows = facts.slices(Kind.OP, steady=True)
    rows = rows[(outer[rows] == rows) & np.isin(slices.sequence[rows], list(numbered))]
    forward = {row for group in groups for row in group}
    return {
        row: numbered[number]
        for row, number in zip(rows.tolist(), slices.sequence[rows].tolist(), strict=True)
        if row not in forward and facts.trace.string(int(slices.name[row])).startswith("autograd::")
    }


def _work(facts: Facts, outer: NDArray[np.int32], calls: AnyRows) -> tuple[AnyRows, AnyRows]:
    """Device work that some calls cause, and the call that caused each slice; (slices,) twice."""
    if not facts.has_accelerator:
        return calls, calls
    rows, launching = facts.launches.joined
    callers = outer[launching]
    is_caused = np.isin(callers, calls)
    return rows[is_caused], callers[is_caused]


def count_of(facts: Facts, pattern: re.Pattern[str]) -> int:
    """Count the operations of the steady steps whose whole name matches a pattern.

    Args:
        facts: Facts of the run.
        pattern: Pattern of the names.
    """
    groups = by_name(facts, facts.slices(Kind.OP, Kind.KERNEL, steady=True))
    return sum(group.count for group in groups if pattern.fullmatch(group.name))
