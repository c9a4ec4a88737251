"""Where time and memory go, seen from one of four sides."""

from __future__ import annotations

from typing import Literal

import msgspec

# stepwhy.ops/1: first version.
OPS_SCHEMA = "stepwhy.ops/1"

View = Literal["scope", "graph", "op", "code"]


class Cost(msgspec.Struct, frozen=True):
    """What operations cost in the mean steady step.

    Args:
        count: Runs.
        host_ns: Time of threads of the host that schedule them for an accelerator, without that of
            operations inside.
        device_ns: Time on devices, executors of CPUs included.
        output_bytes: Bytes produced; None where none is recorded, as of all that follow.
        requested_bytes: Memory that they asked for.
        peak_bytes: The most that each held at once, added up over the operations.
        residual_bytes: What was held when they returned.
    """

    count: float = 0.0
    host_ns: int = 0
    device_ns: int = 0
    output_bytes: int | None = None
    requested_bytes: int | None = None
    peak_bytes: int | None = None
    residual_bytes: int | None = None


class ProfileNode(msgspec.Struct, frozen=True):
    """One line of a view.

    Args:
        name: Name scope, node, op type, file or source line.
        parent: Position of the node that holds it; None at the top.
        depth: Number of nodes around it.
        own: Cost of itself.
        total: With all below it.
    """

    name: str
    parent: int | None
    depth: int
    own: Cost
    total: Cost


class ProfileResult(msgspec.Struct, frozen=True):
    """What `stepwhy ops` prints.

    Args:
        path: What was read.
        view: The side.
        steps: Steady steps over which the mean is taken.
        total: All operations together.
        nodes: Parents before children; children by the order asked for. Empty where `reason` says
            why there is no such view.
        reason: Why the trace cannot show this view, or ''.
        notes: What the reader should know.
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
    schema: str = OPS_SCHEMA
    stepwhy: str = ""


__all__ = ["OPS_SCHEMA", "Cost", "ProfileNode", "ProfileResult", "View"]
