"""Redact command lines: secrets, inline code and the beginnings of paths."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import PurePath

from stepwhy.base.patterns import regex
from stepwhy.base.redaction.assignments import is_secret_name
from stepwhy.base.redaction.logins import login_places
from stepwhy.base.redaction.redactor import REDACTED, Redactor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CODE = "[code]"
_ASSIGNMENT = regex(r"(?P<name>-{0,2}[A-Za-z_][\w.\-]*)=(?P<value>.*)", re.DOTALL)
_KEPT_COMPONENTS = 2


def shorten_path(path: str) -> str:
    """The last two components of an absolute path; any other text unchanged."""
    parts = PurePath(path).parts
    if not path.startswith(("/", "~")) or len(parts) <= _KEPT_COMPONENTS:
        return path
    return "/".join(parts[-_KEPT_COMPONENTS:])


def redact_command(command: Sequence[str], environ: Mapping[str, str] | None = None) -> list[str]:
    """A command line that is safe to store and to show to others.

    Args:
        command: The arguments as the shell passes them.
        environ: Environment whose secrets are redacted, too; that of this process by default.

    Returns:
        The same number of arguments. Secrets are replaced by `[redacted]`, inline code by
        `[code]`, and absolute paths by their last two components.
    """
    redactor = Redactor.of_process(environ, strict=True)
    # Without passwords for programs such as `sshpass`.
    words = list(command)
    for number, start, end in login_places(command):
        words[number] = f"{command[number][:start]}{REDACTED}{command[number][end:]}"
    return [_redact_next(previous, word, redactor) for previous, word in pairwise(["", *words])]


def _redact_next(previous: str, argument: str, redactor: Redactor) -> str:
    """Redact an argument, also depending on the previous one: `-c CODE`, `--token VALUE`."""
    if previous == "-c":
        return CODE
    if _announces_secret(previous) and not argument.startswith("-"):
        return REDACTED
    return _argument(argument, redactor)


def _announces_secret(argument: str) -> bool:
    """Whether an argument is an option that names a secret; its value is the next argument."""
    return argument.startswith("-") and "=" not in argument and _names_secret(argument)


def _names_secret(name: str) -> bool:
    """Whether an option or variable names a secret: --token and HF_TOKEN, but not --tokenizer."""
    return is_secret_name(name.lstrip("-"), strict=True)


def _argument(argument: str, redactor: Redactor) -> str:
    """Redact one argument; both sides of `name=value` are checked."""
    assignment = _ASSIGNMENT.fullmatch(argument)
    if assignment is None:
        return shorten_path(redactor.text(argument))
    name, value = assignment["name"], assignment["value"]
    if _names_secret(name):
        return f"{name}={REDACTED}"
    return f"{redactor.text(name)}={shorten_path(redactor.text(value))}"
