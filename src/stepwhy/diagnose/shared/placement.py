"""Nodes on the wrong device, and the copies between devices that they cause."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.program.placement import (
    CopyTotals,
    DeviceCopy,
    Node,
    conflicts,
    copies_around,
    device_copies,
    fields_of,
    is_variable,
    node_times,
    placed_nodes,
)
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import Group, grouped, mean_within, on_scale, time_of
from stepwhy.diagnose.shared.slices import scopes_among
from stepwhy.trace import NULL, Kind

COPIED_FOR_OPS = "copied to and from them per step"
"""Evidence of operations on the wrong device, in bytes."""

SAME_CORES = "CPU devices of one process, on the same cores"
"""Evidence of devices that are no faster than each other, nor together."""

SHARE = 0.05
"""Share of the step from which operations on another device matter: a few small ones do not."""

IN_GRADIENTS = regex(r"(?:^|/)gradients(?:_\d+)?/")
# 'kernel/read' of a reference variable, 'dense/MatMul/ReadVariableOp' of a resource.
_READ = regex(r"(?P<variable>.+?)/(read|(\w+/)?(Read\w*/)?ReadVariableOp)(_\d+)?")


def by_time(facts: Facts, nodes: Sequence[Node]) -> list[Group]:
    """Nodes grouped by the op type that ran: those that take most time first, then the most."""
    spent, types = node_times(facts), types_run(facts, nodes)
    groups = grouped((types[n.name], spent.get(n.name, 0)) for n in nodes)
    return sorted(groups, key=lambda g: (-g.total_ns, -g.count, g.name))


def types_run(facts: Facts, nodes: Iterable[Node]) -> dict[str, str]:
    """Op type that the runtime ran for each node, or else that of the program; by name.

    The graph optimizer replaces types: a `Sigmoid` that runs as `_FusedMatMul` is a whole layer.
    """
    kernels = facts.derived(_types_run)
    return {n.name: kernels.get(n.name, n.op) for n in nodes}


def _types_run(facts: Facts) -> dict[str, str]:
    slices, rows = facts.trace.slices, facts.slices(Kind.KERNEL, steady=True)
    rows = rows[slices.scope[rows] != NULL]
    pairs = dict(zip(slices.scope[rows].tolist(), slices.name[rows].tolist(), strict=True))
    return {facts.trace.string(scope): facts.trace.string(op) for scope, op in pairs.items()}


def unrequested(facts: Facts) -> set[str]:
    """Names of the nodes that ran and whose requested device is not recorded."""
    requested = facts.trace.nodes.requested
    return {n.name for n in placed_nodes(facts) if n.actual and int(requested[n.row]) == NULL}


class Elsewhere(msgspec.Struct, frozen=True):
    """What nodes on another device cost per step, in the time of unprofiled steps.

    Args:
        running_ns: Time in which they run.
        alone_ns: Part of it in which the devices that should run them do not compute.
        copies: Copies to and from them.
        exposed_ns: Time of these copies in which nothing computes, at most.
        rows: Their slices.
    """

    running_ns: int
    alone_ns: int
    copies: CopyTotals
    exposed_ns: int
    rows: AnyRows

    @property
    def is_measured(self) -> bool:
        """Whether any time was recorded."""
        return bool(len(self.rows)) or self.copies.dur_ns is not None

    def cost_ns(self, facts: Facts) -> int | None:
        """Time that the right devices lose per step; None if nothing was measured."""
        return min(self.alone_ns + self.exposed_ns, facts.wall_ns) if self.is_measured else None

    def most_ns(self, facts: Facts) -> int:
        """Time of all of it, which bounds what moving the nodes can save."""
        return min(self.running_ns + self.exposed_ns, facts.wall_ns)

    def matters(self, facts: Facts) -> bool:
        """Whether they take a noticeable share of the step."""
        return self.most_ns(facts) >= SHARE * facts.wall_ns


def elsewhere(facts: Facts, nodes: Sequence[Node], places: Collection[str]) -> Elsewhere:
    """Measure nodes that run on another device than they should.

    Args:
        facts: Facts of the run.
        nodes: The nodes.
        places: Devices that should run them, which may be partial names.
    """
    rows = scopes_among(facts, frozenset(n.name for n in nodes), Kind.KERNEL)
    copies = copies_around(facts, nodes)
    time = alone = time_of(facts, rows)
    for activity in facts.activities:
        if any(not conflicts(place, activity.name) for place in places):
            alone = alone - activity.compute
    return Elsewhere(
        on_scale(facts, mean_within(facts, time), "compute"),
        on_scale(facts, mean_within(facts, alone), "compute"),
        copies,
        _exposed_ns(facts, nodes, copies),
        rows,
    )


def _exposed_ns(facts: Facts, nodes: Sequence[Node], copies: CopyTotals) -> int:
    """Exposed time of the copies to and from some nodes; at most that, without their slices, ns."""
    around = {n.row for n in nodes}
    own = (c for c in device_copies(facts) if c.source in around or c.target in around)
    exposed = exposed_copies_ns(facts, own)
    if exposed is not None:
        return exposed
    every = facts.breakdown["transfer"] + facts.breakdown["communication"]
    return min(copies.dur_ns or 0, every)


def share_their_cores(devices: Iterable[str]) -> bool:
    """Whether devices are CPU devices of one process: work is not faster on another of them."""
    fields = [fields_of(device) for device in devices]
    tasks = {(f.get("job", ""), f.get("task", "")) for f in fields}
    return len(tasks) == 1 and all(f.get("type", "") == "CPU" for f in fields)


def listed(names: Iterable[str], most: int = 4) -> str:
    """Distinct names as text, in order of first occurrence, shortened to `most`."""
    distinct = [name for name in dict.fromkeys(names) if name]
    more = len(distinct) - most
    return ", ".join(distinct[:most]) + (f" and {more} more" if more > 0 else "")


def variable_of(facts: Facts, copy: DeviceCopy) -> str:
    """Name of the variable whose value is copied; '' if it is not a variable."""
    nodes = facts.trace.nodes
    name, op = (facts.trace.string(int(c[copy.source])) for c in (nodes.name, nodes.op))
    if is_variable(op):
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


def copy_rows(facts: Facts, copies: Iterable[DeviceCopy]) -> AnyRows:
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


def example(nodes: list[Node], op: str, ran_as: dict[str, str]) -> str:
    """The first of some nodes that ran as an operation, and where the program makes it."""
    node = next(n for n in nodes if ran_as[n.name] == op)
    return f"{node.name} ({node.source})" if node.source else node.name
