"""Text that GitHub shows as it is: no markup, no mention of a user, no link to an issue.

Names come from traces and command lines that other people may have written. Backslashes stop
markup, but not mentions (`@name`), references (`#1`) and addresses, which GitHub finds afterwards
in the finished text: an empty comment separates their parts.

Sources: CommonMark 0.31 (6.1 backslash escapes, 4.5 fenced code), GFM 6.9 (autolinks).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.patterns import regex
from stepwhy.base.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

_MARKUP = regex(r"[\\`*_{}\[\]<>|~$&]")
_REFERENCES = regex(r"@|#|GH-|://|:(?=\w+:)|(?i:www)(?=\.)|(?i:mailto|xmpp)(?=:)")
_TICKS = regex("`+")
_NOTHING = "<!-- -->"
_LONGEST = 300  # characters of a name or sentence


def prose(text: str) -> str:
    """A sentence as Markdown on one line, also inside of a list or table."""
    escaped = _MARKUP.sub(r"\\\g<0>", one_line(text)[: 2 * _LONGEST])
    return _REFERENCES.sub(lambda found: f"{found[0][0]}{_NOTHING}{found[0][1:]}", escaped)


def code(text: str) -> str:
    """A name as Markdown code on one line, also inside of a table."""
    name = _shortened(one_line(text)).replace("|", r"\|")
    fence = _fence(name, 1)
    return f"{fence} {name} {fence}" if "`" in name else f"`{name or ' '}`"


def code_block(lines: Iterable[str]) -> str:
    """Lines as a block of code."""
    text = "\n".join(map(_shortened, map(one_line, lines)))
    fence = _fence(text, 3)
    return f"{fence}text\n{text}\n{fence}"


def table(rows: Iterable[Iterable[str]]) -> str:
    """A table of cells that are Markdown; the first row is the head."""
    head, *others = [list(row) for row in rows]
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *others]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _fence(text: str, least: int) -> str:
    """More backticks than the text contains in a row."""
    return "`" * max([least, *(len(ticks) + 1 for ticks in _TICKS.findall(text))])


__all__ = ["code", "code_block", "prose", "table"]
