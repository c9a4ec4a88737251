"""What the placement tables say: nodes, the devices they asked for and ran on, and their copies.

Source: device names as `tf.DeviceSpec` writes them; '/job:worker/task:1 GPU:0' is the trace's one
spelling of them, and a partial request names some of the same fields.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import msgspec

from stepwhy.diagnoses.shared.measure import Group, grouped, mean_within, on_scale, time_of
from stepwhy.diagnoses.shared.slices import scopes_among
from stepwhy.patterns import regex
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stepwhy.diagnoses.shared.slices import Rows
    from stepwhy.passes.facts import Facts

_FIELD = regex(r"(?:(job|replica|task|device):)?([^:]+)(?::(\d+|\*))?")

# Operations that hold, move or administer state: where variables live is the program's choice.
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
IN_GRADIENTS = regex(r"(?:^|/)gradients(?:_\d+)?/")
_VARIABLE = regex(r"(Ref)?Variable(V2)?|VarHandleOp")
# 'kernel/read' of a reference variable, 'dense/MatMul/ReadVariableOp' of a resource.
_READ = regex(r"(?P<variable>.+?)/(read|(\w+/)?(Read\w*/)?ReadVariableOp)(_\d+)?")
_STATE_SCOPE = regex(r"(^|/)(Initializer|Assign|read|save(_\d+)?|init|report_uninit\w*)(/|$)")
# What an accelerator is bought for; one of these in the wrong place matters by itself.
_HEAVY = regex(
    r"_?(Fused|Batch|Sparse|Quantized|Depthwise)*(MatMul|Conv\w*|Depthwise\w+|Einsum)\w*"
    r"|\w*Backprop\w*|FusedBatchNorm\w*|CudnnRNN\w*|\w*LSTM\w*|\w*GRU\w*|LRN\w*|(Max|Avg)Pool\w*"
    r"|BiasAdd\w*|Relu\w*|Elu|Selu|Softmax\w*|LogSoftmax|\w*SoftmaxCrossEntropy\w*"
)
# Entered again, a scope gets one more number ('tower_0_1'); a loop that names all of its scopes
# 'tower' makes 'tower', 'tower_1', ...
_TOWER = regex(
    r"(?:^|/)(?P<tower>(?:tower|replica|clone)(?:_?\d+)?|(?:gpu|worker|rank)_?\d+)(?:_\d+)*/",
    re.IGNORECASE,
)


class Node(msgspec.Struct, frozen=True):
    """A node of the graph that was placed.

    Args:
        row: Row of `nodes`.
        name, op: Name with its scope; op type.
        requested: Device asked for; '' where none was, or it is not known.
        actual: Device it ran on, '' where it never ran.
        outer: Device that an enclosing scope asked for before an inner one replaced it, or ''.
        line: Source line of the scope that decided, or ''.
        source: Source line that created it, or ''.
        colocated: Node that it is bound to, or ''.
    """

    row: int
    name: str
    op: str
    requested: str
    actual: str
    outer: str
    line: str
    source: str
    colocated: str

    @property
    def is_compute(self) -> bool:
        """Whether it computes, rather than holding, moving or administering state."""
        return not _is_state(self.op) and not _STATE_SCOPE.search(self.name)

    @property
    def is_heavy(self) -> bool:
        """Whether it is work that accelerators are used for."""
        return is_heavy(self.op)

    @property
    def tower(self) -> str:
        """The tower-like name scope that it is in, or ''."""
        return tower_of(self.name)


def placed_nodes(facts: Facts) -> list[Node]:
    """All nodes of the table; made once, as several diagnoses use them."""
    if facts not in _NODES:
        _NODES[facts] = _nodes_of(facts)
    return _NODES[facts]


_NODES: WeakKeyDictionary[Facts, list[Node]] = WeakKeyDictionary()


def _nodes_of(facts: Facts) -> list[Node]:
    trace, nodes = facts.trace, facts.trace.nodes
    columns = (
        nodes.name, nodes.op, nodes.requested, nodes.actual,
        nodes.outer, nodes.scope_line, nodes.source, nodes.colocated,
    )  # fmt: skip
    rows = zip(*(c.tolist() for c in columns), strict=True)
    return [Node(row, *map(trace.string, cells)) for row, cells in enumerate(rows)]


@lru_cache(maxsize=4096)
def _is_state(op: str) -> bool:
    return _STATE.fullmatch(op) is not None


@lru_cache(maxsize=4096)
def is_heavy(op: str) -> bool:
    """Whether an op type is work that accelerators are used for."""
    return _HEAVY.fullmatch(op) is not None


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
    """Whether two device names contradict each other in a field that both give."""
    a, b = fields_of(one), fields_of(other)
    return any(b.get(key, value) != value for key, value in a.items())


def type_of(device: str) -> str:
    """Device type in capitals ('GPU'), '' where the name gives none."""
    return fields_of(device).get("type", "")


def misplaced(nodes: list[Node]) -> list[Node]:
    """Nodes that compute on another device than an enclosing scope asked for."""
    overruled = [n for n in nodes if n.actual and n.outer and conflicts(n.outer, n.actual)]
    asked: dict[tuple[str, str], set[str]] = defaultdict(set)
    for node in overruled:
        asked[node.actual, node.line].add(node.outer)
    wrong = [n for n in overruled if n.is_compute and _is_worse(n, len(asked[n.actual, n.line]))]
    names = {n.name for n in wrong}
    bound = [n for n in nodes if n.actual and n.colocated in names and n.is_compute]
    return wrong + [n for n in bound if n.name not in names]


def _is_worse(node: Node, gathered: int) -> bool:
    """Whether the inner device is a step down, not a choice of another peer.

    It is when the inner scope gave up an accelerator, left the job of the outer one, or gathered
    on one device what several scopes had spread.

    Args:
        node: A node whose outer scope was overruled.
        gathered: How many outer devices the same line overruled in favour of the same device.
    """
    if type_of(node.outer) not in {"", "CPU"} and type_of(node.actual) == "CPU":
        return True
    if _job(node.outer) and _job(node.actual) and _job(node.outer) != _job(node.actual):
        return True
    return gathered > 1


def _job(device: str) -> str:
    return device.partition("/job:")[2].split("/")[0].split(" ")[0]


def by_op(nodes: Iterable[Node]) -> list[Group]:
    """Nodes counted by op type, most frequent first; the summed time is their number."""
    return grouped((node.op, 1) for node in nodes)


def listed(names: Iterable[str], most: int = 4) -> str:
    """Distinct names in the order of their first mention, shortened to a few."""
    distinct = [name for name in dict.fromkeys(names) if name]
    more = len(distinct) - most
    return ", ".join(distinct[:most]) + (f" and {more} more" if more > 0 else "")


class Crossing(msgspec.Struct, frozen=True):
    """Copies between devices that some nodes cause, per run of the graph.

    Args:
        count: Number of copies.
        bytes: Their size, None where none records it.
        dur_ns: Their summed time, None where none records it.
    """

    count: float
    bytes: int | None
    dur_ns: int | None


class Trip(msgspec.Struct, frozen=True):
    """One tensor that crosses from one device to another in one traced run of the graph.

    Args:
        source: Row of `nodes` whose output travels.
        target: Row of a consumer, NULL where it is not known.
        sender, receiver: The devices.
        bytes, dur_ns: Size and time, NULL where not recorded.
    """

    source: int
    target: int
    sender: str
    receiver: str
    bytes: int
    dur_ns: int


def trips(facts: Facts) -> list[Trip]:
    """All tensors that cross devices."""
    trace, copies = facts.trace, facts.trace.copies
    columns = (
        copies.source, copies.target, copies.from_device,
        copies.to_device, copies.bytes, copies.dur_ns,
    )  # fmt: skip
    return [
        Trip(source, target, trace.string(sender), trace.string(receiver), size, dur)
        for source, target, sender, receiver, size, dur in zip(
            *(c.tolist() for c in columns), strict=True
        )
        if sender != receiver
    ]


def crossings(facts: Facts, nodes: Iterable[Node]) -> Crossing:
    """The copies to and from some nodes that cross devices."""
    rows = {node.row for node in nodes}
    return crossing_of(facts, [t for t in trips(facts) if t.source in rows or t.target in rows])


def crossing_of(facts: Facts, some: Sequence[Trip]) -> Crossing:
    """Some copies together, per run of the graph."""
    runs = _runs(facts)
    sizes, times = [t.bytes for t in some], [t.dur_ns for t in some]
    return Crossing(len(some) / runs, _mean(sizes, runs), _mean(times, runs))


def copies_by_node(facts: Facts) -> dict[str, Crossing]:
    """The copies of each node's outputs to other devices, by its name; only nodes with any."""
    own: dict[str, list[Trip]] = defaultdict(list)
    names = facts.trace.nodes.name.tolist()
    for trip in trips(facts):
        own[facts.trace.string(names[trip.source])].append(trip)
    return {name: crossing_of(facts, some) for name, some in own.items()}


