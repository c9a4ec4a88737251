"""The table of ranks: how long each works and waits, and how late it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table

from stepwhy.base import units
from stepwhy.show.console import Text
from stepwhy.show.ranks import others_sentence, takes_longer, those_that_matter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from stepwhy.result import RankUse, Result

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
    shown = result.ranks if show_all else those_that_matter(result.ranks)
    remark = f"  {len(shown)} of {len(result.ranks)}, per step"
    yield Text.assemble(("\nRanks", "bold"), (remark, "dim"))
    yield Padding(_table(shown, wide=width >= _WIDE), (0, 0, 0, 2))
    if len(shown) < len(result.ranks):
        which = "Those that the others wait for longest; all with --all."
        rest = others_sentence(result.ranks, shown)
        yield Padding(Text(f"{which} {rest}", "dim"), (0, 2))


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
        table.add_row(*map(Text, cells), *([Text(takes_longer(rank))] if is_known else []))
    return table


__all__ = ["ranks_section"]
