"""Gradients of the same operations that a graph of TensorFlow 1 computes for one output each."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np

from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.rule import Facts
from stepwhy.diagnose.shared.slices import steady_work
from stepwhy.trace import NULL, Kind

FEWEST = 16
"""Calls of `tf.gradients` at one line; those for losses, towers or players of a game are fewer."""

# `tf.gradients` opens a scope of this name for each call; one for its results opens it around.
_SCOPE = regex(r"(?P<scope>gradients(?:_\d+)?)/(?P<node>.+)")
_LATER = regex(r"(?:gradients(?:_\d+)?/)?(?P<scope>gradients(?:_\d+)?)/.+")


class ByOutput(NamedTuple):
    """What computes the gradients, and their gradients.

    Args:
        rows: Operations in the steady steps; slices.
        calls: Number of calls of `tf.gradients`.
        line: The line that makes these calls.
    """

    rows: AnyRows
    calls: int
    line: str


def gradients_by_output(facts: Facts) -> ByOutput | None:
    """The line that asks most often for gradients of the same operations; None if none does."""
    trace, nodes = facts.trace, facts.trace.nodes
    scopes: defaultdict[int, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, source in zip(nodes.name.tolist(), nodes.source.tolist(), strict=True):
        found = _SCOPE.fullmatch(trace.string(name)) if source != NULL else None
        if found:
            scopes[source][found["node"]].add(found["scope"])
    # The most calls that have a gradient of one operation.
    most = Counter({source: max(map(len, by.values())) for source, by in scopes.items()})
    (source, calls), *_ = most.most_common(1) or [(NULL, 0)]
    if calls < FEWEST:
        return None
    own = {scope for every in scopes[source].values() for scope in every}
    rows = steady_work(facts, Kind.KERNEL, Kind.OP)
    rows = rows[trace.slices.scope[rows] != NULL]
    inside = trace.matches(trace.slices.scope[rows], lambda name: _is_of(name, own))
    return ByOutput(rows[np.asarray(inside, dtype=bool)], calls, trace.string(source))


def _is_of(name: str, scopes: set[str]) -> bool:
    """Whether a node computes one of these gradients, or the gradient of one."""
    later = _LATER.fullmatch(name)
    first = _SCOPE.fullmatch(name)
    return bool(later and later["scope"] in scopes) or bool(first and first["scope"] in scopes)
