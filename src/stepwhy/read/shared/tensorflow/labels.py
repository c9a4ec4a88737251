"""Parses timeline labels of step statistics, which contain op types, kernels or transfers.

Source: `step_stats_collector.cc` (ops), `device_tracer.cc` (device activities) and
`worker_cache_logger.cc` (transfers between processes).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from stepwhy.base.patterns import regex
from stepwhy.trace import NULL

_OP = regex(r".* = (?P<op>[\w>]+)\((?P<inputs>[^()]*)", re.DOTALL)
_SIZE = regex(r"bytes:(?P<new>\d{1,18})\b|\b(?P<old>\d{1,18}) bytes")
_TRANSFER = regex(r"(?:\[[^\]]*\]\s*)*(?P<tensor>\S+) from (?P<sender>/\S+) to (?P<receiver>/\S+)")
# A node and its ops; C++ kernel names have colons, too.
_NODE = regex(r"[^\s:<>()]+(?::\w+)*")
_EDGE = regex(r"edge_\d+_(?P<node>.+)")


class Transfer(NamedTuple):
    """A tensor that was sent between server processes."""

    tensor: str
    sender: str
    receiver: str


class Activity(NamedTuple):
    """Node and op of a device activity."""

    node: str
    op: str


def parse_op_label(label: str) -> str:
    """Op type in '[mklcpu 2.0MB 2.0MB] node = Op(input, ...)'; '' when it has another form."""
    match = _OP.match(label)
    return match["op"] if match else ""


def parse_inputs(label: str) -> tuple[str, ...]:
    """Tensors that an op reads, in 'node = Op(a, b:1, ^c)': not '^c', which comes first."""
    match = _OP.match(label)
    inputs = match["inputs"].split(", ") if match else ()
    return tuple(i for i in inputs if i and not i.startswith("^"))


def parse_activity_label(label: str, node_name: str) -> Activity:
    """Node and op of a device activity, from 'kernel details@@node:Op#id' or a name 'node:Op'.

    A copy on behalf of an op is named 'node:Op:MEMCPYDtoD', and becomes a copy. A kernel without an
    op has its own name in place of the node's.
    """
    annotation = label.partition("@@")[2].partition("#")[0] or node_name
    if not _NODE.fullmatch(annotation):
        return Activity("", annotation)
    node, *ops = annotation.split(":")
    copies = [op for op in ops if op.upper().startswith(("MEMCPY", "MEMSET"))]
    return Activity(node, (*copies, *ops, "")[0])


def parse_size(label: str) -> int:
    """Bytes in the label of a copy ('... bytes:4096 ...' or '4096 bytes'), NULL when absent."""
    match = _SIZE.search(label)
    return int(match["new"] or match["old"]) if match else NULL


def parse_transfer_label(label: str) -> Transfer | None:
    """Tensor and devices in '[2.0MB] [1.7Gb/s] edge_16_x from /job:a/... to /job:b/...'."""
    match = _TRANSFER.fullmatch(label)
    return Transfer(*match.groups()) if match else None


def edge_node(tensor: str) -> str:
    """Node that produces a rendezvous edge's tensor: 'edge_16_tower1/Relu' -> 'tower1/Relu'."""
    match = _EDGE.fullmatch(tensor)
    return match["node"] if match else tensor
