"""Graph nodes, their requested and actual devices, and their copies between devices.

Source: device names of `tf.DeviceSpec`. A trace spells all of them like '/job:worker/task:1 GPU:0';
a partial request contains some of these fields.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from stepwhy.base.columns.groups import numbered
from stepwhy.base.columns.sums import sums_of
from stepwhy.base.patterns import regex
from stepwhy.trace import NULL, Dependence, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stepwhy.analyse.facts import Facts

_FIELD = regex(r"(?:(job|replica|task|device):)?([^:]+)(?::(\d+|\*))?")

# Operations that hold, move or manage state: where variables live is the program's choice.
_STATE = regex(
    r"(Ref)?Variable(V2)?|VarHandleOp|ReadVariableOp|(Temporary|Destroy)\w*|VarIsInitialized\w*"
    r"|Is\w*Initialized\w*|Assign\w*|\w*Assign\w*Op|Scatter\w*|(Resource)?(Sparse)?Apply\w+"
    r"|Resource(Scatter|Gather)\w*|GatherV?2?|HashTable\w*|LookupTable\w*|Const|HostConst"
    r"|Placeholder\w*|Identity(N)?|Snapshot|StopGradient|PreventGradient|NoOp|_SOURCE|_SINK"
    r"|_?(Host)?(Send|Recv)|_Arg|_Retval|Print\w*|Assert|Shape(N)?|Size|Rank|Range|Fill"
    r"|ExpandDims|Squeeze|Reshape|StridedSlice|Pack|Unpack|ConcatOffset|BroadcastGradientArgs"
    r"|\w*Queue\w*|\w*Iterator\w*|\w*Dataset\w*|\w*Reader\w*|Save\w*|Restore\w*|\w*Summary\w*"
    r"|Merge|Switch|Enter|Exit|NextIteration|LoopCond|ControlTrigger|(Eager)?PyFunc\w*"
)
_GRADIENT = "_grad/"  # `tf.gradients` names the scope of an operation's gradient after it
_VARIABLE = regex(r"(Ref)?Variable(V2)?|VarHandleOp")
_PARAMETER_JOB = regex(r"ps\d*|chief_ps|param\w*")
_SEVERAL = 2  # devices; results of one need no place to meet
_STATE_SCOPE = regex(
    r"(^|/)(Initializer|Assign|AssignMovingAvg(_\d+)?|read|save(_\d+)?|init|report_uninit\w*)(/|$)"
)
# A scope that is entered again gets another number ('tower_0_1'); a loop that names all of its
# scopes 'tower' creates 'tower', 'tower_1', ...
_TOWER = regex(
    r"(?:^|/)(?P<tower>(?:tower|replica|clone)(?:_?\d+)?|(?:gpu|worker|rank)_?\d+)(?:_\d+)*/",
    re.IGNORECASE,
)


class Node(msgspec.Struct, frozen=True):
    """A node of the graph with its placement.

    Args:
        row: Row of `nodes`.
        depends_on: What it is computed from, a `Dependence`.
        name, op: Name with its scope; op type.
        requested: Requested device; '' if none or unknown.
        actual: Device it ran on; '' if it never ran.
        outer: Device that an outer scope requested and an inner scope replaced; '' if none.
        line: Source line of the device scope in effect; '' if unknown.
        source: Source line that created it; '' if unknown.
        colocated: Node that it is colocated with; '' if none.
    """

    row: int
    depends_on: int
    name: str
    op: str
    requested: str
    actual: str
    outer: str
    line: str
    source: str
    colocated: str

    @property
    def place(self) -> str:
        """Device that it ran on, or else the requested one; '' if neither is known."""
        return self.actual or self.requested

    @property
    def is_variable(self) -> bool:
        """Whether it holds a variable."""
        return is_variable(self.op)

    @property
    def is_model_work(self) -> bool:
        """Whether it computes with the weights and with data.

        What depends on data alone prepares the input, which belongs on the CPU; what depends on
        variables alone, such as a regulariser, belongs with them.
        """
        return self.is_compute and self.depends_on in {Dependence.UNKNOWN, Dependence.BOTH}

    @property
    def is_compute(self) -> bool:
        """Whether it computes, rather than holding, moving or managing state."""
        return not _is_state(self.op) and not _STATE_SCOPE.search(self.name)

    @property
    def tower(self) -> str:
        """The tower-like name scope that it is in, or ''."""
        return tower_of(self.name)


def placed_nodes(facts: Facts) -> list[Node]:
    """All nodes of the trace."""
    return facts.derived(_nodes_of)


def _nodes_of(facts: Facts) -> list[Node]:
    trace, nodes = facts.trace, facts.trace.nodes
    columns = (
        nodes.name, nodes.op, nodes.requested, nodes.actual,
        nodes.outer, nodes.scope_line, nodes.source, nodes.colocated_with,
    )  # fmt: skip
    rows = zip(*(c.tolist() for c in columns), strict=True)
    depends_on = nodes.depends_on.tolist()
    return [Node(row, depends_on[row], *map(trace.string, cells)) for row, cells in enumerate(rows)]


@lru_cache(maxsize=4096)
def _is_state(op: str) -> bool:
    return _STATE.fullmatch(op) is not None


def is_variable(op: str) -> bool:
    """Whether an op type holds a variable."""
    return _VARIABLE.fullmatch(op) is not None


def tower_of(name: str) -> str:
    """The tower-like name scope in a node's name ('tower_0', 'replica_1', 'clone'), or ''."""
    match = _TOWER.search(name)
    return match["tower"] if match else ""


