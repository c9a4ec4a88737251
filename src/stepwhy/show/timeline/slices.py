"""Slices to draw, and the merging of short ones where there are too many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

# A merged slice is drawn as the category of its longest part; categories fit into these bits.
_CATEGORY_BITS = 4
_LONGEST_NS = 1 << 50


class Drawn(msgspec.Struct, frozen=True):
    """Slices to draw, ordered by strip (one lane of one row), then start; all shapes (slices,).

    Args:
        strip: Strip of each slice.
        start_ns: Start.
        end_ns: End; slices of one strip do not overlap.
        category: Index into `DRAWN_CATEGORIES`.
        label: Index into a list of labels; NULL for none.
        merged: Number of slices that it stands for; 0 for a single one.
        size: Bytes; NULL if unknown.
        launch: Place of the slice that launched it; NULL if unknown.
    """

    strip: Ints
    start_ns: Ints
    end_ns: Ints
    category: Ints
    label: Ints
    merged: Ints
    size: Ints
    launch: Ints

    def __len__(self) -> int:
        return len(self.start_ns)


def drawn(strip: Ints, start_ns: Ints, end_ns: Ints, category: Ints, **optional: Ints) -> Drawn:
    """Slices whose optional columns default to unknown."""
    none = np.full(len(strip), NULL, dtype=np.int64)
    columns: dict[str, Any] = {"label": none, "size": none, "launch": none, **optional}
    return Drawn(strip, start_ns, end_ns, category, merged=np.zeros_like(strip), **columns)


def joined(parts: list[Drawn]) -> Drawn:
    """Concatenate slices, whose strips must increase from part to part.

    Args:
        parts: The parts, at least one. Launches are places within their part.
    """
    columns = {name: [getattr(part, name) for part in parts] for name in Drawn.__struct_fields__}
    begin = np.cumsum([0, *(len(part) for part in parts[:-1])]).tolist()
    columns["launch"] = [
        np.where(part.launch == NULL, NULL, part.launch + first)
        for part, first in zip(parts, begin, strict=True)
    ]
    return Drawn(**{name: np.concatenate(column) for name, column in columns.items()})


def reordered(slices: Drawn, strip: Ints) -> Drawn:
    """The slices with other numbers of strips, ordered by these; launches stay the same.

    Args:
        slices: The slices.
        strip: New strip of each slice; (slices,).
    """
    order = np.argsort(strip, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    columns = {name: getattr(slices, name)[order] for name in Drawn.__struct_fields__}
    launch = columns["launch"]
    columns["launch"] = np.where(launch == NULL, NULL, place[launch])
    columns["strip"] = strip[order]
    return Drawn(**columns)


def thinned(slices: Drawn, most: int) -> tuple[Drawn, int]:
    """Merge neighbouring short slices, until at most a number of slices is left.

    Args:
        slices: The slices.
        most: Number of slices to keep, roughly: strips are never left out.

    Returns:
        The slices, and the shortest duration, in ns, that is never merged; 0 if none was.
    """
    if len(slices) <= most:
        return slices, 0
    # Merging leaves about as many merged slices as there are long ones between them.
    place = len(slices) - most // 3
    shortest = int(np.partition(slices.end_ns - slices.start_ns, place)[place]) + 1
    thin = _merged(slices, shortest)
    while len(thin) > most and shortest < _LONGEST_NS:
        shortest += shortest // 2 + 1
        thin = _merged(slices, shortest)
    return thin, shortest


def _merged(slices: Drawn, shortest: int) -> Drawn:
    """Merge adjacent slices of a strip if they and the gap between them are all short.

    Args:
        slices: The slices.
        shortest: Shortest duration that is not merged, ns.
    """
    if not len(slices):
        return slices
    short = slices.end_ns - slices.start_ns < shortest
    begins = np.ones(len(slices), dtype=bool)
    begins[1:] = (
        ~(short[1:] & short[:-1])
        | (slices.strip[1:] != slices.strip[:-1])
        | (slices.start_ns[1:] - slices.end_ns[:-1] >= shortest)
        # Long runs of short slices stay divided, so that their density can be seen.
        | (slices.start_ns[1:] // (8 * shortest) != slices.start_ns[:-1] // (8 * shortest))
    )
    first = np.flatnonzero(begins)
    count = np.diff(first, append=len(slices))
    last = first + count - 1
    weight = (slices.end_ns - slices.start_ns) << _CATEGORY_BITS | slices.category
    # A slice may itself stand for others already.
    stands_for = np.add.reduceat(np.maximum(slices.merged, 1), first)
    is_single = stands_for == 1
    place = np.cumsum(begins) - 1
    launch = slices.launch[first]
    return Drawn(
        strip=slices.strip[first],
        start_ns=slices.start_ns[first],
        end_ns=slices.end_ns[last],
        category=np.maximum.reduceat(weight, first) & ((1 << _CATEGORY_BITS) - 1),
        label=np.where(is_single, slices.label[first], NULL),
        merged=np.where(is_single, 0, stands_for),
        size=np.where(is_single, slices.size[first], NULL),
        launch=np.where(is_single & (launch != NULL), place[launch], NULL),
    )
