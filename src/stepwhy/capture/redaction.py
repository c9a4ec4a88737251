"""What of a command line may be written down: words, never secrets, homes or user names."""

from __future__ import annotations

import re
from pathlib import PurePath

REDACTED = "[redacted]"

# Option names whose value is a secret: --token, --api-key, --hf_token, --password, -p is too vague.
_SECRET_NAME = re.compile(
    r"(?i)(token|passw(or)?d|passphrase|secret|credential|api[-_]?key|access[-_]?key|auth)"
)
# Values that are secrets whatever they are called, by the prefixes that their issuers document.
_SECRET_VALUE = re.compile(
    r"(hf_|sk-|ghp_|gho_|ghs_|github_pat_|glpat-|xox[abprs]-|wandb_)[A-Za-z0-9_\-]{8,}"
    r"|(AKIA|ASIA)[A-Z0-9]{12,}"
    r"|AIza[A-Za-z0-9_\-]{30,}"
    r"|eyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]+\.[A-Za-z0-9_\-]*"
    # An unbroken run of 40 hex or base64 characters is a key more often than a name.
    r"|(?<![A-Za-z0-9/+_\-.])[A-Za-z0-9+]{40,}={0,2}(?![A-Za-z0-9/+_\-.])"
)
_URL_LOGIN = re.compile(r"(?<=://)[^/@\s]+@")
_URL_QUERY = re.compile(
    r"(?i)([?&](?:sig|signature|[a-z_\-]*(?:token|key|secret|password)))=[^&\s]+"
)
_ASSIGNMENT = re.compile(r"(?P<name>-{0,2}[A-Za-z_][\w.\-]*)=(?P<value>.*)", re.DOTALL)
_KEPT_COMPONENTS = 2


def shorten_path(path: str) -> str:
    """The last two components of an absolute path; anything else as it is."""
    parts = PurePath(path).parts
    if not path.startswith(("/", "~")) or len(parts) <= _KEPT_COMPONENTS:
        return path
    return "/".join(parts[-_KEPT_COMPONENTS:])


def _redact_value(value: str) -> str:
    """One value without its secrets, an absolute path by its end alone."""
    clean = _SECRET_VALUE.sub(REDACTED, value)
    clean = _URL_LOGIN.sub(f"{REDACTED}@", clean)
    return shorten_path(_URL_QUERY.sub(rf"\1={REDACTED}", clean))


def _redact_argument(argument: str) -> str:
    """One argument; `name=value` is judged by both halves."""
    assignment = _ASSIGNMENT.fullmatch(argument)
    if assignment is None:
        return _redact_value(argument)
    name, value = assignment["name"], assignment["value"]
    hidden = _SECRET_NAME.search(name) is not None
    return f"{name}={REDACTED if hidden else _redact_value(value)}"


def _announces_secret(argument: str) -> bool:
    """Whether the argument is an option, without a value of its own, that names a secret."""
    return argument.startswith("-") and "=" not in argument and bool(_SECRET_NAME.search(argument))


def redact(command: list[str]) -> list[str]:
    """A command line that is safe to keep and to show to others.

    Args:
        command: The arguments as the shell would pass them.

    Returns:
        As many arguments, secrets replaced by `[redacted]`, absolute paths by their last two
        components.
    """
    before = ["", *command]
    return [
        REDACTED
        if _announces_secret(previous) and not argument.startswith("-")
        else _redact_argument(argument)
        for previous, argument in zip(before, command, strict=False)
    ]
