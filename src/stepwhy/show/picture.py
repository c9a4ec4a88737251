"""The breakdown as cells of a bar of text, and how it follows from the record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.units import format_ns
from stepwhy.result import CATEGORIES
from stepwhy.show import words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepwhy.result import Breakdown

CORRECTIONS_TITLE = "How this follows from the record"


def present(categories: Mapping[str, int]) -> list[tuple[str, int]]:
    """Categories with any time, in the order of `CATEGORIES`, with their ns."""
    return [(name, ns) for name in CATEGORIES if (ns := categories.get(name, 0)) > 0]


def cells(categories: Mapping[str, int], width: int) -> list[tuple[str, int]]:
    """Distribute the cells of a bar over the categories, in proportion to their time.

    Uses the largest remainder method. Each category gets at least one cell, taken from the widest,
    so that everything in the legend is in the bar. The cells always sum to `width`.

    Args:
        categories: ns per category.
        width: Cells of the bar, at least as many as categories.
    """
    shown = present(categories)
    total = sum(ns for _, ns in shown)
    if not total:
        return []
    exact = [width * ns / total for _, ns in shown]
    counts = [max(1, int(cells)) for cells in exact]
    by_remainder = sorted(range(len(shown)), key=lambda i: counts[i] - exact[i])
    for i in by_remainder[: max(0, width - sum(counts))]:
        counts[i] += 1
    while sum(counts) > width:
        counts[counts.index(max(counts))] -= 1
    return [(name, count) for (name, _), count in zip(shown, counts, strict=True)]


def corrections(breakdown: Breakdown) -> list[str]:
    """What was recorded, and a sentence per correction; [] if the record was not corrected."""
    if not breakdown.corrections:
        return []
    wall_ns = sum(breakdown.recorded.values())
    parts = (
        f"{words.format_like(ns, wall_ns)} {words.CATEGORY_WORDS[category].label}"
        for category, ns in present(breakdown.recorded)
    )
    recorded = f"The recorded step takes {format_ns(wall_ns)}: {', '.join(parts)}."
    return [recorded, *(one.sentence for one in breakdown.corrections)]
