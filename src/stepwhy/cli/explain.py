"""`stepwhy explain`."""

from __future__ import annotations

from pathlib import Path

import click

from stepwhy import output
from stepwhy.cli.privacy import redact_option
from stepwhy.cli.small_inputs import bounded


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of the report."
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write the report as one self-contained page.",
)
@click.option("--all", "show_all", is_flag=True, help="Show every diagnosis, operation and device.")
@click.option(
    "--predict/--no-predict",
    default=True,
    show_default=True,
    help="Predict what each fix would gain.",
)
@redact_option
@bounded
def explain(
    paths: tuple[str, ...],
    *,
    as_json: bool,
    html: Path | None,
    show_all: bool,
    predict: bool,
    redact: bool,
) -> None:
    """Explain a recorded training run.

    PATH is a run directory of 'stepwhy run', a trace file of another profiler, a folder, a glob,
    or the address of one of these (https://, s3://, gs://). Several files are explained together
    if they are the ranks of one run; otherwise each gets a line of a table.
    """
    from stepwhy.cli.numpy_import import import_numpy_without_threads

    import_numpy_without_threads()
    from stepwhy.cli.progress import progress
    from stepwhy.engine.survey import survey
    from stepwhy.errors import SeveralRunsError

    timeline = None
    with progress(paths) as report:
        try:
            if html is None:
                from stepwhy.engine import explain as explain_run

                result = explain_run(paths, report, redact=redact, predict=predict)
            else:
                from stepwhy.engine.timeline import explain_with_timeline

                result, timeline = explain_with_timeline(
                    paths, report, redact=redact, predict=predict
                )
        except SeveralRunsError:
            if as_json or html is not None:
                raise
            runs = survey(paths, report, redact=redact)
        else:
            runs = []
    if runs:
        from stepwhy.report.terminal.survey import render_survey

        render_survey(runs)
        return
    if html is not None:
        from stepwhy.report.html import write

        write(html, result, timeline)
    if as_json:
        from stepwhy.report.json import render

        output.document(render(result))
        return
    from stepwhy.report.terminal import render as render_terminal

    render_terminal(result, show_all=show_all)
    if html is not None:
        output.line(f"Report: {html}")
