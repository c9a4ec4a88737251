"""The command line: a module per command, which is imported when it runs.

In: arguments. Out: text, files and an exit code. Imports: every other room.

Exit codes: 0 explained (even if the verdict is 'unknown'); 2 wrong usage; 3 an input that cannot be
explained; 4 a result that cannot be written; 5 a command that cannot be started; 6 a program that
cannot be measured; 8 a change that can neither be predicted nor tried; 9 a query that cannot be
answered; 10 an address that cannot be listened on. `stepwhy run` exits with the exit code of the
training, `stepwhy check` with 1 if no training could be observed, and `stepwhy compare
--fail-if-slower` with 1 if B is slower, or with 7 if that is unknown.
"""

from __future__ import annotations

import atexit
import gc
import sys
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from stepwhy import __version__
from stepwhy.base import output
from stepwhy.base.children import ignore_relative_path
from stepwhy.base.errors import StepwhyError
from stepwhy.base.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMANDS = (
    "bench", "check", "compare", "explain", "export", "lab", "mcp", "ops", "placement", "run",
    "serve", "sql", "top", "try", "whatif",
)  # fmt: skip
"""Names of the commands. Each is a function in the module of the same name in this package."""
_MODULES = {"try": "trial"}  # `try` is a keyword
# Allocations minus deallocations before a garbage collection. Imports alone reach Python's default
# of 700 a hundred times, and create no garbage.
_GC_THRESHOLD = 10_000
# Raised by click 8.2 and later to show the help of a group without a command.
_HELP = getattr(click.exceptions, "NoArgsIsHelpError", ())


class _Cli(click.Group):
    """Imports only the chosen command, and prints typed errors as one line with their exit code.

    Other exceptions are bugs and are not caught.
    """

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Names of all commands."""
        return list(_COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        """Import a command by its name."""
        if name not in _COMMANDS:
            return None
        module = _MODULES.get(name, name)
        command: click.Command = getattr(import_module(f"{__name__}.{module}"), module)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names.

        Raises:
            click.UsageError: There is none; says what was probably meant.
        """
        if args[0] not in _COMMANDS and not args[0].startswith("-"):
            from stepwhy.cli.suggestions import suggestion

            meant = suggestion(args, _COMMANDS)
            raise click.UsageError(f"There is no command {args[0]!r}. {meant}", ctx)
        return super().resolve_command(ctx, args)

    def make_context(self, info_name: str | None, *args: Any, **options: Any) -> click.Context:
        """Parse the options of stepwhy itself; errors show `info_name`."""
        with _visible_usage_errors():
            return super().make_context(info_name and visible(info_name), *args, **options)

    def invoke(self, ctx: click.Context) -> object:
        """Run the chosen command."""
        output.redact(on=True)
        try:
            with _visible_usage_errors():
                return super().invoke(ctx)
        except StepwhyError as error:
            output.line(f"stepwhy: {error} [{error.slug}]")
            ctx.exit(error.exit_code)
        finally:
            note_on_kernels()
            output.redact(on=True)  # for programs that call several commands


@contextmanager
def _visible_usage_errors() -> Iterator[None]:
    """Escape and redact the parts of the command line that click shows in errors."""
    try:
        yield
    except click.ClickException as error:
        text = visible(output.public(error.format_message()))
        if isinstance(error, _HELP) or text == error.format_message():
            raise
        if isinstance(error, click.UsageError):
            raise click.UsageError(text, error.ctx) from None
        raise click.ClickException(text) from None


@click.group(cls=_Cli, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="stepwhy")
def cli() -> None:
    """Find out why your training step is slow, what fixing it would gain, and prove it.

    \b
    stepwhy check train.py     check what can be observed, before a long run
    stepwhy run train.py       observe a training run, then explain it
    stepwhy top DIR            watch the ranks of a job while it runs
    stepwhy explain PATH       explain a run directory or a trace of another profiler
    stepwhy whatif PATH        predict what a change of the program would gain
    stepwhy bench train.py     measure the step time in several runs
    stepwhy compare A B        find out which of two programs is faster, and where
    stepwhy try train.py       apply the fix of a finding at run time, and measure its gain
    stepwhy placement PATH     list the requested and actual device of each operation
    stepwhy ops PATH           list time and memory by scope, graph, op or line
    stepwhy export PATH        export a timeline for Perfetto, or tables for other programs
    stepwhy sql PATH QUERY     query steps, breakdown, operations and findings
    stepwhy mcp DIR            let programs with a language model ask about runs
    stepwhy serve DIR          show many runs on one page, and compare them
    """  # noqa: D301 - \b keeps click from re-wrapping


def note_on_kernels() -> None:
    """Print why compiled code was not used, if other users could have written it."""
    compiled = sys.modules.get("stepwhy.base.columns.compiled")
    reason = compiled.refusal() if compiled is not None else None
    if reason:
        output.line(
            f"stepwhy: reading was slower, because compiled code was not used: {reason}. "
            "Set STEPWHY_CACHE to the absolute path of a folder that only you can write to."
        )


def main() -> None:
    """Entry point of the `stepwhy` command."""
    ignore_relative_path()
    # Garbage is collected rarely, and not at exit.
    gc.set_threshold(_GC_THRESHOLD)
    atexit.register(gc.freeze)
    output.guard()
    try:
        cli()
    except BrokenPipeError:  # `stepwhy explain ... | head`
        output.stop()
        sys.exit(0)


__all__ = ["cli", "main", "note_on_kernels"]
