"""`stepwhy bench`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from stepwhy import output
from stepwhy.cli.words import CommandWithCommand, words_to_run

repeats_option = click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Number of valid runs of each program.",
)
out_option = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder for the runs and the result; default stepwhy-runs/<time>-<name>.",
)
batch_option = click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    metavar="N",
    help="Examples per step, to report examples per second.",
)
busy_option = click.option(
    "--allow-busy",
    is_flag=True,
    help="Count runs even if other programs kept more than a quarter of a core busy.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of the report."
)


@click.command(
    cls=CommandWithCommand,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@repeats_option
@out_option
@batch_option
@busy_option
@json_option
@click.argument(
    "command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]..."
)
@click.pass_context
def bench(
    ctx: click.Context,
    repeats: int,
    out: Path | None,
    batch_size: int | None,
    *,
    allow_busy: bool,
    as_json: bool,
    command: tuple[str, ...],
) -> None:
    """Measure the step time of a training program over several runs, with a confidence interval.

    Runs 'python SCRIPT ARGS...', or any command after '--', several times. Leaves out warm-up steps
    and profiled steps. Repeats runs during which other programs kept the machine busy; if it stays
    busy, the result is void.
    """
    from stepwhy.bench import measure, summarise
    from stepwhy.capture.launcher.command import default_run_dir, run_name
    from stepwhy.cli.measuring import new_folder, run_progress, save_result
    from stepwhy.cli.programs import BENCH_FILE, program

    words = words_to_run(ctx, command)
    label = run_name(words)
    folder = new_folder(out or default_run_dir([f"bench-{label}"], datetime.now().astimezone()))
    measured = program(label, words, folder, folder)
    with run_progress() as progress:
        samples = measure(measured, repeats, allow_busy=allow_busy, progress=progress)
    result = summarise(label, samples, repeats, batch_size)
    text = save_result(folder / BENCH_FILE, result)
    if as_json:
        output.document(text)
        return
    from stepwhy.report.terminal.measurement import render_bench

    render_bench(result)
    output.line(f"Runs: {folder}")
