"""`stepwhy check`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepwhy.base import output
from stepwhy.base.text import escape_json, one_line
from stepwhy.cli.words import CommandWithCommand, words_to_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from stepwhy.record.checks import Item, Report
    from stepwhy.show.console import Text

_WIDEST = 100  # as in the report of 'stepwhy explain'
_GROUPS = (
    ("ok", "Can be observed", "green"),
    ("limited", "Limited", "yellow"),
    ("missing", "Missing", ""),
    ("conflict", "In the way", "red"),
)


@click.command(
    cls=CommandWithCommand,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Run directory to write; default: under stepwhy-runs.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[SCRIPT [ARGS]...]")
@click.pass_context
def check(ctx: click.Context, out: Path | None, *, as_json: bool, command: tuple[str, ...]) -> None:
    """Check what 'stepwhy run' can observe here, and how to get the rest.

    Takes the same SCRIPT, or command after '--', as 'stepwhy run', but does not run it; it only
    starts the Python interpreter that the command would use. Exits with 0 if a training could be
    observed, with 1 if not.
    """
    from stepwhy.record.checks import check as check_command

    words = words_to_run(ctx, command) if command else []
    report = check_command(words, out)
    if as_json:
        document = json.dumps(report.as_dict(), indent=2, ensure_ascii=False)
        output.document(f"{escape_json(document)}\n")
    else:
        _show(report)
    ctx.exit(0 if report.observable else 1)


def _show(report: Report) -> None:
    """Print the report as a table, one group per state."""
    from rich.console import Group

    from stepwhy.show.console import Console
    from stepwhy.show.terminal.finish import Finish

    console = Console()
    table = Group(*_groups(report))
    ascii_only = console.options.ascii_only
    console.print(Finish(table, ascii_only=ascii_only), width=min(console.width, _WIDEST))


def _groups(report: Report) -> Iterator[RenderableType]:
    from rich.table import Table

    from stepwhy.show.console import Text

    yield _headline(report)
    name_width = max(len(item.name) for item in report.items)
    for state, title, style in _GROUPS:
        items = [item for item in report.items if item.state == state]
        if not items:
            continue
        yield Text(f"\n{title}", f"bold {style}")
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=name_width + 2, no_wrap=True)
        table.add_column(overflow="fold")
        for item in items:
            is_obstacle = item.state == "missing" and item.need == "must"
            table.add_row(
                Text(f"  {one_line(item.name)}", "red" if is_obstacle else ""), _text(item)
            )
        yield table
    yield Text("")


def _headline(report: Report) -> Text:
    from stepwhy.show.console import Text

    if not report.observable:
        colour, sentence = "red", f"No training can be observed here: {one_line(report.obstacle)}."
    elif any(item.name == "attach" and item.state == "limited" for item in report.items):
        colour, sentence = "yellow", "Whether it can be observed is unknown until it runs."
    elif any(item.state == "conflict" for item in report.items):
        colour, sentence = "yellow", "A training can be observed here, but something is in the way."
    else:
        colour, sentence = "green", "A training can be observed here."
    return Text.assemble(("\n■ ", colour), (sentence, f"bold {colour}"))


def _text(item: Item) -> Text:
    """What was found, what it means, and what to do."""
    from stepwhy.show.console import Text

    text = Text.assemble(one_line(item.found), (f" · {one_line(item.meaning)}", "dim"))
    if item.todo:
        text.append(f"\n{one_line(item.todo)}", "cyan")
    return text
