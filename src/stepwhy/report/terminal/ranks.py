"""The table of ranks: how long each works and waits, and how late it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table

from stepwhy import units
from stepwhy.kernel_names.short import short_name
from stepwhy.report import words
from stepwhy.report.console import Text
from stepwhy.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from stepwhy.findings import RankUse, Result

_SHOWN = 8  # ranks without --all; more are summed up
_WIDE = 90  # columns; narrower tables leave out what takes a rank longer


def ranks_section(result: Result, width: int, *, show_all: bool) -> Iterator[RenderableType]:
    """The ranks, those for which the others wait longest if there are many; none for one rank.

    Args:
        result: What to report.
        width: Width of the table.
        show_all: List all ranks.
    """
    if not result.ranks:
        return
    shown = result.ranks if show_all else _chosen(result.ranks)
    remark = f"  {len(shown)} of {len(result.ranks)}, per step"
    yield Text.assemble(("\nRanks", "bold"), (remark, "dim"))
    yield Padding(_table(shown, wide=width >= _WIDE), (0, 0, 0, 2))
    if len(shown) < len(result.ranks):
        yield Padding(
            Text("Those that the others wait for longest; all with --all.", "dim"), (0, 2)
        )


def _chosen(ranks: Sequence[RankUse]) -> Sequence[RankUse]:
    """The ranks that matter most, in the order of their numbers."""
    if len(ranks) <= _SHOWN:
        return ranks
    matter = sorted(ranks, key=lambda r: (not r.longer, -(r.late_ns or 0), -r.work_ns))
    return sorted(matter[:_SHOWN], key=lambda rank: rank.rank)


def _table(ranks: Sequence[RankUse], *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    names = ("rank", "step", "works", "waits", "moves data", "late by", "last in")
    for name in names:
        table.add_column(name, justify="right")
    is_known = wide and any(rank.longer for rank in ranks)
    if is_known:
        table.add_column("takes longer", justify="left", overflow="fold")
    for rank in ranks:
        times = (rank.wait_ns, rank.transfer_ns, rank.late_ns)
        cells = [
            str(rank.rank),
            units.format_ns(rank.step_ns),
            units.format_ns(rank.work_ns),
            *("?" if ns is None else units.format_ns(ns) for ns in times),
            "?" if rank.last is None else units.format_count(rank.last),
        ]
        table.add_row(*map(Text, cells), *([Text(_longer(rank))] if is_known else []))
    return table


def _longer(rank: RankUse) -> str:
    """What takes a rank longer than the others, in words."""
    if not rank.longer:
        return ""
    label = words.CATEGORY_WORDS[rank.longer].label
    operation = " ".join(filter(None, (short_name(rank.operation), rank.phase)))
    return " · ".join(one_line(part) for part in (label, operation, rank.line) if part)


__all__ = ["ranks_section"]