def variable_of(facts: Facts, trip: Trip) -> str:
    """Name of the variable whose value travels, '' where something else does."""
    nodes = facts.trace.nodes
    name, op = (facts.trace.string(int(c[trip.source])) for c in (nodes.name, nodes.op))
    if _VARIABLE.fullmatch(op):
        return name
    match = _READ.fullmatch(name)
    return match["variable"] if match and op in {"Identity", "ReadVariableOp"} else ""


def variable_trips(facts: Facts, every: Sequence[Trip]) -> list[Trip]:
    """Copies of variables to other devices, and of their gradients back.

    A gradient is told by its name, by its size, which is that of a variable which travels, and by
    its receiver, which is the device of that variable.

    Args:
        facts: Facts of the run.
        every: All copies.
    """
    values = [t for t in every if t.bytes != 0 and variable_of(facts, t)]
    theirs = {(t.sender, t.bytes) for t in values if t.bytes != NULL}
    names = facts.trace.nodes.name
    back = [
        t for t in every
        if (t.receiver, t.bytes) in theirs
        and IN_GRADIENTS.search(facts.trace.string(int(names[t.source])))
    ]  # fmt: skip
    return [*values, *back]


def trip_rows(facts: Facts, some: Iterable[Trip]) -> Rows:
    """The slices of some copies in the steady steps; (slices,)."""
    names = facts.trace.nodes.name
    nodes = frozenset(facts.trace.string(int(names[t.source])) for t in some)
    return scopes_among(facts, nodes, Kind.MEMCPY)


def exposed_copies_ns(facts: Facts, some: Iterable[Trip]) -> int | None:
    """Time per step in which some copies run and nothing computes, None where none was timed."""
    rows = trip_rows(facts, some)
    if not len(rows):
        return None
    time = time_of(facts, rows)
    for activity in facts.leading:
        time = time - activity.compute
    exposed = on_scale(facts, mean_within(facts, time), "transfer")
    return min(exposed, facts.breakdown["transfer"])


def _runs(facts: Facts) -> int:
    """How many runs of the graph the table of copies stands for: every traced step adds its own."""
    return len(facts.steps.starts) if facts.steps.source != "whole-trace" else 1


def _mean(values: list[int], runs: int) -> int | None:
    known = [v for v in values if v != NULL]
    return round(sum(known) / runs) if known else None
