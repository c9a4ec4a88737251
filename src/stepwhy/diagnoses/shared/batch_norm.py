"""Batch normalisations that a program writes out as single operations.

In a graph, the operations of one normalisation share a name scope; in an eager program they follow
one another. Sources: `tf.nn.moments` and `tf.nn.batch_normalization` (`nn_impl.py`), the gradient
scopes of `tf.gradients`, the operators of PyTorch, and the way in which autograd numbers them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from stepwhy.columns.groups import distinct, numbered
from stepwhy.columns.sums import total_of
from stepwhy.diagnoses.shared.measure import by_name, nearest, outermost
from stepwhy.diagnoses.shared.slices import ops_of_nodes, steady_work
from stepwhy.patterns import regex
from stepwhy.trace import NULL, Kind, Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepwhy.diagnoses.shared.slices import Rows
    from stepwhy.passes.facts import Facts

CONVOLUTION = regex(
    r"_?(Fused)?(Depthwise)?Conv[23]D(Native)?|aten::(conv[123]d|conv_transpose[123]d|convolution)"
)
FUSED = regex(r"_?FusedBatchNorm(Ex|V[23])?|aten::batch_norm")


class WrittenOut(msgspec.Struct, frozen=True):
    """The batch normalisations that were found.

    Args:
        names: Their scopes in a graph; () where they have none.
        per_step: How many a step has.
        rows: The device work of all of them in the steady steps, backward included; (slices,).
        group: Equal for the work of one normalisation in one direction and step; (slices,).
        backward: Whether each is of the backward pass; (slices,).
        doubtful: Normalisations that may be of another kind.
    """

    names: tuple[str, ...]
    per_step: float
    rows: Rows
    group: NDArray[np.int64]
    backward: NDArray[np.bool_]
    doubtful: int = 0


# --- graphs ------------------------------------------------------------------------------------

# Functions of the library open a scope each, so that one normalisation has two side by side;
# 'batchnorm_1' goes with 'moments_1'.
_FUNCTION = regex(r"(?P<scope>(?:.*/)?)(?:moments|batchnorm)(?P<number>(?:_\d+)?)/[^/]+")
_GRADIENT = regex(r"(?:.*/)?gradients(?:_\d+)?/(?P<node>.+?)_grad/.+")
_ROOTS = frozenset({"Rsqrt", "Sqrt"})
_SCALING = frozenset({"Mul", "RealDiv", "Div"})
_UPDATE = regex(r"Assign(Sub|Add)?(VariableOp)?")
_BATCH = regex(r"(^|[/_\d])bn(?=[/_\d])|batch_?norm", re.IGNORECASE)
_OTHER_KIND = regex(r"(layer|instance|group)_?norm|(^|[/_\d])(ln|gn)(?=[/_\d])", re.IGNORECASE)
_HEAVY = regex(r"\w*(Conv\d|MatMul|Pool|Softmax)\w*")


class _Place(NamedTuple):
    """Where the operations of one normalisation are.

    Args:
        scope: Name scope, with a slash behind it; '' for the outermost.
        number: Which of several in it ('_1').
        by_function: Whether functions of the library made the operations.
    """

    scope: str
    number: str
    by_function: bool


def in_graph(facts: Facts) -> WrittenOut:
    """The normalisations among operations with a name in the graph."""
    slices, text = facts.trace.slices, facts.trace.string
    named = ops_of_nodes(facts, Kind.KERNEL, Kind.OP).items()
    ops = {scope: _Node(text(scope), text(name)) for scope, name in named}
    places, doubtful = _places(ops)
    member = {s: place for s, n in ops.items() if (place := _member(n.node, places)) is not None}
    wanted = np.zeros(len(facts.trace.strings) + 1, dtype=bool)
    wanted[list(member)] = True
    on_device = steady_work(facts, Kind.KERNEL, Kind.OP)
    on_device = on_device[wanted[slices.scope[on_device]]]
    keys = np.array([member[s] for s in slices.scope[on_device].tolist()], dtype=np.int64)
    keys = keys.reshape(-1, 2)
    step = np.searchsorted(facts.steps.starts, slices.start_ns[on_device], side="right")
    group = (step * (len(places) + 1) + keys[:, 0]) * 2 + keys[:, 1]
    names = tuple(f"{p.scope}batchnorm{p.number}" if p.by_function else p.scope for p in places)
    return WrittenOut(names, len(places), on_device, group, keys[:, 1].astype(bool), doubtful)


class _Node(NamedTuple):
    """A node of the graph that ran: its name and op type."""

    node: str
    op: str


def _places(ops: Mapping[int, _Node]) -> tuple[list[_Place], int]:
    """Where batch normalisations are written out, and how many others may be some."""
    members: dict[_Place, Counter[str]] = defaultdict(Counter)
    updated: set[str] = set()
    for node, op in ops.values():
        if _GRADIENT.fullmatch(node) is None:
            members[_place(node)][op] += 1
            updated |= _scopes_around(node) if _UPDATE.fullmatch(op) else set()
    normalising = [p for p, found in members.items() if _normalises(found, p)]
    normalising = [p for p in normalising if not _OTHER_KIND.search(p.scope)]
    sure = [p for p in normalising if _BATCH.search(p.scope) or p.scope in updated]
    return sure, len(normalising) - len(sure)


def _place(node: str) -> _Place:
    match = _FUNCTION.fullmatch(node)
    if match is not None:
        return _Place(match["scope"], match["number"], by_function=True)
    return _Place(node[: node.rfind("/") + 1], "", by_function=False)


def _scopes_around(node: str) -> set[str]:
    """All scopes that a node is in, with a slash behind each."""
    return {node[: end + 1] for end, letter in enumerate(node) if letter == "/"} | {""}


def _normalises(found: Counter[str], place: _Place) -> bool:
    """Whether operations take two statistics, a root and a product, and nothing heavy."""
    return (
        found["Mean"] > 1
        and any(found[op] for op in _ROOTS)
        and any(found[op] for op in _SCALING)
        and (place.by_function or not any(_HEAVY.fullmatch(op) for op in found))
    )


def _member(node: str, places: list[_Place]) -> tuple[int, int] | None:
    """Number of the normalisation that a node belongs to, and whether to its backward pass."""
    gradient = _GRADIENT.fullmatch(node)
    place = _place(gradient["node"] if gradient else node)
    return (places.index(place), int(gradient is not None)) if place in places else None


# --- eager programs ----------------------------------------------------------------------------

_STATISTIC = regex(r"aten::(mean|var|var_mean|std|std_mean)")
_ROOT = regex(r"aten::(sqrt|rsqrt|std|std_mean)_?")
_PRODUCT = regex(r"aten::(mul|lerp)")
_IN_PLACE = regex(r"aten::(mul|add|sub|lerp|copy)_")
# What a normalisation may consist of; anything else ends it.
_ALPHABET = regex(
    r"aten::(mean|var|var_mean|std|std_mean|sum|sub|rsub|add|mul|div|lerp|pow|square|sqrt|rsqrt|neg"
    r"|reciprocal|copy|detach|lift_fresh|alias|view|reshape|unsqueeze|squeeze|expand|expand_as"
    r"|permute|transpose|slice|select|to|_to_copy|ones_like|zeros_like|clone|contiguous|item"
    r"|_local_scalar_dense|clamp|clamp_min|numel)_?"
)
# A scale and a square are two products; what multiplies more often keeps running statistics.
_OWN_PRODUCTS = 2
_FEWEST_UPDATES = 2  # mean and variance


def in_calls(facts: Facts) -> WrittenOut:
    """The normalisations among the calls of an eager program.

    A layer normalisation is made of the same operations. Only a batch normalisation keeps running
    statistics, so the operations that update them have to be there.
    """
    tops = _top_calls(facts)
    groups, doubtful = _groups(facts, tops)
    if not groups:
        none = np.empty(0, dtype=np.int64)
        return WrittenOut((), 0.0, none, none, none.astype(bool), doubtful)
    outer = outermost(facts, Kind.OP)
    forward = {row: number for number, group in enumerate(groups) for row in group}
    backward = _backward(facts, outer, groups)
    owner = {row: (number, 0) for row, number in forward.items()} | {
        row: (number, 1) for row, number in backward.items()
    }
    rows, called_by = _work(facts, outer, np.array(sorted(owner), dtype=np.int64))
    keys = np.array([owner[row] for row in called_by.tolist()], dtype=np.int64).reshape(-1, 2)
    steps = max(facts.steady_count, 1)
    return WrittenOut(
        (),
        len(groups) / steps,
        rows,
        keys[:, 0] * 2 + keys[:, 1],
        keys[:, 1].astype(bool),
        doubtful,
    )


def _top_calls(facts: Facts) -> list[NDArray[np.int64]]:
    """Operations that no other operation calls, per host thread, in order of time."""
    rows = facts.slices(Kind.OP, steady=True)
    tracks = facts.trace.slices.track[rows]
    around = facts.nesting.parent[rows]
    is_called = (around != NULL) & (nearest(facts, Kind.OP)[around] != NULL)
    on_top = ~is_called & (facts.trace.tracks.role[tracks] == Role.HOST_THREAD)
    rows, tracks = rows[on_top], tracks[on_top]
    return [rows[tracks == track] for track in distinct(tracks)]


def _groups(facts: Facts, threads: list[NDArray[np.int64]]) -> tuple[list[list[int]], int]:
    """Runs of operations that normalise a batch, and how many more normalise something."""
    found, doubtful = [], 0
    for calls in threads:
        names, place = numbered(facts.trace.slices.name[calls])
        texts = [facts.trace.string(int(name)) for name in names]
        for begin, end in _normalising(texts, place):
            kept = _keeps_statistics([texts[i] for i in place[begin:end].tolist()])
            found += [calls[begin:end].tolist()] if kept else []
            doubtful += not kept
    return found, doubtful


def _normalising(texts: list[str], place: NDArray[np.int32]) -> list[tuple[int, int]]:
    """Runs of operations of the alphabet that take a mean, a variance and a root.

    Args:
        texts: Names of operations.
        place: The name of every operation of a thread, in order of time; (operations,).
    """
    foreign = [_ALPHABET.fullmatch(text) is None for text in texts]
    ends = np.flatnonzero(np.asarray(foreign, dtype=bool)[place])
    begin, end = np.append(0, ends + 1), np.append(ends, len(place))

    def count(numbers: list[int]) -> NDArray[np.int64]:
        before = np.concatenate([[0], np.cumsum(np.asarray(numbers, dtype=np.int64)[place])])
        total: NDArray[np.int64] = before[end] - before[begin]
        return total

    taken = count([_statistics_of(text) for text in texts])
    roots = count([_ROOT.fullmatch(text) is not None for text in texts])
    chosen = (taken > 1) & (roots > 0)
    return list(zip(begin[chosen].tolist(), end[chosen].tolist(), strict=True))


def _statistics_of(name: str) -> int:
    """How many of mean and variance an operation takes."""
    return 0 if _STATISTIC.fullmatch(name) is None else 2 if "_mean" in name else 1


def _keeps_statistics(names: list[str]) -> bool:
    in_place = sum(_IN_PLACE.fullmatch(name) is not None for name in names)
    products = sum(_PRODUCT.fullmatch(name) is not None for name in names)
    return in_place + max(products - _OWN_PRODUCTS, 0) >= _FEWEST_UPDATES


def _backward(facts: Facts, outer: NDArray[np.int32], groups: list[list[int]]) -> dict[int, int]:
    """Operations of the backward pass, with the group whose gradient they compute."""
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


def _work(facts: Facts, outer: NDArray[np.int32], calls: Rows) -> tuple[Rows, Rows]:
    """The device work that some calls cause, and the call behind each; twice (slices,)."""
    if not facts.has_accelerator:
        return calls, calls
    rows, launching = facts.launches.joined
    callers = outer[launching]
    is_wanted = np.isin(callers, calls)
    return rows[is_wanted], callers[is_wanted]


def count_of(facts: Facts, pattern: re.Pattern[str]) -> int:
    """How many operations of the steady steps have a name that matches in full.

    Args:
        facts: Facts of the run.
        pattern: The names.
    """
    groups = by_name(facts, facts.slices(Kind.OP, Kind.KERNEL, steady=True))
    return sum(group.count for group in groups if pattern.fullmatch(group.name))


def attributed(facts: Facts) -> float:
    """Share of the kernels' time of which the launching operation is known, 0..1; 1 on a CPU."""
    slices, launches = facts.trace.slices, facts.launches
    if not facts.has_accelerator:
        return 1.0
    work, calls = launches.joined
    is_named = np.zeros(len(slices), dtype=bool)
    is_named[work[nearest(facts, Kind.OP)[calls] != NULL]] = True
    rows = facts.slices(Kind.KERNEL, steady=True)
    named, whole = total_of(slices.dur_ns[rows[is_named[rows]]]), total_of(slices.dur_ns[rows])
    return named / max(whole, 1) if len(rows) else 1.0