@lru_cache(maxsize=4096)
def fields_of(device: str) -> Mapping[str, str]:
    """The fields of a full or partial device name: job, task, type, index."""
    found: dict[str, str] = {}
    for part in filter(None, re.split(r"[/ ]+", device)):
        match = _FIELD.fullmatch(part)
        if match is None:
            continue
        key, value, index = match.groups()
        if key in {"job", "replica", "task"}:
            found[key] = value
        else:
            found["type"] = value.upper()
            found["index"] = index or ""
    known = {key: value for key, value in found.items() if value not in {"", "*"}}
    return MappingProxyType(known)


@lru_cache(maxsize=4096)
def conflicts(one: str, other: str) -> bool:
    """Whether two device names differ in a field that both contain."""
    a, b = fields_of(one), fields_of(other)
    return any(b.get(key, value) != value for key, value in a.items())


def written(device: str) -> str:
    """A device as a program writes it: '/job:ps/task:0 CPU:0' -> '/job:ps/task:0/cpu:0'."""
    place, _, kind = device.rpartition(" ")
    return f"{place}/{kind.lower()}" if kind and not kind.startswith("/") else device


def type_of(device: str) -> str:
    """Device type in capitals ('GPU'); '' if the name has none."""
    return fields_of(device).get("type", "")


def misplaced(facts: Facts) -> list[Node]:
    """Nodes that did the model's work on a worse device than an enclosing scope requested."""
    return [node for node in facts.derived(_misplaced) if node.actual]


def misplaced_names(facts: Facts) -> set[str]:
    """Names of the nodes that are `misplaced`, and of those that did not run under their names.

    The graph optimizer fuses a product, its bias and its activation into one node.
    """
    return {node.name for node in facts.derived(_misplaced)}


def forward_of(name: str, nodes: Mapping[str, Node]) -> Node | None:
    """The operation that a gradient's name tells: 'a/gradients/b/Tanh_grad/TanhGrad' -> 'b/Tanh'.

    Args:
        name: Name of a node.
        nodes: All nodes by name.
    """
    forward = name.rpartition(_GRADIENT)[0]
    while forward and forward not in nodes:
        forward = forward.partition("/")[2]
    return nodes.get(forward)


