"""Graph nodes, their requested and actual devices, and their copies between devices.

Source: device names of `tf.DeviceSpec`. A trace spells all of them like '/job:worker/task:1 GPU:0';
a partial request contains some of these fields.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from stepwhy.patterns import regex
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stepwhy.passes.facts import Facts

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
_STATE_SCOPE = regex(r"(^|/)(Initializer|Assign|read|save(_\d+)?|init|report_uninit\w*)(/|$)")
# The main work of a model; even one of these on the wrong device matters.
_HEAVY = regex(
    r"_?(Fused|Batch|Sparse|Quantized|Depthwise)*(MatMul|Conv\w*|Depthwise\w+|Einsum)\w*"
    r"|\w*Backprop\w*|FusedBatchNorm\w*|CudnnRNN\w*|\w*LSTM\w*|\w*GRU\w*|LRN\w*|(Max|Avg)Pool\w*"
    r"|BiasAdd\w*|Relu\w*|Elu|Selu|Softmax\w*|LogSoftmax|\w*SoftmaxCrossEntropy\w*"
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
        name, op: Name with its scope; op type.
        requested: Requested device; '' if none or unknown.
        actual: Device it ran on; '' if it never ran.
        outer: Device that an outer scope requested and an inner scope replaced; '' if none.
        line: Source line of the device scope in effect; '' if unknown.
        source: Source line that created it; '' if unknown.
        colocated: Node that it is colocated with; '' if none.
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
        """Whether it computes, rather than holding, moving or managing state."""
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
    """All nodes of the trace."""
    return facts.derived(_nodes_of)


def _nodes_of(facts: Facts) -> list[Node]:
    trace, nodes = facts.trace, facts.trace.nodes
    columns = (
        nodes.name, nodes.op, nodes.requested, nodes.actual,
        nodes.outer, nodes.scope_line, nodes.source, nodes.colocated_with,
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
    """Whether two device names differ in a field that both contain."""
    a, b = fields_of(one), fields_of(other)
    return any(b.get(key, value) != value for key, value in a.items())


def type_of(device: str) -> str:
    """Device type in capitals ('GPU'); '' if the name has none."""
    return fields_of(device).get("type", "")


def misplaced(nodes: list[Node]) -> list[Node]:
    """Nodes that compute on another device than an enclosing scope requested."""
    overruled = [n for n in nodes if n.actual and n.outer and conflicts(n.outer, n.actual)]
    requested: dict[tuple[str, str], set[str]] = defaultdict(set)
    for node in overruled:
        requested[node.actual, node.line].add(node.outer)
    wrong = [
        n for n in overruled if n.is_compute and _is_worse(n, len(requested[n.actual, n.line]))
    ]
    names = {n.name for n in wrong}
    colocated = [n for n in nodes if n.actual and n.colocated in names and n.is_compute]
    return wrong + [n for n in colocated if n.name not in names]


def _is_worse(node: Node, gathered: int) -> bool:
    """Whether the device of the inner scope is a worse choice, not an equal one.

    It is worse if the inner scope replaces an accelerator by the CPU, leaves the job of the outer
    scope, or puts on one device what several outer scopes had spread.

    Args:
        node: A node whose outer scope was overruled.
        gathered: Number of outer devices that the same line replaced by the same device.
    """
    if type_of(node.outer) not in {"", "CPU"} and type_of(node.actual) == "CPU":
        return True
    if _job(node.outer) and _job(node.actual) and _job(node.outer) != _job(node.actual):
        return True
    return gathered > 1


def _job(device: str) -> str:
    return device.partition("/job:")[2].split("/")[0].split(" ")[0]


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
    runs = _runs(facts)
    sizes, times = [c.bytes for c in copies], [c.dur_ns for c in copies]
    return CopyTotals(len(copies) / runs, _mean(sizes, runs), _mean(times, runs))


def copies_by_node(facts: Facts) -> dict[str, CopyTotals]:
    """Totals of the copies of a node's output to other devices, by name of the node."""
    own: dict[str, list[DeviceCopy]] = defaultdict(list)
    names = facts.trace.nodes.name.tolist()
    for copy in device_copies(facts):
        own[facts.trace.string(names[copy.source])].append(copy)
    return {name: copy_totals(facts, copies) for name, copies in own.items()}


def _runs(facts: Facts) -> int:
    """Number of graph runs in the table of copies: each traced step is one."""
    return len(facts.steps.starts) if facts.steps.source != "whole-trace" else 1


def _mean(values: list[int], runs: int) -> int | None:
    known = [v for v in values if v != NULL]
    return round(sum(known) / runs) if known else None
