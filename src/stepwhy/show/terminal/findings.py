"""The findings, each with cost, saving, evidence and fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table

from stepwhy.base import units
from stepwhy.base.text import one_line, plain
from stepwhy.read.kernel_names.short import short_name
from stepwhy.show import words
from stepwhy.show.console import Text
from stepwhy.show.found import explained_sentence
from stepwhy.show.found import risk as risk_of
from stepwhy.show.without_findings import nothing_found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from stepwhy.result import Evidence, Finding, Fix, Result

# Evidence of the first finding and of the others, and findings in full; --all shows the rest.
_FACTS_OF_FIRST = 6
_FACTS_OF_OTHERS = 3
_IN_FULL = 4
_INDENT = (0, 0, 0, 3)


def findings(result: Result, width: int, *, show_all: bool) -> Iterator[RenderableType]:
    """Findings by cost: the costliest in full, the others by title.

    Args:
        result: What to report.
        width: Columns of the report.
        show_all: Print every finding in full, with all its evidence.
    """
    found = words.found(result)
    if not found:
        yield from _nothing_found(result)
        return
    yield Text("\nWhat to change", "bold")
    in_full = len(found) if show_all else _IN_FULL
    for number, finding in enumerate(found[:in_full], start=1):
        if number > 1:
            yield Text("")
        facts = _FACTS_OF_FIRST if number == 1 else _FACTS_OF_OTHERS
        yield from _finding(result, finding, number, width, None if show_all else facts)
    for number, finding in enumerate(found[in_full:], start=in_full + 1):
        if number == in_full + 1:
            yield Text("")
        yield _title(finding, number, _cost(result, finding))
    if explained := explained_sentence(result):
        yield Padding(Text(f"\n{explained}", "dim"), _INDENT)


def _nothing_found(result: Result) -> Iterator[RenderableType]:
    if result.verdict.bound_by == "unknown":
        return
    style = "" if words.is_healthy(result) else "yellow"
    yield Text(f"\n{nothing_found(result)}", style)


def _finding(
    result: Result, finding: Finding, number: int, width: int, facts: int | None
) -> Iterator[RenderableType]:
    yield _title(finding, number, Text(f"({one_line(finding.id)})", "dim"))
    cost = _cost(result, finding)
    if cost:
        yield Padding(cost, _INDENT)
    if finding.saving and finding.saving.note:
        yield Padding(Text(one_line(finding.saving.note), "dim"), _INDENT)
    if finding.evidence:
        shown = finding.evidence[:facts]
        yield Padding(_evidence(shown, width), (1, 0, 0, 3))
        if len(shown) < len(finding.evidence):
            more = len(finding.evidence) - len(shown)
            yield Padding(Text(f"{more} more with --all", "dim"), _INDENT)
    if finding.fix:
        yield from _fix(finding.fix)


def _title(finding: Finding, number: int, rest: Text) -> Table:
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(style="bold cyan")
    title = Text.assemble((one_line(finding.title), "bold"), "  ", rest)
    row.add_row(str(number), title)
    return row


def _cost(result: Result, finding: Finding) -> Text:
    parts = []
    if finding.cost_ns_per_step is not None:
        ns, wall = finding.cost_ns_per_step, result.breakdown.wall_ns
        part = f", {words.share(ns, wall)} of it" if wall > 0 else ""
        amount = (f"{units.format_ns(ns)} {words.per_whole(result)}", "bold")
        parts.append(Text.assemble("costs ", amount, part))
    if finding.saving:
        interval = words.format_saving(finding.saving.low_ns, finding.saving.high_ns)
        parts.append(Text.assemble("fixing it should save ", (interval, "bold green")))
    whole = Text()
    for cost in parts:
        whole.append(" · " if whole else "").append(cost)
    return whole


def _evidence(facts: tuple[Evidence, ...], width: int) -> Table:
    table = Table.grid(padding=(0, 3, 0, 0))
    longest = max(len(one_line(fact.what)) for fact in facts)
    table.add_column(style="dim", width=min(longest, width * 2 // 5))
    table.add_column(overflow="fold")
    for fact in facts:
        value = Text(words.format_value(fact))
        if fact.where:
            value.append(f" · {one_line(short_name(fact.where))}", "dim")
        table.add_row(Text(one_line(fact.what)), value)
    return table


def _fix(fix: Fix) -> Iterator[RenderableType]:
    yield Padding(Text(one_line(fix.text)), (1, 0, 0, 3))
    if fix.code:
        code = Text(plain(fix.code).rstrip().expandtabs(4), "cyan", overflow="fold")
        yield Padding(code, (0, 0, 0, 7))
    if risk := risk_of(fix):
        yield Padding(Text(f"Risk: {risk}.", "yellow"), _INDENT)
