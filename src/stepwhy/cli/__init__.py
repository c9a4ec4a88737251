"""The command line: thin, with the same nouns everywhere.

Exit codes: 0 explained (also when the verdict is 'unknown'); 2 wrong usage; 3 an input that cannot
be explained; 4 a result that cannot be written; 5 a command that cannot be started; 6 a program
that cannot be measured. `stepwhy run` exits with the exit code of the training, `stepwhy check`
with 1 when none could be observed, `stepwhy compare --fail-if-slower` with 1 when it is slower and
with 7 when it cannot tell.
"""

from __future__ import annotations

import sys

import click

from stepwhy import __version__
from stepwhy.cli.bench import bench
from stepwhy.cli.check import check
from stepwhy.cli.compare import compare
from stepwhy.cli.explain import explain
from stepwhy.cli.export import export
from stepwhy.cli.lab import lab
from stepwhy.cli.ops import ops
from stepwhy.cli.placement import placement
from stepwhy.cli.run import run
from stepwhy.errors import StepwhyError


class _Cli(click.Group):
    """Turns typed errors into one line and their exit code; anything else is a bug and shows."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except StepwhyError as error:
            click.echo(f"stepwhy: {error} [{error.slug}]", err=True)
            ctx.exit(error.exit_code)


@click.group(cls=_Cli, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="stepwhy")
def cli() -> None:
    """Why is my training step slow, what would each fix gain, and did it?

    \b
    stepwhy check train.py     say what can be observed here, before a long run
    stepwhy run train.py       watch a training run, then explain it
    stepwhy explain PATH       explain a run directory or a trace of another profiler
    stepwhy bench train.py     measure the step time in several runs
    stepwhy compare A B        say which of two programs is faster, and where
    stepwhy placement PATH     list where a graph's operations were asked to run, and ran
    stepwhy ops PATH           list what operations cost: by scope, graph, op or line
    stepwhy export PATH        write the timeline for Perfetto, or tables for queries
    """  # noqa: D301 - click's mark against re-wrapping


cli.add_command(bench)
cli.add_command(check)
cli.add_command(compare)
cli.add_command(explain)
cli.add_command(export)
cli.add_command(lab)
cli.add_command(ops)
cli.add_command(placement)
cli.add_command(run)


def main() -> None:
    """Entry point of the `stepwhy` command."""
    try:
        cli()
    except BrokenPipeError:  # `stepwhy explain ... | head`
        sys.stderr.close()
        sys.exit(0)


__all__ = ["cli", "main"]
