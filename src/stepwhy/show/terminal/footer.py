"""How reliable the report is: steps, inputs, diagnoses that abstained, notes."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table

from stepwhy.base import units
from stepwhy.base.text import one_line, visible
from stepwhy.show import words
from stepwhy.show.console import Text
from stepwhy.show.watched import watching_sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import RenderableType

    from stepwhy.result import Finding, FindingVerdict, Input, Result

_PATHS_NAMED = 3
_CHECKS_NAMED = 2
_SEVERITY_STYLES = {"error": "red", "warning": "yellow", "info": "dim"}


def footer(result: Result, *, show_all: bool) -> Iterator[RenderableType]:
    """A grid of labels and short lines.

    Args:
        result: What to report.
        show_all: Also print the other diagnoses and informative health entries.
    """
    if show_all:
        yield from _other_checks(result)
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, lines in _rows(result, show_all=show_all):
        for index, line in enumerate(lines):
            table.add_row("" if index else label, line)
    yield Text("")
    yield table
    yield Text("")


def _rows(result: Result, *, show_all: bool) -> Iterator[tuple[str, list[Text]]]:
    steps = [Text(words.steps_line(result))]
    watching = watching_sentence(result.steps)
    # That a cost is unknown helps nobody whose step is slow.
    if watching and (show_all or result.steps.observer_cost_missing_steps is None):
        steps.append(Text(watching))
    if result.steps.note:
        steps.append(Text(one_line(result.steps.note)))
    yield "Steps", steps
    gpus = words.gpu_sentences(result)
    yield ("GPU" if len(gpus) == 1 else "GPUs"), [Text(line) for line in gpus]
    yield ("Input" if len(result.inputs) == 1 else "Inputs"), _inputs(result.inputs)
    yield "Reading", _health(result.inputs, show_all=show_all)
    if not show_all:
        yield "Not checked", _abstained(result)
    yield "Notes", [Text(one_line(note)) for note in words.notes(result)]


def _inputs(inputs: tuple[Input, ...]) -> list[Text]:
    lines = [
        Text(visible(file.path)).append(f" · {one_line(file.format)}, {_events((file,))}", "dim")
        for file in inputs[:_PATHS_NAMED]
    ]
    rest = inputs[_PATHS_NAMED:]
    if rest:
        files = "1 more file" if len(rest) == 1 else f"{len(rest)} more files"
        lines.append(Text(f"and {files}").append(f" · {_events(rest)}", "dim"))
    return lines


def _events(inputs: Iterable[Input]) -> str:
    files = tuple(inputs)
    read, kept = sum(f.events_read for f in files), sum(f.events_kept for f in files)
    if read == kept:
        return f"{units.format_count(read)} events"
    return f"{units.format_count(kept)} of {units.format_count(read)} events kept"


def _health(inputs: tuple[Input, ...], *, show_all: bool) -> list[Text]:
    """One line per counter over all inputs, errors first."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for entry in (entry for file in inputs for entry in file.health):
        counts[entry.severity, entry.counter, entry.help] += entry.count
    order = ("error", "warning", "info") if show_all else ("error", "warning")
    return [
        _health_line(severity, counter, text, count)
        for listed in order
        for (severity, counter, text), count in counts.items()
        if severity == listed and count
    ]


def _health_line(severity: str, counter: str, text: str, count: int) -> Text:
    return Text.assemble(
        (f"{severity}: ", _SEVERITY_STYLES[severity]),
        one_line(text),
        (f" ({one_line(counter)}: {units.format_count(count)})", "dim"),
    )


def _abstained(result: Result) -> list[Text]:
    """One line about diagnoses that another record could unlock."""
    # Without a verdict, all of them wait for what the header asks for.
    ids = [f.id for f in result.findings if f.verdict in words.ABSTAINED]
    if not ids or result.verdict.bound_by == "unknown":
        return []
    rest = f" and {len(ids) - _CHECKS_NAMED} more" if len(ids) > _CHECKS_NAMED else ""
    names = ", ".join(one_line(name) for name in ids[:_CHECKS_NAMED])
    return [Text(f"{names}{rest}").append(" · see --all", "dim")]


def _other_checks(result: Result) -> Iterator[RenderableType]:
    others = [finding for finding in result.findings if finding.verdict != "found"]
    if not others:
        return
    yield Text("\nOther checks", "bold")
    order = list(words.VERDICT_WORDS)
    others.sort(key=lambda finding: order.index(finding.verdict))
    for verdict, group in groupby(others, key=lambda finding: finding.verdict):
        yield Padding(_check_group(verdict, group), (0, 0, 0, 2))


def _check_group(verdict: FindingVerdict, group: Iterable[Finding]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, width=24)
    table.add_column(style="dim", overflow="fold")
    for finding in group:
        reason = one_line(finding.reason or finding.title)
        text = reason if verdict == "clear" else f"{words.VERDICT_WORDS[verdict]}: {reason}"
        table.add_row(Text(one_line(finding.id)), Text(text))
    return table
