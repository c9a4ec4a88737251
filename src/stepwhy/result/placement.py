"""Requested and actual devices of the operations of a graph."""

from __future__ import annotations

from typing import Literal

import msgspec

# stepwhy.placement/1: first version.
PLACEMENT_SCHEMA = "stepwhy.placement/1"

Placed = Literal["as-asked", "unasked", "moved", "overruled", "never-ran"]


class PlacedOp(msgspec.Struct, frozen=True):
    """One operation of a graph.

    Args:
        name: Name with its name scope.
        op: Op type.
        requested: Device that the program requested; '' for none, None if not recorded.
        actual: Device on which it ran; '' if it never ran.
        placed: 'as-asked': it ran on the requested device; 'unasked': no device was requested;
            'moved': it ran on another device; 'overruled': it computes, and an inner device scope
            replaced the device of an outer one; 'never-ran': built, but pruned, folded or fused.
        outer: Device of the overruled outer scope, or ''.
        line: Source line of the device scope that applied, or ''.
        source: Source line that created the operation, or ''.
        copies: Number of copies of its outputs to other devices, per run of the graph.
        copied_bytes: Size of these copies; None if not recorded.
        time_ns: Time in which it runs per step; None if not recorded.
    """

    name: str
    op: str
    requested: str | None
    actual: str
    placed: Placed
    outer: str = ""
    line: str = ""
    source: str = ""
    copies: float = 0.0
    copied_bytes: int | None = None
    time_ns: int | None = None


class PlacedScope(msgspec.Struct, frozen=True):
    """The operations of one name scope and of all scopes inside it.

    Args:
        scope: Path of the scope; '' for the whole graph.
        ops: Number of operations that were built.
        elsewhere: Number of operations that were 'moved' or 'overruled'.
        never_ran: Number of operations that never ran.
        devices: Number of operations per device, most frequent device first.
        copies: Number of copies of their outputs to other devices, per run of the graph.
    """

    scope: str
    ops: int
    elsewhere: int
    never_ran: int
    devices: dict[str, int]
    copies: float


class Placement(msgspec.Struct, frozen=True):
    """The placement of a graph.

    Args:
        scopes: The whole graph, then its name scopes by path; in a result, to a limited depth and
            number.
        ops: Operations by name; in a result, a limited number, those that ran elsewhere first.
        left_out: Number of operations that are not in `ops`.
    """

    scopes: tuple[PlacedScope, ...]
    ops: tuple[PlacedOp, ...]
    left_out: int = 0


class PlacementChange(msgspec.Struct, frozen=True):
    """An operation whose placement differs between two runs; None for a run without it."""

    name: str
    a: PlacedOp | None
    b: PlacedOp | None


class PlacementDifference(msgspec.Struct, frozen=True):
    """Changes of the placement between two runs: device, presence or copies of operations.

    Args:
        a, b: Paths of the two runs, as given by the user.
        same: Number of operations that do not differ.
        changes: Operations that differ, by name.
    """

    a: str
    b: str
    same: int
    changes: tuple[PlacementChange, ...]


class PlacementResult(msgspec.Struct, frozen=True):
    """Output of `stepwhy placement --json`.

    Args:
        path: Path of the run, as given by the user; in a comparison, of the second run.
        placement: The selected operations; None in a comparison.
        difference: Changes between the runs; None without a comparison.
    """

    path: str
    placement: Placement | None = None
    difference: PlacementDifference | None = None
    schema: str = PLACEMENT_SCHEMA
    stepwhy: str = ""
