"""`stepwhy run`."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import click

from _stepwhy_command import run_unobserved
from stepwhy.cli.explain_aside import explain_aside, reduce_aside
from stepwhy.cli.metrics_options import metrics_options, publication
from stepwhy.cli.words import CommandWithCommand, words_to_run


@click.command(
    cls=CommandWithCommand,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Run directory to write; default stepwhy-runs/<time>-<name>. DIR-2 if it holds a run.",
)
@click.option("--quiet", is_flag=True, help="Show no progress in the terminal title and no report.")
@click.option(
    "--reduce",
    is_flag=True,
    help="Instead of the report, reduce the ranks to kilobytes, for 'stepwhy explain DIR'.",
)
@metrics_options
@click.argument(
    "command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]..."
)
@click.pass_context
def run(
    ctx: click.Context,
    out: Path | None,
    *,
    quiet: bool,
    reduce: bool,
    metrics_file: Path | None,
    metrics_port: int | None,
    otlp: str | None,
    command: tuple[str, ...],
) -> None:
    """Observe an unmodified training run, then explain it.

    Runs 'python SCRIPT ARGS...', a program, as in 'stepwhy run torchrun train.py', or any command
    after '--'. Input, output, signals and exit code of the training pass through. At the end, the
    report goes to standard error, and as a page, report.html, into the run directory.

    Where a launcher such as srun or mpirun starts this command once per rank, each of them writes
    DIR/rank-N, and rank 0 reports. 'stepwhy explain DIR' explains all ranks together. With
    --reduce, each rank does its part of that when it ends.
    """
    words = words_to_run(ctx, command)
    try:
        from stepwhy.record import default_run_dir, launch
        from stepwhy.record.launcher.command import of_rank
        from stepwhy.record.launcher.proxy import CommandProxy

        whole_run = out or default_run_dir(words, datetime.now().astimezone())
        run_dir, rank = of_rank(whole_run, os.environ)
        command_proxy = CommandProxy()
    except Exception as error:
        run_unobserved(words, error)
        raise
    with command_proxy as proxy:
        publish = publication(metrics_file, metrics_port, otlp, report=proxy.print_error)
        launched = launch(words, run_dir, show_status=not quiet, proxy=proxy, publish=publish)
        for message in launched.messages:
            proxy.print_error(f"stepwhy: {message}")
        if reduce:
            reduce_aside(launched, proxy)
            if not quiet and rank == 0:
                proxy.print_error(f"stepwhy: for the report: stepwhy explain {whole_run}")
        elif not quiet and rank == 0:
            explain_aside(launched, proxy, words)
            if run_dir != whole_run:
                proxy.print_error(f"stepwhy: this is rank 0; all: stepwhy explain {whole_run}")
        proxy.exit_like(launched.code)
