"""How much room each category takes in a bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.findings import CATEGORIES

if TYPE_CHECKING:
    from collections.abc import Mapping


def present(categories: Mapping[str, int]) -> list[tuple[str, int]]:
    """The categories that hold time, in the order of `CATEGORIES`, with their ns."""
    return [(name, ns) for name in CATEGORIES if (ns := categories.get(name, 0)) > 0]


def cells(categories: Mapping[str, int], width: int) -> list[tuple[str, int]]:
    """Deals `width` cells out to the categories that hold time, in proportion to it.

    By largest remainder; each gets one at least, at the cost of the widest, so that nothing in
    the legend is missing from the bar. The cells always sum to `width`.

    Args:
        categories: ns per category.
        width: Cells of the bar, no fewer than there are categories.
    """
    held = present(categories)
    total = sum(ns for _, ns in held)
    if not total:
        return []
    exact = [width * ns / total for _, ns in held]
    dealt = [max(1, int(cells)) for cells in exact]
    by_remainder = sorted(range(len(held)), key=lambda i: dealt[i] - exact[i])
    for i in by_remainder[: max(0, width - sum(dealt))]:
        dealt[i] += 1
    while sum(dealt) > width:
        dealt[dealt.index(max(dealt))] -= 1
    return [(name, count) for (name, _), count in zip(held, dealt, strict=True)]
