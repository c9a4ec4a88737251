"""The report that a tired person understands in ten seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group

from stepwhy.report.console import Console
from stepwhy.report.terminal import footer, header, picture
from stepwhy.report.terminal.findings import findings
from stepwhy.report.terminal.finish import Finish
from stepwhy.report.terminal.memory import memory_section
from stepwhy.report.terminal.watched import seen

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stepwhy.findings import Result

# Lines longer than this are hard to read; a wider terminal stays empty to the right.
_WIDEST = 100


def render(result: Result, *, show_all: bool = False, console: Console | None = None) -> None:
    """Prints verdict, picture, findings, what was watched, and footer, in this order.

    Args:
        result: What to report.
        show_all: Also the diagnoses that found nothing, all evidence, the ops and the devices.
        console: Where to print; standard output where None. Its width, colours and encoding
            are respected: without colour, letters tell the categories apart; without a Unicode
            encoding, ASCII stands in.
    """
    console = console or Console()
    width = min(console.width, _WIDEST)
    has_colour = console.color_system is not None and not console.no_color
    report = Group(
        *header.header(result),
        *picture.picture(result, width, has_colour=has_colour),
        *findings(result, width, show_all=show_all),
        *seen(result, width, show_all=show_all),
        *memory_section(result, width, show_all=show_all),
        *(_tables(result, width) if show_all else ()),
        *footer.footer(result, show_all=show_all),
    )
    console.print(Finish(report, ascii_only=console.options.ascii_only), width=width)


def _tables(result: Result, width: int) -> list[RenderableType]:
    # Only --all needs them; a plain report should not pay for the import.
    from stepwhy.report.terminal import tables  # noqa: PLC0415

    return tables.tables(result, width)
