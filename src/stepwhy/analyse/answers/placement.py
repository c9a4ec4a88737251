"""The placement of a graph as a table: every operation, its scope, its device and its copies."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from stepwhy.analyse.program.placement import (
    conflicts,
    copy_totals,
    device_copies,
    fields_of,
    misplaced,
    node_times,
    placed_nodes,
)
from stepwhy.result.placement import (
    PlacedOp,
    PlacedScope,
    Placement,
    PlacementChange,
    PlacementDifference,
)
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from stepwhy.analyse.facts import Facts
    from stepwhy.analyse.program.placement import CopyTotals, DeviceCopy, Node
    from stepwhy.result.placement import Placed

# With this many rows a report opens at once, and `explain --json` stays below two megabytes. The
# graph of an image model has 1,000 to 3,000 operations per tower.
MOST_OPS = 4000
# Most name scopes in a result, and their greatest depth.
_MOST_SCOPES, _DEEPEST = 400, 3
# Order in which operations are kept if a result cannot list all.
_FIRST = ("moved", "overruled", "as-asked", "unasked", "never-ran")
_ELSEWHERE = frozenset({"moved", "overruled"})


def placement_of(facts: Facts) -> Placement | None:
    """The whole placement table of a run, None if placement was not recorded.

    Args:
        facts: Facts of the run.
    """
    if "placement" not in facts.trace.meta.signals or not len(facts.trace.nodes):
        return None
    ops = tuple(sorted(_ops(facts), key=lambda op: op.name))
    return Placement(tuple(_scopes(ops)), ops)


def bounded(placement: Placement | None, most: int = MOST_OPS) -> Placement | None:
    """A placement small enough for a result.

    Args:
        placement: The whole placement.
        most: Number of operations to keep, at most.
    """
    if placement is None:
        return None
    near = [s for s in placement.scopes if s.scope.count("/") < _DEEPEST]
    # By depth first, so that a graph with very many scopes keeps the outer ones.
    kept = sorted(near, key=lambda s: (s.scope != "", s.scope.count("/"), s.scope))[:_MOST_SCOPES]
    chosen = sorted(placement.ops, key=lambda op: _FIRST.index(op.placed))[:most]
    return Placement(
        tuple(sorted(kept, key=lambda s: s.scope)),
        tuple(sorted(chosen, key=lambda op: op.name)),
        len(placement.ops) - len(chosen),
    )


def select(
    placement: Placement, *, scope: str = "", device: str = "", elsewhere: bool = False
) -> Placement:
    """The operations that meet all conditions, and the sums of their name scopes.

    Args:
        placement: The whole placement.
        scope: Name scope, or name of a single operation.
        device: Device that they ran on, or a part of its name such as 'GPU:0' or '/job:ps'.
        elsewhere: Select only operations that ran on another device than requested.
    """
    inside = scope.rstrip("/")
    ops = tuple(
        op for op in placement.ops
        if (not inside or op.name == inside or op.name.startswith(inside + "/"))
        and (not device or _is_on(op, device))
        and (not elsewhere or op.placed in _ELSEWHERE)
    )  # fmt: skip
    return Placement(tuple(_scopes(ops)), ops, placement.left_out)


def _is_on(op: PlacedOp, device: str) -> bool:
    actual, expected = fields_of(op.actual), fields_of(device)
    named = bool(expected) and all(actual.get(key) == value for key, value in expected.items())
    return bool(op.actual) and (named or device.lower() in op.actual.lower())


def _ops(facts: Facts) -> Iterator[PlacedOp]:
    nodes = placed_nodes(facts)
    overruled = {n.name: n for n in misplaced(facts)}
    requested = facts.trace.nodes.requested
    copies, spent = _copies_by_node(facts), node_times(facts)
    for any_node in _once(nodes):
        node = overruled.get(any_node.name, any_node)
        is_known = int(requested[node.row]) != NULL
        crossing = copies.get(node.name)
        yield PlacedOp(
            name=node.name,
            op=node.op,
            requested=node.requested if is_known else None,
            actual=node.actual,
            placed=_verdict(node, overruled),
            outer=node.outer,
            line=node.line,
            source=node.source,
            copies=round(crossing.count, 2) if crossing else 0.0,
            copied_bytes=crossing.bytes if crossing else None,
            time_ns=spent.get(node.name) if node.actual else None,
        )


def _copies_by_node(facts: Facts) -> dict[str, CopyTotals]:
    """Totals of the copies of a node's output to other devices, by name of the node."""
    own: dict[str, list[DeviceCopy]] = defaultdict(list)
    names = facts.trace.nodes.name.tolist()
    for copy in device_copies(facts):
        own[facts.trace.string(names[copy.source])].append(copy)
    return {name: copy_totals(facts, copies) for name, copies in own.items()}


def _once(nodes: Iterable[Node]) -> Iterable[Node]:
    """One node per name, if possible one that ran: several runs of a graph may be traced."""
    chosen: dict[str, Node] = {}
    for node in nodes:
        if node.name not in chosen or (node.actual and not chosen[node.name].actual):
            chosen[node.name] = node
    return chosen.values()


def _verdict(node: Node, overruled: Mapping[str, Node]) -> Placed:
    if not node.actual:
        return "never-ran"
    if node.requested and conflicts(node.requested, node.actual):
        return "moved"
    if node.name in overruled:
        return "overruled"
    return "as-asked" if node.requested else "unasked"


class _Sum(msgspec.Struct):
    ops: int = 0
    elsewhere: int = 0
    never_ran: int = 0
    copies: float = 0.0
    devices: Counter[str] = msgspec.field(default_factory=Counter)

    def add(self, op: PlacedOp) -> None:
        self.ops += 1
        self.elsewhere += op.placed in _ELSEWHERE
        self.never_ran += op.placed == "never-ran"
        self.copies += op.copies
        if op.actual:
            self.devices[op.actual] += 1


def _scopes(ops: Iterable[PlacedOp]) -> Iterator[PlacedScope]:
    """The whole graph and each of its name scopes, by path."""
    sums: dict[str, _Sum] = defaultdict(_Sum)
    for op in ops:
        for scope in _around(op.name):
            sums[scope].add(op)
    for scope, one in sorted(sums.items()):
        devices = dict(one.devices.most_common())
        copies = round(one.copies, 2)
        yield PlacedScope(scope, one.ops, one.elsewhere, one.never_ran, devices, copies)


def _around(name: str) -> Iterator[str]:
    """The name scopes around a node: 'a/b/c' -> '', 'a', 'a/b'."""
    yield ""
    at = name.find("/")
    while at > 0:
        yield name[:at]
        at = name.find("/", at + 1)


def differences(a: tuple[str, Placement], b: tuple[str, Placement]) -> PlacementDifference:
    """Operations whose device, presence or copies differ.

    Args:
        a: Name and placement of the first run.
        b: Those of the second one.
    """
    before, after = ({op.name: op for op in placement.ops} for _, placement in (a, b))
    names = sorted(before.keys() | after.keys())
    pairs = [PlacementChange(name, before.get(name), after.get(name)) for name in names]
    changes = tuple(p for p in pairs if _compared(p.a) != _compared(p.b))
    return PlacementDifference(a[0], b[0], len(pairs) - len(changes), changes)


def _compared(op: PlacedOp | None) -> PlacedOp | None:
    """An operation without what is not compared: source lines, requests and times."""
    return op and replace(
        op, outer="", line="", source="", placed="as-asked", requested=None, time_ns=None
    )
