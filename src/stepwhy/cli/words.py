"""Command lines that end with another command: 'SCRIPT ARGS...' or '-- COMMAND ARGS...'."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

import click

_IS_COMMAND = "stepwhy.words.is_command"
_OF_PYTHON = "--check-hash-based-pycs"  # the only long option of Python that may precede a script


class CommandWithCommand(click.Command):
    """Records whether the command follows '--', which click removes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Look for '--' in the raw arguments, then parse them.

        Raises:
            click.NoSuchOption: A long option is neither of stepwhy nor of Python.
        """
        own = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        options = {name: option for option in own for name in option.opts}
        rest = iter(args)
        for word in rest:
            option = options.get(word)
            if option is not None and not option.is_flag:
                next(rest, None)
            elif not word.startswith("-") or word == "--":
                ctx.meta[_IS_COMMAND] = word == "--"
                break
            name = word.partition("=")[0]
            if name.startswith("--") and name not in {*options, _OF_PYTHON}:
                raise click.NoSuchOption(name, None, get_close_matches(name, options, 1), ctx)
        return super().parse_args(ctx, args)


def words_to_run(ctx: click.Context, command: tuple[str, ...]) -> list[str]:
    """The command to run; a script runs with this Python interpreter.

    Args:
        ctx: Context of the command line.
        command: The words after its options.

    Raises:
        CaptureError: There is no such script.
    """
    words = list(command)
    return words if follows_dashes(ctx) else script_to_run(words[0], words[1:])


def script_to_run(script: str, args: list[str]) -> list[str]:
    """The command that runs a script, before which nothing is written.

    Args:
        script: Its path, an option of Python, such as '-m', or else a program, such as 'torchrun'.
        args: Its arguments.

    Raises:
        CaptureError: There is neither such a script nor such a program.
    """
    from stepwhy.base.children import find_program
    from stepwhy.base.errors import CaptureError
    from stepwhy.read.inputs.kinds import is_there
    from stepwhy.record import command_for_script

    if script.startswith("-") or is_there(Path(script)):
        return command_for_script(script, args)
    if find_program(script):
        return [script, *args]
    raise CaptureError(
        f"there is no script {script}",
        "Check its path; a command follows '--', as in 'stepwhy run -- torchrun train.py'",
    )


def follows_dashes(ctx: click.Context) -> bool:
    """Whether the words after the options are a command that follows '--'."""
    return bool(ctx.meta.get(_IS_COMMAND))
