"""What was probably meant by a first word that is no command."""

from __future__ import annotations

import shlex
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.base.redaction.commands import redact_command
from stepwhy.read.inputs.kinds import is_there

if TYPE_CHECKING:
    from collections.abc import Sequence


def suggestion(words: Sequence[str], commands: Sequence[str]) -> str:
    """A sentence that names the command to use instead.

    Args:
        words: The words of the command line, the first of which is no command.
        commands: Names of the commands.
    """
    first, shown = words[0], shlex.join(redact_command(words))
    if first.endswith(".py"):
        return f"To observe a script: stepwhy run {shown}"
    if is_there(Path(first)) or "://" in first:
        return f"To explain what was recorded: stepwhy explain {shown}"
    near = get_close_matches(first, commands, 1)
    if near:
        return f"Did you mean 'stepwhy {near[0]}'?"
    return "'stepwhy --help' lists all commands."
