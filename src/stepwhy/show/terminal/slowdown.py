"""The part of `stepwhy whatif` about a job: what makes its steps longer than ideal ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table

from stepwhy.base.text import visible
from stepwhy.base.units import format_fraction, format_ns
from stepwhy.show.console import Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import RenderableType

    from stepwhy.result import Slowdown

_SHOWN = 8  # parts of a kind, the slowest; --json lists all
_MEANING = (
    "An ideal step takes the usual time for each operation. S by part is of steps in which only "
    "this part takes as long as recorded."
)


def slowdown_parts(slowdown: Slowdown) -> Iterator[RenderableType]:
    """The slowdown, and a table of it by stage, operation and data-parallel rank."""
    steps = [format_ns(ns) for ns in (slowdown.replayed_ns, slowdown.ideal_ns)]
    headline = (
        f"S = {slowdown.slowdown:.4f}: the replayed step takes {steps[0]}, an ideal one {steps[1]}."
    )
    yield Padding(Text(headline), (1, 0, 0, 2))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("S by", overflow="fold")
    table.add_column("", overflow="fold")
    table.add_column("", justify="right", no_wrap=True)
    kinds = {
        "stage": slowdown.by_stage,
        "operation": slowdown.by_operation,
        "data rank": slowdown.by_data_rank,
    }
    for kind, parts in kinds.items():
        for row in _rows(kind, parts):
            table.add_row(*map(Text, row))
    yield Padding(table, (1, 0, 0, 2))
    for line in _shares(slowdown):
        yield Padding(Text(line), (0, 0, 0, 2))
    yield Padding(Text(f"\n{_MEANING}", "dim"), (0, 0, 0, 2))


def _rows(kind: str, parts: Mapping[str, float]) -> Iterator[tuple[str, str, str]]:
    """Name of the kind in the first row, a part, and its slowdown; the slowest parts first."""
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    for place, (name, value) in enumerate(ordered[:_SHOWN]):
        yield kind if place == 0 else "", visible(name), f"{value:.4f}"
    if len(ordered) > _SHOWN:
        yield "", f"{len(ordered) - _SHOWN} more with --json", ""


def _shares(slowdown: Slowdown) -> Iterator[str]:
    if slowdown.last_stage_share is None or slowdown.slowest_ranks_share is None:
        yield "The step is hardly longer than an ideal one: no share of the slowdown is given."
        return
    ranks = ", ".join(map(str, slowdown.slowest_ranks[:_SHOWN]))
    more = len(slowdown.slowest_ranks) - _SHOWN
    ranks = f"{ranks} and {more} more" if more > 0 else ranks
    last = format_fraction(slowdown.last_stage_share)
    slowest = format_fraction(slowdown.slowest_ranks_share)
    yield f"M_S = {slowdown.last_stage_share:.4f}: the last stage explains {last} of the slowdown."
    yield (
        f"M_W = {slowdown.slowest_ranks_share:.4f}: the slowest 3 % of the ranks ({ranks}) explain "
        f"{slowest} of it."
    )
