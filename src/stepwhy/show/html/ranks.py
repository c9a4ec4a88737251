"""The section on ranks: a row per rank, and heat maps of ranks and steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from stepwhy.base import units
from stepwhy.show import words
from stepwhy.show.html.heat import HeatMaps, heat_maps
from stepwhy.show.html.tables import NOT_RECORDED, Cell, Column, Table, count_cell, time_cell
from stepwhy.show.ranks import others_sentence, takes_longer, those_that_matter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.result import RankUse, Result

# More rows are no help to a reader, and make the page large.
_MOST_ROWS = 200
# The rows that are seen without scrolling or a click; of more, the latest ranks come first.
_AT_A_GLANCE = 25
_MEANING = (
    "A rank waits in a collective until the last one arrives; from then on, data moves. It is late "
    "by what the median of the others waits longer; in how many steps is shown if these are more "
    "than by chance."
)
_NO_WAITS = (
    "How long ranks wait for each other is not known: they have no collectives in common that show "
    "it."
)
_LATE_BY = "Late by"
_COLUMNS = (
    Column("Rank", "name"),
    Column("Step"),
    Column("Works"),
    Column("Waits"),
    Column("Moves data"),
    Column(_LATE_BY),
    Column("Late in steps"),
    Column("Last in"),
    Column("Others wait for it"),
    Column("Takes longer", "text"),
)


class RankView(msgspec.Struct, frozen=True):
    """What the template shows.

    Args:
        meaning: What the figures mean.
        table: The table.
        note: What is left out, in words; '' for nothing.
        heat: The heat maps; None if the ranks' steps are not compared.
    """

    meaning: str
    table: Table
    note: str
    heat: HeatMaps | None


def rank_view(result: Result) -> RankView | None:
    """Template data of the ranks; None for a single one."""
    if not result.ranks:
        return None
    shown = those_that_matter(result.ranks, _MOST_ROWS)
    rest = others_sentence(result.ranks, shown)
    note = f"{rest} 'stepwhy sql' lists all of them." if rest else ""
    has_waits = any(rank.wait_ns is not None for rank in result.ranks)
    meaning = _MEANING if has_waits else _NO_WAITS
    return RankView(meaning, _table(result, shown), note, heat_maps(result.rank_steps))


def _table(result: Result, shown: Sequence[RankUse]) -> Table:
    all_ranks, count = units.format_count(len(result.ranks)), units.format_count(len(shown))
    which = f"{count} of {all_ranks} ranks" if count != all_ranks else f"{all_ranks} ranks"
    is_many = len(shown) > _AT_A_GLANCE
    if is_many:
        shown = sorted(shown, key=lambda rank: -(rank.late_ns or 0))
    rows = [_row(one) for one in shown]
    known = [i for i in range(len(_COLUMNS)) if any(_is_known(row[i]) for row in rows)]
    mean = "mean per step" if words.whole(result) == "step" else "over the whole trace"
    return Table(
        "By rank",
        f"{which}, {mean}; {NOT_RECORDED} means not recorded",
        tuple(_sorted(_COLUMNS[i]) if is_many else _COLUMNS[i] for i in known),
        tuple(tuple(row[i] for i in known) for row in rows),
    )


def _is_known(cell: Cell) -> bool:
    return cell.value is not None or cell.text not in {"", NOT_RECORDED}


def _sorted(column: Column) -> Column:
    return replace(column, is_sorted=column.title == _LATE_BY)


def _row(rank: RankUse) -> tuple[Cell, ...]:
    return (
        Cell(str(rank.rank)),
        time_cell(rank.step_ns),
        time_cell(rank.work_ns),
        time_cell(rank.wait_ns),
        time_cell(rank.transfer_ns),
        time_cell(rank.late_ns),
        Cell("") if rank.late_steps is None else count_cell(rank.late_steps),
        count_cell(rank.last),
        time_cell(rank.caused_wait_ns),
        Cell(takes_longer(rank)),
    )
