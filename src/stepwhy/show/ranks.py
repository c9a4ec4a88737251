"""Ranks in reports: which of many to list, what to say of the others, and the table of them."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from stepwhy.base import units
from stepwhy.base.text import one_line
from stepwhy.read.kernel_names.short import short_name
from stepwhy.show import blocks, words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from stepwhy.result import RankUse, Result

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


def ranks_section(result: Result, *, show_all: bool) -> Iterator[blocks.Section]:
    """The ranks for which the others wait longest, or all of them; nothing for a single rank."""
    if not result.ranks:
        return
    shown = those_that_matter(result.ranks, len(result.ranks) if show_all else SHOWN)
    head = ("rank", "step", "works", "waits", "moves data", "late by", "last in", "takes longer")
    table = blocks.Table(head, tuple(map(_rank_row, shown)), frozenset(range(7)))
    title = f"Ranks ({len(shown)} of {len(result.ranks)}, per step)"
    rest = others_sentence(result.ranks, shown)
    rest = rest and f"Those that the others wait for longest. {rest}"
    yield blocks.Section("ranks", title, (table, *blocks.sentences([rest], "soft")))


def _rank_row(rank: RankUse) -> tuple[str, ...]:
    times = (rank.step_ns, rank.work_ns, rank.wait_ns, rank.transfer_ns, rank.late_ns)
    return (
        str(rank.rank),
        *("?" if ns is None else units.format_ns(ns) for ns in times),
        "?" if rank.last is None else units.format_count(rank.last),
        takes_longer(rank),
    )
