"""Ranks in reports: which of many to list, and what to say of the others."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from stepwhy.base import units
from stepwhy.base.text import one_line
from stepwhy.read.kernel_names.short import short_name
from stepwhy.show import words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from stepwhy.result import RankUse

SHOWN = 8
"""Ranks that a report lists if it does not show everything."""
_FIELDS: tuple[tuple[str, Callable[[RankUse], int | None]], ...] = (
    ("work", lambda rank: rank.work_ns),
    ("wait", lambda rank: rank.wait_ns),
)


def those_that_matter(ranks: Sequence[RankUse], most: int = SHOWN) -> Sequence[RankUse]:
    """The ranks that the others wait for longest, in the order of their numbers.

    Args:
        ranks: All ranks.
        most: Number of ranks to keep.
    """
    if len(ranks) <= most:
        return ranks
    matter = sorted(ranks, key=lambda r: (not r.longer, -(r.late_ns or 0), -r.work_ns))
    return sorted(matter[:most], key=lambda rank: rank.rank)


def others_sentence(ranks: Sequence[RankUse], shown: Collection[RankUse]) -> str:
    """How long the ranks that are not listed work and wait; '' if all are listed.

    Args:
        ranks: All ranks.
        shown: Those that are listed.
    """
    listed = {rank.rank for rank in shown}
    others = [rank for rank in ranks if rank.rank not in listed]
    if not others:
        return ""
    parts = []
    for verb, time in _FIELDS:
        known = [ns for ns in map(time, others) if ns is not None]
        if known:
            least, most = (units.format_ns(f(known)) for f in (min, max))
            middle = units.format_ns(round(median(known)))
            spread = f"{middle} ({least} to {most})" if least != most else middle
            parts.append(f"{verb} {spread}")
    return f"The other {units.format_count(len(others))} ranks {' and '.join(parts)}."


def takes_longer(rank: RankUse) -> str:
    """What takes a rank longer than the others: category, operation, line; '' if nothing does."""
    if not rank.longer:
        return ""
    label = words.CATEGORY_WORDS[rank.longer].label
    operation = " ".join(filter(None, (short_name(rank.operation), rank.phase)))
    return " · ".join(one_line(part) for part in (label, operation, rank.line) if part)
