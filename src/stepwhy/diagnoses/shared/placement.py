"""Nodes on the wrong device, and the copies between devices that they cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.diagnoses.shared.measure import Group, grouped, mean_within, on_scale, time_of
from stepwhy.diagnoses.shared.slices import scopes_among
from stepwhy.patterns import regex
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepwhy.diagnoses.shared.slices import Rows
    from stepwhy.passes.facts import Facts
    from stepwhy.passes.placement import DeviceCopy, Node

COPIED_FOR_OPS = "copied to and from them per step"
"""Evidence of operations on the wrong device, in bytes."""

IN_GRADIENTS = regex(r"(?:^|/)gradients(?:_\d+)?/")
_VARIABLE = regex(r"(Ref)?Variable(V2)?|VarHandleOp")
# 'kernel/read' of a reference variable, 'dense/MatMul/ReadVariableOp' of a resource.
_READ = regex(r"(?P<variable>.+?)/(read|(\w+/)?(Read\w*/)?ReadVariableOp)(_\d+)?")


def by_op(nodes: Iterable[Node]) -> list[Group]:
    """Nodes grouped by op type, most frequent first; `total_ns` is their number."""
    return grouped((node.op, 1) for node in nodes)


def listed(names: Iterable[str], most: int = 4) -> str:
    """Distinct names as text, in order of first occurrence, shortened to `most`."""
    distinct = [name for name in dict.fromkeys(names) if name]
    more = len(distinct) - most
    return ", ".join(distinct[:most]) + (f" and {more} more" if more > 0 else "")


def variable_of(facts: Facts, copy: DeviceCopy) -> str:
    """Name of the variable whose value is copied; '' if it is not a variable."""
    nodes = facts.trace.nodes
    name, op = (facts.trace.string(int(c[copy.source])) for c in (nodes.name, nodes.op))
    if _VARIABLE.fullmatch(op):
        return name
    match = _READ.fullmatch(name)
    return match["variable"] if match and op in {"Identity", "ReadVariableOp"} else ""


def variable_copies(facts: Facts, copies: Sequence[DeviceCopy]) -> list[DeviceCopy]:
    """Copies of variables to other devices, and of their gradients back.

    A gradient is recognised by its name and by going to the device of a copied variable of the same
    size.

    Args:
        facts: Facts of the run.
        copies: All copies.
    """
    values = [c for c in copies if c.bytes != 0 and variable_of(facts, c)]
    sizes = {(c.sender, c.bytes) for c in values if c.bytes != NULL}
    names = facts.trace.nodes.name
    gradients = [
        c for c in copies
        if (c.receiver, c.bytes) in sizes
        and IN_GRADIENTS.search(facts.trace.string(int(names[c.source])))
    ]  # fmt: skip
    return [*values, *gradients]


def copy_rows(facts: Facts, copies: Iterable[DeviceCopy]) -> Rows:
    """Slices of some copies in the steady steps; (slices,)."""
    names = facts.trace.nodes.name
    nodes = frozenset(facts.trace.string(int(names[c.source])) for c in copies)
    return scopes_among(facts, nodes, Kind.MEMCPY)


def exposed_copies_ns(facts: Facts, copies: Iterable[DeviceCopy]) -> int | None:
    """Time per step in which some copies run and nothing computes, ns; None if none was timed."""
    rows = copy_rows(facts, copies)
    if not len(rows):
        return None
    time = time_of(facts, rows)
    for activity in facts.leading:
        time = time - activity.compute
    exposed = on_scale(facts, mean_within(facts, time), "transfer")
    return min(exposed, facts.breakdown["transfer"])
