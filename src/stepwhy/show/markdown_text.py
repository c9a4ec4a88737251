"""Text of others as Markdown that shows it as it is, wherever it is pasted.

A word that could mean something to Markdown, HTML or a chat becomes a code span: in there, nothing
is markup, a link, a mention of somebody or a reference to an issue. Words of letters stay as they
are, so prose reads as prose.

Sources: CommonMark 0.31 (backslash escapes, code spans, fenced code), the specification of GitHub
Flavored Markdown 0.29 (tables, autolinks), GitHub's documentation of mentions and references.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.patterns import regex
from stepwhy.base.text import one_line, plain

if TYPE_CHECKING:
    from collections.abc import Iterable

# Markup, mentions, references, mathematics, entities; a scheme, 'www.' or any name with a dot,
# which chats make links; an emoji's short name; a commit's number.
_ACTIVE = regex(
    r"[\\`*_\[\]{}<>&~|$#@^]|://|mailto:|xmpp:|www\.|\w\.[^\W\d]|:[\w+-]+:|\bGH-\d|\b[0-9a-f]{7,}\b"
)
# Ends of a word that belong to the sentence, if only one of the two is in the word.
_PAIRS = (("(", ")"), ("'", "'"), ('"', '"'))
_END = regex(r"[.,;:!?]+$")
# Markup only at the start of a line: headings, lists, quotes, rules and underlines of headings.
_START = regex(r"[-+=>#]|\d{1,9}[.)](?=\s|$)")
_FENCES = regex("`+")
_SPAN = regex(r"(?:^|(?<=[ (]))`([^` ](?:[^`]*[^` ])?)`(?=$|[ ).,;:])")


def prose(text: str) -> str:
    """A text on one line; words that could be markup are code spans.

    Args:
        text: A sentence, path or name.
    """
    # Odd ones are the insides of a pair of backticks, which are code already.
    parts = _SPAN.split(one_line(text))
    return "".join(code(p) if n % 2 else _words(p) for n, p in enumerate(parts))


def line(text: str) -> str:
    """Like `prose`, for text at the start of a line."""
    shown = prose(text)
    found = _START.match(shown)
    return f"{shown[: found.end() - 1]}\\{shown[found.end() - 1 :]}" if found else shown


def code(text: str) -> str:
    """A code span, on one line; '' for an empty text."""
    shown = one_line(text)
    if not shown:
        return ""
    fence = "`" * (_longest_fence(shown) + 1)
    space = " " if "`" in (shown[0], shown[-1]) else ""
    return f"{fence}{space}{shown}{space}{fence}"


def code_block(text: str, language: str = "") -> list[str]:
    """Lines of a fenced block of code.

    Args:
        text: The code.
        language: For highlighting.
    """
    shown = plain(text).rstrip().expandtabs(4)
    fence = "`" * max(_longest_fence(shown) + 1, 3)
    return [f"{fence}{language}", *shown.split("\n"), fence]


def table(head: Iterable[str], rows: Iterable[Iterable[str]], right: frozenset[int]) -> list[str]:
    """Lines of a table.

    Args:
        head: Titles of the columns.
        rows: Cells, which are Markdown already.
        right: Columns that are aligned to the right.
    """
    titles = list(head)
    marks = ["---:" if number in right else "---" for number in range(len(titles))]
    return [f"| {' | '.join(map(_cell, row))} |" for row in (titles, marks, *rows)]


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _words(text: str) -> str:
    """Prose without code, with the spaces at its ends, which separate it from code."""
    return " ".join(_word(word) for word in text.split(" "))


def _word(word: str) -> str:
    if not _ACTIVE.search(word):
        return word
    end = _END.search(word)
    core, rest = (word[: end.start()], end[0]) if end else (word, "")
    begin = ""
    for opening, closing in _PAIRS:
        opened, closed = core.count(opening), core.count(closing)
        is_odd = opened % 2 == 1 if opening == closing else opened != closed
        if is_odd and core.startswith(opening):
            begin, core = begin + opening, core[1:]
        elif is_odd and core.endswith(closing):
            core, rest = core[:-1], closing + rest
    return f"{begin}{code(core)}{rest}" if core else code(word)


def _longest_fence(text: str) -> int:
    return max(map(len, _FENCES.findall(text)), default=0)
