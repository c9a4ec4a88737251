"""Time and memory of operations by scope, graph, op or code, and the step by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from stepwhy.result.lines import LineBreakdown  # noqa: TC001 - the schema reads it

if TYPE_CHECKING:
    from collections.abc import Callable

# stepwhy.ops/1: first version.
OPS_SCHEMA = "stepwhy.ops/1"

View = Literal["scope", "graph", "op", "code", "line", "tree"]
NodeKind = Literal["", "line", "module", "operation", "call", "kernel", "rest", "others"]


class Cost(msgspec.Struct, frozen=True):
    """Cost of operations in the mean steady step.

    Args:
        count: Number of runs.
        host_ns: Time of the host threads that schedule them for an accelerator, without nested
            operations.
        device_ns: Time on devices, including the executors of CPUs.
        output_bytes: Size of the outputs. This and the following are None if not recorded.
        requested_bytes: Memory that they requested.
        peak_bytes: Sum of the largest memory that each operation held at once.
        residual_bytes: Memory that they still held when they returned.
    """

    count: float = 0.0
    host_ns: int = 0
    device_ns: int = 0
    output_bytes: int | None = None
    requested_bytes: int | None = None
    peak_bytes: int | None = None
    residual_bytes: int | None = None


WEIGHTS: dict[str, Callable[[Cost], float]] = {
    "time": lambda cost: cost.host_ns + cost.device_ns,
    "bytes": lambda cost: max(cost.requested_bytes or 0, cost.output_bytes or 0),
    "count": lambda cost: cost.count,
}
"""What nodes are sorted by, by name."""


class ProfileNode(msgspec.Struct, frozen=True):
    """One line of a view.

    Args:
        name: Name scope, node, op type, file or source line.
        parent: Position of the parent node; None at the top.
        depth: Number of ancestors.
        own: Its own cost.
        total: Cost of itself and all descendants. In the tree of the program, the number of runs is
            that of the node itself, 0 for lines and modules.
        kind: In the tree of the program, what it is: 'line' of the program, 'module', 'operation',
            another 'call' of the host, 'kernel' or other device work, 'rest': what no line is
            credited with, 'others': what is too short to list. '' in other views.
        category: What the timeline draws it as; '' if it is drawn as several things.
    """

    name: str
    parent: int | None
    depth: int
    own: Cost
    total: Cost
    kind: NodeKind = ""
    category: str = ""


class ProfileResult(msgspec.Struct, frozen=True):
    """Output of `stepwhy ops --json`.

    Args:
        path: Path of the input.
        view: The view; 'tree' is that of the program, where each time of a node is the sum of its
            own and of the total times of its children.
        steps: Number of steady steps that means are computed from.
        total: Cost of all operations.
        nodes: Parents before children, which are in the requested order; empty if the trace cannot
            show this view, and in the view by line.
        reason: Why the trace cannot show this view, or ''.
        notes: Remarks for the reader.
        lines: The step by line of the program, in the view by line; None in the others.
        schema: Version of this layout.
        stepwhy: Version that wrote it.
    """

    path: str
    view: View
    steps: int
    total: Cost
    nodes: tuple[ProfileNode, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()
    lines: LineBreakdown | None = None
    schema: str = OPS_SCHEMA
    stepwhy: str = ""
