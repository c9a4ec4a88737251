"""A part of the operations or lines, chosen by cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.result.profile import WEIGHTS

if TYPE_CHECKING:
    from stepwhy.result import LineBreakdown
    from stepwhy.result.profile import ProfileResult


def page_of_ops(result: ProfileResult, order: str, offset: int, limit: int) -> ProfileResult:
    """A view with some of its nodes: those that follow the `offset` costliest ones.

    They stay in the order of the view, and `parent` refers to the nodes that remain. Of a first
    page no parent is missing, because it costs at least as much as its children; elsewhere it may
    be, and is null.

    Args:
        result: The view.
        order: Key of `WEIGHTS`.
        offset: Number of costlier nodes that are skipped.
        limit: Maximum number of nodes.
    """
    nodes, weight = result.nodes, WEIGHTS[order]
    by_cost = sorted(range(len(nodes)), key=lambda n: (-weight(nodes[n].total), n))
    chosen = sorted(by_cost[offset : offset + limit])
    places = {number: place for place, number in enumerate(chosen)}
    shown = (replace(nodes[n], parent=places.get(_parent(nodes[n].parent))) for n in chosen)
    return replace(result, nodes=tuple(shown))


def page_of_lines(lines: LineBreakdown, offset: int, limit: int) -> LineBreakdown:
    """The rows after the `offset` longest ones; only all pages together sum to the step.

    Args:
        lines: The step by line.
        offset: Number of longer rows that are skipped.
        limit: Maximum number of rows.
    """
    return replace(lines, lines=lines.lines[offset : offset + limit])


def _parent(number: int | None) -> int:
    return -1 if number is None else number


__all__ = ["page_of_lines", "page_of_ops"]
