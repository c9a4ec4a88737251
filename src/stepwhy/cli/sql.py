"""`stepwhy sql`."""

from __future__ import annotations

import atexit
import gc
import sys
from typing import TYPE_CHECKING, Any

import click

from stepwhy.base import output
from stepwhy.cli.privacy import redact_option
from stepwhy.cli.small_inputs import bounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepwhy.apps.sql import Limits
    from stepwhy.base.redaction import Redactor

    Row = Sequence[Any]

_STDIN = "-"
# Longest query on standard input, in characters; larger files are no queries.
_LONGEST = 1 << 20


@click.command()
@click.argument("path", metavar="PATH")
@click.argument("query", required=False, metavar="[QUERY]")
@click.option("--tables", "only_list", is_flag=True, help="List all tables and columns instead.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="Output: the first 100 rows for people, or all rows for programs.",
)
@click.option(
    "--memory-limit",
    "memory_gb",
    type=click.FloatRange(min=0.01),
    metavar="GB",
    help="Memory that the query may use; default 4, and at most half of what is free.",
)
@click.option(
    "--time-limit",
    "time_s",
    type=click.FloatRange(min=0.01, max=1e6),
    metavar="S",
    help="Time that the query may take; default 120 s.",
)
@redact_option
def sql(
    path: str,
    query: str | None,
    form: str,
    *,
    only_list: bool,
    memory_gb: float | None,
    time_s: float | None,
    redact: bool,
) -> None:
    """Query the tables of a run with SQL.

    PATH is anything that 'stepwhy explain' accepts; ranks of one run are queried together. QUERY is
    SQL of DuckDB; it may also be piped in. Without one, all tables are listed. Views: steps,
    breakdown, ops, ranks, findings. Tables: slices, tracks, devices, counters, marks and others.
    Times are integers, in nanoseconds. Queries see neither files nor the network.

    Needs the extra 'sql'; without it, an error names the command that installs it.
    """
    from stepwhy.engine.privacy import redactor_of

    redactor = redactor_of(redact)
    text = _text_of(query)
    if only_list or text is None:
        _print_tables(path=path, form=form, redactor=redactor)
        if not only_list:
            output.line("Query them, as in: stepwhy sql PATH 'select * from steps'")
        return
    from stepwhy.apps.sql import answer, limits_of

    atexit.unregister(gc.freeze)  # DuckDB's library complains of what is not collected at exit
    if not text.strip():
        raise click.UsageError("the query is empty; try 'select * from steps'")
    limits = limits_of(None if memory_gb is None else int(memory_gb * 1e9), time_s)
    database = _open(path=path, query=text, redactor=redactor, limits=limits)
    found = answer(database, text, limits)
    _print(form, found.columns, found.batches)


def _text_of(query: str | None) -> str | None:
    """The query, which may be piped in; None if there is none."""
    if query is not None and query != _STDIN:
        return query
    is_piped = sys.stdin is not None and not sys.stdin.isatty()
    text = sys.stdin.read(_LONGEST) if is_piped else ""
    return None if query is None and not text.strip() else text


@bounded
def _open(*, path: str, query: str, redactor: Redactor, limits: Limits) -> Any:
    """A database with the tables of the query, within the limits of small inputs."""
    from stepwhy.apps.sql import open_database
    from stepwhy.cli.progress import progress

    with progress((path,)) as report:
        return open_database(path, query, report, redact=redactor, limits=limits)


@bounded
def _print_tables(*, path: str, form: str, redactor: Redactor) -> None:
    from msgspec.structs import astuple

    from stepwhy.apps.sql import Described, open_tables
    from stepwhy.cli.progress import progress

    with progress((path,)) as report:
        columns = list(open_tables(path, report, redact=redactor).describe())
    if form == "table":
        from stepwhy.show.terminal.rows import render_tables

        render_tables(columns)
        return
    _print(form, Described.__struct_fields__, iter([list(map(astuple, columns))]))


def _print(form: str, columns: Sequence[str], batches: Iterator[Sequence[Row]]) -> None:
    """Print rows.

    Args:
        form: 'table', 'csv' or 'json'.
        columns: Names of the columns.
        batches: Batches of rows.
    """
    if form == "table":
        from stepwhy.show.terminal.rows import render_rows

        render_rows(columns, batches)
        return
    from stepwhy.show.rows import csv_lines, json_lines

    for text in (csv_lines if form == "csv" else json_lines)(columns, batches):
        output.document(text)
