"""The report in the terminal, meant to be understood in ten seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group

from stepwhy.show.console import Console
from stepwhy.show.terminal import footer, header, picture
from stepwhy.show.terminal.findings import findings
from stepwhy.show.terminal.finish import Finish
from stepwhy.show.terminal.lines import lines_section
from stepwhy.show.terminal.memory import memory_section
from stepwhy.show.terminal.watched import watched_sections

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stepwhy.result import Result

# Longer lines are hard to read.
_WIDEST = 120


def render(result: Result, *, show_all: bool = False, console: Console | None = None) -> None:
    """Print verdict, breakdown, lines, findings, ranks, queues and events, memory, and footer.

    Args:
        result: What to report.
        show_all: Also print the other diagnoses, all evidence, the ops and the devices, and how the
            breakdown follows from the record.
        console: Console to print to; None for standard output. Without colours, letters
            distinguish the categories. Without a Unicode encoding, the output is ASCII.
    """
    console = console or Console()
    width = min(console.width, _WIDEST)
    has_colour = console.color_system is not None and not console.no_color
    report = Group(
        *header.header(result),
        *picture.picture(result, width, has_colour=has_colour, show_all=show_all),
        *lines_section(result, show_all=show_all),
        *findings(result, width, show_all=show_all),
        *_ranks(result, width, show_all=show_all),
        *watched_sections(result, width, show_all=show_all),
        *memory_section(result, width, show_all=show_all),
        *(_tables(result, width) if show_all else ()),
        *footer.footer(result, show_all=show_all),
    )
    console.print(Finish(report, ascii_only=console.options.ascii_only), width=width)


def _ranks(result: Result, width: int, *, show_all: bool) -> list[RenderableType]:
    # Only several ranks need them.
    if not result.ranks:
        return []
    from stepwhy.show.terminal.ranks import ranks_section  # noqa: PLC0415

    return [*ranks_section(result, width, show_all=show_all)]


def _tables(result: Result, width: int) -> list[RenderableType]:
    # Only --all needs them: avoid the import otherwise.
    from stepwhy.show.terminal import tables  # noqa: PLC0415

    return tables.tables(result, width)
