"""The report in the terminal, meant to be understood in ten seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group

from stepwhy.show import sections
from stepwhy.show.blocks import Fact, Facts, Section, Span
from stepwhy.show.console import Console, Text
from stepwhy.show.ranks import ranks_section
from stepwhy.show.terminal.blocks import View, rendered
from stepwhy.show.terminal.finish import Finish
from stepwhy.show.terminal.lines import lines_section
from stepwhy.show.terminal.memory import memory_section
from stepwhy.show.terminal.watched import watched_sections

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.result import Result

# Longer lines are hard to read.
_WIDEST = 120
_CHECKS_NAMED = 2


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
    view = View(width, has_colour, show_all)
    report = Group(
        Text(""),
        *rendered([*sections.first_screen(result), *sections.picture(result)], view),
        *lines_section(result, show_all=show_all),
        *rendered([*sections.findings(result), *ranks_section(result, show_all=show_all)], view),
        *watched_sections(result, width, show_all=show_all),
        *memory_section(result, width, show_all=show_all),
        *rendered(sections.tables(result) if show_all else (), view),
        *rendered(_footer(result, show_all=show_all), view, indent=0),
        Text(""),
    )
    console.print(Finish(report, ascii_only=console.options.ascii_only), width=width)


def _footer(result: Result, *, show_all: bool) -> Iterator[Section]:
    """The other checks, or a line about those that another record could unlock; then the record."""
    checks = sections.checks(result)
    rows = sections.reading(result, show_all=show_all).rows
    if show_all and checks.groups:
        yield Section("checks", "Other checks", (checks,))
    ids = checks.ids(is_clear=False)
    # Without a verdict, all of them wait for what the header asks for.
    if not show_all and ids and result.verdict.bound_by != "unknown":
        more = f" and {len(ids) - _CHECKS_NAMED} more" if len(ids) > _CHECKS_NAMED else ""
        named = Span(f"{', '.join(ids[:_CHECKS_NAMED])}{more}"), Span(" · see --all", "soft")
        before = [row for row in rows if row.label != "Notes"]
        rows = (*before, Fact("Not checked", (named,)), *rows[len(before) :])
    yield Section("record", "", (Facts(rows),))
