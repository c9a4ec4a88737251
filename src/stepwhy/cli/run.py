"""`stepwhy run`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepwhy import output
from stepwhy.cli.words import CommandWithCommand, words_to_run

if TYPE_CHECKING:
    from stepwhy.capture import Launch


@click.command(
    cls=CommandWithCommand,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Run directory to write; default stepwhy-runs/<time>-<name>.",
)
@click.option("--quiet", is_flag=True, help="No title while it runs, no report at the end.")
@click.argument(
    "command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]..."
)
@click.pass_context
def run(ctx: click.Context, out: Path | None, *, quiet: bool, command: tuple[str, ...]) -> None:
    """Watch a training run without a change to it, then explain it.

    Runs 'python SCRIPT ARGS...', or any command after '--', as in 'stepwhy run -- torchrun
    train.py'. The training's own output, input and exit code pass through; the report goes to
    standard error.
    """
    from stepwhy.capture import default_run_dir, launch

    words = words_to_run(ctx, command)
    run_dir = out or default_run_dir(words, datetime.now().astimezone())
    launched = launch(words, run_dir, show_status=not quiet)
    for message in launched.messages:
        output.line(f"stepwhy: {message}")
    if not quiet:
        _explain(launched)
    ctx.exit(launched.exit_code)


def _explain(launched: Launch) -> None:
    """Explain the run; a failure here never hides how the training ended."""
    from stepwhy.cli.progress import progress
    from stepwhy.engine import explain
    from stepwhy.engine.present import as_seen_from_here, show
    from stepwhy.errors import NoTracesError, StepwhyError
    from stepwhy.report.console import Console

    run_dir = as_seen_from_here(launched.run_dir)
    try:
        with progress([str(run_dir)]) as report:
            result = explain([str(run_dir)], report)
        show(result, run_dir, Console(stderr=True))
    except StepwhyError as error:
        if isinstance(error, NoTracesError) and launched.messages:
            return  # the messages have said why
        output.line(f"stepwhy: {error} [{error.slug}]")
    except OSError as error:
        output.line(f"stepwhy: the report could not be written: {error.strerror}")
    except KeyboardInterrupt:
        output.line(f"stepwhy: not explained; later: stepwhy explain {run_dir}")
    except Exception as error:  # noqa: BLE001 - whatever it is, the training has ended as it has
        output.line(f"stepwhy: the explanation failed: {type(error).__name__}: {error}")
