"""Descriptions of placements, for all reports."""

from __future__ import annotations

from string import ascii_uppercase
from typing import TYPE_CHECKING

from stepwhy.base.units import format_bytes, format_count, format_ns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepwhy.result import PlacedOp, PlacedScope

NOTES = {
    "as-asked": "",
    "unasked": "",
    "moved": "not on the requested device",
    "overruled": "another device scope changed the device",
    "never-ran": "never ran",
}


def requested(op: PlacedOp) -> str:
    """Requested device; that of the outer scope if an inner one replaced it."""
    if op.requested is None:
        return "not recorded"
    if op.placed == "overruled":
        return op.outer or "the device of its operation"  # a gradient follows what is misplaced
    return op.requested or "any device"


def actual(op: PlacedOp) -> str:
    """Device that it ran on, or 'never ran'."""
    return op.actual or "never ran"


def copies(op: PlacedOp) -> str:
    """Its copies to other devices per run of the graph; '' for none."""
    if not op.copies:
        return ""
    size = "" if not op.copied_bytes else f", {format_bytes(op.copied_bytes)}"
    number = f"{op.copies:.3g}"
    return f"{number} {'copy' if number == '1' else 'copies'}{size}"


def time(ops: Iterable[PlacedOp]) -> str:
    """Time per step of some operations, behind their number; '' if none was recorded."""
    times = [op.time_ns for op in ops if op.time_ns]
    return f", {format_ns(sum(times))} per step" if times else ""


def sentence(whole: PlacedScope) -> str:
    """Placement of the whole graph in one sentence.

    Args:
        whole: The scope ''.
    """
    ran_count = whole.ops - whole.never_ran
    devices = f"{len(whole.devices)} device{'' if len(whole.devices) == 1 else 's'}"
    elsewhere = f"{format_count(whole.elsewhere)} not" if whole.elsewhere else "all"
    return (
        f"{format_count(ran_count)} of {format_count(whole.ops)} operations ran on {devices}, "
        f"{elsewhere} on the requested device."
    )


def letters(whole: PlacedScope) -> dict[str, str]:
    """A short mark for each device: letters, then numbers.

    Args:
        whole: The scope ''.
    """
    marks = [*ascii_uppercase, *map(str, range(1, len(whole.devices) + 1))]
    return dict(zip(sorted(whole.devices), marks, strict=False))
