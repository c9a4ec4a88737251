"""Command lines without secrets: what may be kept of them is words, names and ends of paths."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import PurePath

from stepwhy.patterns import regex
from stepwhy.redaction.assignments import is_secret_name
from stepwhy.redaction.logins import login_places
from stepwhy.redaction.redactor import REDACTED, Redactor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CODE = "[code]"
_ASSIGNMENT = regex(r"(?P<name>-{0,2}[A-Za-z_][\w.\-]*)=(?P<value>.*)", re.DOTALL)
_KEPT_COMPONENTS = 2


def shorten_path(path: str) -> str:
    """The last two components of an absolute path; anything else as it is."""
    parts = PurePath(path).parts
    if not path.startswith(("/", "~")) or len(parts) <= _KEPT_COMPONENTS:
        return path
    return "/".join(parts[-_KEPT_COMPONENTS:])


def redact_command(command: Sequence[str], environ: Mapping[str, str] | None = None) -> list[str]:
    """A command line that is safe to keep and to show to others.

    Args:
        command: The arguments as the shell would pass them.
        environ: Environment, whose secrets may be repeated; this process's by default.

    Returns:
        As many arguments, secrets replaced by `[redacted]`, inline code by `[code]`, absolute
        paths by their last two components.
    """
    redactor = Redactor.of_process(environ, strict=True)
    words = _without_logins(command)
    return [_after(previous, word, redactor) for previous, word in pairwise(["", *words])]


def _without_logins(command: Sequence[str]) -> list[str]:
    """The arguments without the passwords of programs such as `sshpass`."""
    words = list(command)
    for number, start, end in login_places(command):
        words[number] = f"{command[number][:start]}{REDACTED}{command[number][end:]}"
    return words


def _after(previous: str, argument: str, redactor: Redactor) -> str:
    """One argument, judged also by the one before it: `-c CODE`, `--token VALUE`."""
    if previous == "-c":
        return CODE
    if _announces_secret(previous) and not argument.startswith("-"):
        return REDACTED
    return _argument(argument, redactor)


def _announces_secret(argument: str) -> bool:
    """Whether the argument is an option, without a value of its own, that names a secret."""
    return argument.startswith("-") and "=" not in argument and _names_secret(argument)


def _names_secret(name: str) -> bool:
    """Whether an option or variable names a secret, as --token and HF_TOKEN; not --tokenizer."""
    return is_secret_name(name.lstrip("-"), strict=True)


def _argument(argument: str, redactor: Redactor) -> str:
    """One argument; `name=value` is judged by both halves."""
    assignment = _ASSIGNMENT.fullmatch(argument)
    if assignment is None:
        return shorten_path(redactor.text(argument))
    name, value = assignment["name"], assignment["value"]
    if _names_secret(name):
        return f"{name}={REDACTED}"
    return f"{redactor.text(name)}={shorten_path(redactor.text(value))}"


__all__ = ["CODE", "redact_command", "shorten_path"]
