"""`stepwhy bench`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from stepwhy.base import output
from stepwhy.cli.words import CommandWithCommand, words_to_run

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_S = 7 * 24 * 3600.0


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.3 on
    """A duration, '90s', '3m' or '1h', in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert the text to seconds."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        unit = _UNITS_S.get(text[-1:])
        try:
            seconds = float(text[:-1]) * unit if unit else float(text)
        except ValueError:
            seconds = -1.0
        if not 0 < seconds <= _LONGEST_S:
            self.fail(f"{value!r} is not a duration, such as 90s, 3m or 1h", param, ctx)
        return seconds


repeats_option = click.option(
    "--repeats",
    type=click.IntRange(min=1),
    help="Make exactly this many valid runs of each program, whatever the time.",
)
budget_option = click.option(
    "--budget",
    type=Duration(),
    default="3m",
    show_default=True,
    metavar="TIME",
    help="End the runs after this time even if they do not answer; such as 90s, 10m or 1h.",
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
@budget_option
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
    repeats: int | None,
    budget: float,
    out: Path | None,
    batch_size: int | None,
    *,
    allow_busy: bool,
    as_json: bool,
    command: tuple[str, ...],
) -> None:
    """Measure the step time of a training program over several runs, with a confidence interval.

    Runs 'python SCRIPT ARGS...', or any command after '--', until the step time is known to within
    2 %, for at most three minutes (--budget). Leaves out warm-up steps and profiled steps. Runs
    during which other programs kept the machine busy do not count; if it stays busy, the result is
    void.
    """
    from stepwhy.cli.measuring import new_folder, run_progress, save_result
    from stepwhy.cli.programs import program
    from stepwhy.measure import Budget, measure, measure_until_precise, summarise
    from stepwhy.record.launcher.command import default_run_dir, run_name
    from stepwhy.result.measurement import BENCH_FILE

    words = words_to_run(ctx, command)
    label = run_name(words)
    folder = new_folder(out or default_run_dir([f"bench-{label}"], datetime.now().astimezone()))
    measured = program(label, words, folder, folder)
    if repeats == 1:
        output.line(
            "stepwhy: A single run does not show the variation between runs; without --repeats, "
            "there are at least six."
        )
    with run_progress() as progress:
        if repeats:
            samples = measure(measured, repeats, allow_busy=allow_busy, progress=progress)
        else:
            samples = measure_until_precise(
                measured, Budget(budget), allow_busy=allow_busy, progress=progress
            )
    result = summarise(label, samples, repeats or min(len(samples), 2), batch_size)
    text = save_result(folder / BENCH_FILE, result)
    if as_json:
        output.document(text)
        return
    from stepwhy.show.terminal.measurement import render_bench

    render_bench(result)
    output.line(f"Runs: {folder}")