def fallen(facts: Facts) -> list[Node]:
    """Nodes that soft placement ran on another device than they requested."""
    nodes = placed_nodes(facts)
    return [n for n in nodes if n.is_compute and n.actual and conflicts(n.requested, n.actual)]


def _misplaced(facts: Facts) -> list[Node]:
    nodes = placed_nodes(facts)
    asked = [*_drawn_to_variables(nodes), *(n for n in nodes if n.is_model_work and n.outer)]
    overruled = [n for n in asked if conflicts(n.outer, n.place)]
    gathered: dict[str, set[str]] = defaultdict(set)
    for node in overruled:
        gathered[node.place].add(node.outer)
    # A tower on the device that it asked for, by the scope that moves another tower there.
    lines = {(n.line, n.place) for n in overruled if n.line}
    for node in nodes:
        if (node.line, node.place) in lines and not node.outer and node.tower:
            gathered[node.place].add(node.place)
    hosts = {n.actual for n in nodes if n.actual and n.is_variable}
    worse = [n for n in overruled if len(gathered[n.place]) > 1 or _is_worse(n, hosts)]
    wrong = _without_combining(facts, worse)
    named = {n.name: n for n in nodes}
    names = {n.name for n in wrong}
    bound = (n for n in nodes if n.colocated in names and n.is_model_work and n.name not in names)
    return wrong + [n for n in bound if _belongs_to(n, named)]


def _drawn_to_variables(nodes: list[Node]) -> list[Node]:
    """Layers of a tower that are colocated with a variable, with the device of their tower.

    A colocation clears the device scopes around it, so that the device which the rest of the
    tower requests stands for them, and the line that created the node for that of a scope.
    """
    variables = {n.name for n in nodes if n.is_variable}
    devices: dict[str, Counter[str]] = defaultdict(Counter)
    for node in nodes:
        if node.tower and node.requested and not node.colocated:
            devices[node.tower][node.requested] += node.actual != "" and node.is_compute
    named = {n.name: n for n in nodes}
    return [
        replace(n, outer=devices[n.tower].most_common(1)[0][0], line=n.source)
        for n in nodes
        if n.colocated in variables and n.depends_on == Dependence.BOTH and n.is_compute
        and not n.outer and devices[n.tower] and forward_of(n.name, named) is None
    ]  # fmt: skip


def _belongs_to(node: Node, named: Mapping[str, Node]) -> bool:
    """Whether a node is part of the tower that it is colocated with, or a gradient in it.

    What combines the gradients of all towers, and the update, are colocated with one of them.
    """
    partner = named[node.colocated]
    forward = forward_of(node.name, named)
    return forward is not None or (node.tower != "" and node.tower == partner.tower)


def _is_worse(node: Node, hosts: set[str]) -> bool:
    """Whether the device of the inner scope is a worse choice, not an equal one.

    It is worse if the inner scope replaces an accelerator by the CPU, or a worker by the host of
    the parameters.

    Args:
        node: A node whose outer scope was overruled.
        hosts: Devices with variables.
    """
    outer, place = fields_of(node.outer), fields_of(node.place)
    if outer.get("type", "CPU") != "CPU" and place.get("type") == "CPU":
        return True
    if "job" not in outer or outer["job"] == place.get("job", outer["job"]):
        return False
    if is_parameter_job(outer["job"]):
        return False
    holds = any(_covers(node.place, host) for host in hosts)
    return is_parameter_job(place["job"]) or (
        holds and not any(_covers(node.outer, host) for host in hosts)
    )


def is_parameter_job(job: str) -> bool:
    """Whether a job of a cluster is called like one of parameter servers."""
    return _PARAMETER_JOB.fullmatch(job) is not None


def _covers(request: str, device: str) -> bool:
    actual = fields_of(device)
    return all(actual.get(key) == value for key, value in fields_of(request).items())


