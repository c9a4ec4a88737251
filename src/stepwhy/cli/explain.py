"""`stepwhy explain`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepwhy.base import output
from stepwhy.cli.privacy import redact_option
from stepwhy.cli.small_inputs import bounded

if TYPE_CHECKING:
    from stepwhy.engine.timeline import TimelineParts
    from stepwhy.result import Result


FORMATS = ("text", "json", "markdown", "problems")


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Print a report for the terminal (the default), one JSON object, Markdown for issues and "
    "chats, or a line 'file:line: message' per finding for editors.",
)
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Short for --format markdown.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write the report as one self-contained page.",
)
@click.option(
    "--all",
    "show_all",
    is_flag=True,
    help="Show every diagnosis, operation and device, and each correction of the breakdown.",
)
@click.option(
    "--predict/--no-predict",
    default=True,
    show_default=True,
    help="Predict what each fix would gain.",
)
@click.option(
    "--engine",
    default="",
    metavar="NAME",
    help="What reads the files of many ranks: 'processes[:N]' of this machine, or 'ray[:ADDRESS]', "
    "a Ray cluster (needs the extra 'ray'). By default this process, or for large sets one process "
    "per core. The result is the same.",
)
@redact_option
@bounded
def explain(
    paths: tuple[str, ...],
    *,
    form: str | None,
    as_json: bool,
    as_markdown: bool,
    html: Path | None,
    show_all: bool,
    predict: bool,
    engine: str,
    redact: bool,
) -> None:
    """Explain a recorded training run.

    PATH is a run directory of 'stepwhy run', a trace file of another profiler, a folder, a glob,
    or the address of one of these (https://, s3://, gs://). Several files are explained together
    if they are the ranks of one run; otherwise each gets a line of a table.
    """
    # The format that the options name.
    named = {form, "json" if as_json else None, "markdown" if as_markdown else None} - {None}
    if len(named) > 1:
        raise click.UsageError("choose one of --format, --json and --markdown")
    form = next(iter(named), None) or "text"
    from stepwhy.cli.numpy_import import import_numpy_without_threads

    import_numpy_without_threads()
    from stepwhy.base.errors import SeveralRunsError
    from stepwhy.cli.progress import progress
    from stepwhy.engine import explain as explain_run
    from stepwhy.engine.executors.engines import engine_of
    from stepwhy.engine.survey import survey

    parts = _timeline_parts() if html is not None else None
    with progress(paths) as report, engine_of(engine) as executor:
        try:
            result = explain_run(
                paths,
                report,
                redact=redact,
                predict=predict,
                seen=parts.seen if parts else None,
                executor=executor,
            )
        except SeveralRunsError:
            if form != "text" or html is not None:
                raise
            runs = survey(paths, report, redact=redact)
        else:
            runs = []
    if runs:
        from stepwhy.show.terminal.survey import render_survey

        render_survey(runs)
        return
    if html is not None and parts is not None:
        from stepwhy.show.html import write

        write(html, result, parts.timeline(result.ranks))
    if form != "text":
        output.document(_document(result, form, show_all=show_all))
        return
    from stepwhy.show.terminal import render as render_terminal

    render_terminal(result, show_all=show_all)
    if html is not None:
        output.line(f"Report: {html}")


def _timeline_parts() -> TimelineParts:
    """What collects the timeline; imported only for a page."""
    from stepwhy.engine.timeline import TimelineParts

    return TimelineParts()


def _document(result: Result, form: str, *, show_all: bool) -> str:
    """What is printed in a format other than that of the terminal."""
    if form == "json":
        from stepwhy.show import json

        return json.render(result)
    if form == "markdown":
        from stepwhy.show import markdown

        return markdown.render(result, show_all=show_all)
    from stepwhy.show import problems

    lines = problems.render(result)
    if not lines:
        output.line("No finding names a line of the program.")
    return lines
