"""Where the operations of a graph were asked to run, and where they ran."""

from __future__ import annotations

from typing import Literal

import msgspec

# stepwhy.placement/1: first version.
PLACEMENT_SCHEMA = "stepwhy.placement/1"

Placed = Literal["as-asked", "unasked", "moved", "overruled", "never-ran"]


class PlacedOp(msgspec.Struct, frozen=True):
    """One operation of a graph.

    Args:
        name: With its name scope.
        op: Op type.
        requested: Device that the program asked for; '' for none, None where it is not recorded.
        actual: Device it ran on, '' where it never ran.
        placed: 'as-asked'; 'unasked': the program asked for no device; 'moved': it ran on another
            device than asked for; 'overruled': a device scope around the one that decided asked
            for another device, and it computes; 'never-ran': built, but pruned, folded or fused.
        outer: Device that the overruled scope asked for, or ''.
        line: Source line of the device scope that decided, or ''.
        source: Source line that created it, or ''.
        copies: Copies of its outputs to other devices, per run of the graph.
        copied_bytes: Their size; None where none is recorded.
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


class PlacedScope(msgspec.Struct, frozen=True):
    """The operations of one name scope, those of the scopes inside it included.

    Args:
        scope: Its path; '' for the whole graph.
        ops: Operations built.
        elsewhere: Those that ran on another device than asked for ('moved' or 'overruled').
        never_ran: Those that never ran.
        devices: Operations by the device they ran on, most frequent first.
        copies: Copies of their outputs to other devices, per run of the graph.
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
        scopes: The whole graph, then its name scopes by path, to a depth and number that are
            bounded in a result.
        ops: Its operations by name; in a result bounded, those that ran elsewhere first.
        left_out: Operations that `ops` leaves out.
    """

    scopes: tuple[PlacedScope, ...]
    ops: tuple[PlacedOp, ...]
    left_out: int = 0


class PlacementChange(msgspec.Struct, frozen=True):
    """One operation whose placement differs between two runs; None where a run lacks it."""

    name: str
    a: PlacedOp | None
    b: PlacedOp | None


class PlacementDifference(msgspec.Struct, frozen=True):
    """What changed between two runs: device, presence or copies of an operation.

    Args:
        a, b: What was compared, as the user named it.
        same: Operations that do not differ.
        changes: Those that do, by name.
    """

    a: str
    b: str
    same: int
    changes: tuple[PlacementChange, ...]


class PlacementResult(msgspec.Struct, frozen=True):
    """What `stepwhy placement` prints as JSON.

    Args:
        path: What the user named; of a comparison the second run.
        placement: All operations that were asked for; None in a comparison.
        difference: What changed; None without a comparison.
    """

    path: str
    placement: Placement | None = None
    difference: PlacementDifference | None = None
    schema: str = PLACEMENT_SCHEMA
    stepwhy: str = ""