def _without_combining(facts: Facts, nodes: list[Node]) -> list[Node]:
    """Nodes without those of a scope that combines results of several devices.

    A mean of the gradients of all towers has to run on one device, where their copies meet.
    """
    groups: dict[int, tuple[str, str, str]] = {n.row: (n.line, n.outer, n.place) for n in nodes}
    senders: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    results = {n.row for n in placed_nodes(facts) if n.is_model_work}
    for copy in device_copies(facts):
        group = groups.get(copy.target)
        if group is not None and copy.source in results:
            senders[group].add(copy.sender)
    return [n for n in nodes if len(senders[groups[n.row]]) < _SEVERAL]


class CopyTotals(msgspec.Struct, frozen=True):
    """Totals of copies between devices, per run of the graph.

    Args:
        count: Number of copies.
        bytes: Sum of the known sizes; None if none is known.
        dur_ns: Sum of the known durations; None if none is known.
    """

    count: float
    bytes: int | None
    dur_ns: int | None


class DeviceCopy(msgspec.Struct, frozen=True):
    """A copy of one tensor from one device to another, in one traced run of the graph.

    Args:
        source: Row of the node whose output is copied.
        target: Row of a node that reads it; NULL if unknown.
        sender, receiver: Names of the devices.
        bytes, dur_ns: Size and duration; NULL if not recorded.
    """

    source: int
    target: int
    sender: str
    receiver: str
    bytes: int
    dur_ns: int


def device_copies(facts: Facts) -> list[DeviceCopy]:
    """All copies of tensors between different devices."""
    trace, copies = facts.trace, facts.trace.copies
    columns = (
        copies.source, copies.target, copies.from_device,
        copies.to_device, copies.bytes, copies.dur_ns,
    )  # fmt: skip
    return [
        DeviceCopy(source, target, trace.string(sender), trace.string(receiver), size, dur)
        for source, target, sender, receiver, size, dur in zip(
            *(c.tolist() for c in columns), strict=True
        )
        if sender != receiver
    ]


def copies_around(facts: Facts, nodes: Iterable[Node]) -> CopyTotals:
    """Totals of the copies between devices to and from some nodes."""
    rows = {node.row for node in nodes}
    copies = [c for c in device_copies(facts) if c.source in rows or c.target in rows]
    return copy_totals(facts, copies)


def copy_totals(facts: Facts, copies: Sequence[DeviceCopy]) -> CopyTotals:
    """Totals of some copies, per run of the graph."""
    # Each traced step is a run.
    runs = len(facts.steps.starts) if facts.steps.source != "whole-trace" else 1
    sizes, times = [c.bytes for c in copies], [c.dur_ns for c in copies]
    return CopyTotals(len(copies) / runs, _mean(sizes, runs), _mean(times, runs))


def node_times(facts: Facts) -> dict[str, int]:
    """Time per step in which each node runs, summed over its executions, ns; by name.

    Nodes of which no time was recorded are absent. Times are those of unprofiled steps, if such
    were observed.
    """
    return facts.derived(_node_times)


def _node_times(facts: Facts) -> dict[str, int]:
    slices, rows = facts.trace.slices, facts.slices(Kind.KERNEL, steady=True)
    rows = rows[slices.scope[rows] != NULL]
    scopes, place = numbered(slices.scope[rows])
    sums = sums_of(slices.dur_ns[rows], place, len(scopes))
    recorded, unprofiled = facts.recorded["compute"], facts.breakdown["compute"]
    scale = min(unprofiled / recorded, 1.0) if recorded else 1.0
    return {
        facts.trace.string(scope): facts.mean_ns(scale * total)
        for scope, total in zip(scopes.tolist(), sums.tolist(), strict=True)
    }


def _mean(values: list[int], runs: int) -> int | None:
    known = [v for v in values if v != NULL]
    return round(sum(known) / runs) if known else None
