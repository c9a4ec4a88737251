"""The placement of a graph as a tree of its name scopes, collapsible and searchable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.base.units import format_count
from stepwhy.show import placement as words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepwhy.result import PlacedOp, PlacedScope, Placement

# Deeper names are shown with the rest of their path instead of further indentation.
_DEEPEST = 8


class Row(msgspec.Struct, frozen=True):
    """One operation: the end of its name, and the values of the columns."""

    name: str
    op: str
    requested: str
    actual: str
    placed: str
    note: str
    copies: str
    source: str


class Branch(msgspec.Struct):
    """One name scope.

    Args:
        name: Part of its path that the tree shows.
        path: Its path; '' for the whole graph.
        summary: Its operations, devices and copies, in words.
        elsewhere: Number of operations that ran on another device than requested.
        branches: Scopes inside it, by name.
        rows: Operations directly in it.
    """

    name: str
    path: str
    summary: str = ""
    elsewhere: int = 0
    branches: dict[str, Branch] = msgspec.field(default_factory=dict)
    rows: list[Row] = msgspec.field(default_factory=list)


class PlacementView(msgspec.Struct, frozen=True):
    """Content of the section.

    Args:
        sentence: The whole graph in one sentence.
        devices: Letter, name and number of operations of each device.
        tree: The whole graph.
        elsewhere: Number of operations for the filter 'requested another device'.
        never_ran: Number of operations for the filter 'never ran'.
        left_out: What the tree leaves out, in words; '' for nothing.
    """

    sentence: str
    devices: list[tuple[str, str, str]]
    tree: Branch
    elsewhere: int
    never_ran: int
    left_out: str


def placement_view(placement: Placement | None) -> PlacementView | None:
    """Content of the section; None without a placement."""
    if placement is None or not placement.scopes:
        return None
    whole = placement.scopes[0]
    marks = words.letters(whole)
    tree = Branch("The whole graph", "")
    for op in placement.ops:
        _add(tree, op)
    for name, branch in tree.branches.items():
        tree.branches[name] = _joined(branch)
    _sum_up(tree, {s.scope: s for s in placement.scopes}, marks)
    left_out = (
        f"The tree leaves out {format_count(placement.left_out)} operations that ran on the "
        "requested device or never ran; 'stepwhy placement' lists them."
        if placement.left_out
        else ""
    )
    devices = [(mark, name, format_count(whole.devices[name])) for name, mark in marks.items()]
    return PlacementView(
        words.sentence(whole), devices, tree, whole.elsewhere, whole.never_ran, left_out
    )


def _add(tree: Branch, op: PlacedOp) -> None:
    *scopes, last = op.name.split("/")
    branch, deep = tree, scopes[_DEEPEST:]
    for scope in scopes[:_DEEPEST]:
        path = f"{branch.path}/{scope}".lstrip("/")
        branch = branch.branches.setdefault(scope, Branch(scope, path))
    branch.rows.append(_row(op, "/".join([*deep, last])))


def _row(op: PlacedOp, name: str) -> Row:
    return Row(
        name, op.op, words.requested(op), words.actual(op), op.placed,
        words.NOTES[op.placed], words.copies(op), op.source,
    )  # fmt: skip


def _joined(branch: Branch) -> Branch:
    """Merge a scope that contains only one other scope with it: 'tower_0/model'."""
    branch.branches = {name: _joined(inner) for name, inner in branch.branches.items()}
    if branch.rows or len(branch.branches) != 1:
        return branch
    (inner,) = branch.branches.values()
    inner.name = f"{branch.name}/{inner.name}"
    return inner


def _sum_up(
    branch: Branch, scopes: Mapping[str, PlacedScope], marks: Mapping[str, str]
) -> tuple[int, int]:
    """Set `summary` and `elsewhere` of a scope and of all scopes inside it.

    Returns:
        Number of operations, and of those that ran elsewhere.
    """
    inner = [_sum_up(one, scopes, marks) for one in branch.branches.values()]
    elsewhere = sum(row.placed in ("moved", "overruled") for row in branch.rows)
    ops = len(branch.rows) + sum(count for count, _ in inner)
    branch.elsewhere = elsewhere + sum(count for _, count in inner)
    known = scopes.get(branch.path)
    branch.summary = _summary(known, marks) if known else _operations(ops)
    return ops, branch.elsewhere


def _summary(scope: PlacedScope, marks: Mapping[str, str]) -> str:
    parts = [_operations(scope.ops)]
    parts += [f"{marks.get(d, d)} {format_count(n)}" for d, n in scope.devices.items()]
    if scope.never_ran:
        parts.append(f"{format_count(scope.never_ran)} never ran")
    if scope.copies:
        parts.append(f"{scope.copies:.3g} copies")
    return " · ".join(parts)


def _operations(count: int) -> str:
    return f"{format_count(count)} operation{'' if count == 1 else 's'}"
