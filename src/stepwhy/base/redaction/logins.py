"""Passwords in short options of known programs: `mysql -pX`, `curl -u user:X`.

The meaning of `-p` depends on the program: it is a port for `ssh` and a password for `sshpass`.
"""

from __future__ import annotations

import re

from stepwhy.base.patterns import regex
from stepwhy.base.redaction.rules import Rule, begins_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Further arguments of the same command.
_ARGUMENTS = r"(?:\s[^;|&\r\n\x00-\x08\x0e-\x1f]{0,400}?)?"
_OPEN = r"(?P<open>\\{0,3}[\"'])?"
_VALUE = (
    _OPEN + r"(?P<s>(?(open)(?:(?!(?P=open))[^\x00-\x08\x0e-\x1f])+"
    r"|(?!-)(?:\\(?![\"'])|[^\s\"'\\\x00-\x1f])+))"
)
_PAIR = _OPEN + r"(?P<s>[^\s:\"'\\\x00-\x1f]+:(?:\\(?![\"'])|[^\s\"'\\\x00-\x1f])+)"


def _login(hints: str, program: str, option: str, value: str = _VALUE) -> Rule:
    """Rule for the value of an option of a program, with only arguments of it in between."""
    pattern = regex(rf"(?:{program})(?![A-Za-z0-9]){option}{value}", re.ASCII)
    return Rule("secret", tuple(hints.split()), pattern, begins_word)


LOGINS = (
    # sshpass(1): its own options precede the command that it runs, in which -p is a port.
    _login("sshpass", "sshpass", r"(?:\s+-v|\s+-P\s*\S+)*\s+-p\s*"),
    # MySQL Reference Manual, "Command Options for Connecting to the Server": without a space.
    _login("mysql mariadb", r"(?:mysql|mariadb)[a-z_\-]*", rf"{_ARGUMENTS}\s-p(?=\S)"),
    # Pages of `docker login`, `podman login`, `helm registry login` and `az login`.
    _login(
        "login",
        r"(?:docker|podman|nerdctl|buildah|skopeo|oras|az|(?:helm|singularity|apptainer)\s+[a-z]+)"
        r"\s+login",
        rf"{_ARGUMENTS}\s-p[\s=]*",
    ),
    # MongoDB Docs, "mongosh Options" and "Database Tools".
    _login("mongo", r"mongo(?:sh|dump|restore|export|import|stat|top)?", rf"{_ARGUMENTS}\s-p\s*"),
    # Redis Docs, "Redis CLI".
    _login("redis-cli", "redis-cli", rf"{_ARGUMENTS}\s-a\s*"),
    # curl(1), options -u, -U and -b.
    _login(
        "curl", "curl", rf"{_ARGUMENTS}\s(?:-[A-Za-z]*[uU]|--(?:proxy-)?user(?=[\s=]))[\s=]*", _PAIR
    ),
    _login(
        "curl", "curl", rf"{_ARGUMENTS}\s(?:-[A-Za-z]*b|--cookie(?=[\s=]))[\s=]*(?=\S+=)", _VALUE
    ),
)
"""Rules for passwords in options, in any text."""

# Characters in an argument that would end the argument or the command in a text.
_SIGNS = regex(r"[\s\"'\\;|&\x00-\x1f]", re.ASCII)


def login_places(command: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Places of passwords in a command line: index of the argument, start and end in it."""
    text = " ".join(_SIGNS.sub("_", argument) for argument in command)
    lowered = text.lower()
    spans = [span for rule in LOGINS if rule.may_match(lowered) for span in rule.spans(text)]
    begin = 0
    for number, argument in enumerate(command):
        end = begin + len(argument)
        for start, last in spans:
            if start < end and last > begin:
                yield number, max(start - begin, 0), min(last, end) - begin
        begin = end + 1
