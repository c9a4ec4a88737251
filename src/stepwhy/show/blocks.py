"""What a report consists of: blocks in reading order, without markup.

`show.sections` makes them of a result. The terminal, the page and Markdown each have one renderer,
which decides how a block looks and, where room is short, how much of it is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from stepwhy.base.patterns import regex
from stepwhy.base.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

UNIT = regex(r"(?<=\d) (?=(?:%|(?:[mµn]?s|[KMGT]?i?B|examples/s)\b))")
"""The space between a number and its unit."""

Tone = Literal["", "strong", "soft", "code", "good", "warning", "error"]


class Span(msgspec.Struct, frozen=True):
    """A part of a line; `full` is the whole name behind a short one, or ''."""

    text: str
    tone: Tone = ""
    full: str = ""


class Sentence(msgspec.Struct, frozen=True):
    """A paragraph; an alert stands before everything else, with a mark."""

    spans: tuple[Span, ...]
    tone: Tone = ""
    is_alert: bool = False


class Headline(msgspec.Struct, frozen=True):
    """The verdict: a word or two, a sentence, and what follows it or ''.

    Args:
        colour: Colour of its category, '#rrggbb'.
        tone: 'good', 'error', or 'warning' if nothing is known.
        remark: How certain it is; '' for certain.
    """

    word: str
    text: str
    more: str
    colour: str
    tone: Tone
    remark: str


class Gain(msgspec.Struct, frozen=True):
    """The step now and after the fix; what is not known is ''.

    Args:
        of: What the times refer to.
        rate: Examples per second, before and after.
        remark: Why there is no prediction.
    """

    before: str
    after: str
    of: str
    rate: str
    remark: str


class Bar(msgspec.Struct, frozen=True):
    """A whole divided into categories, in ns, as a bar with a legend."""

    title: str
    wall_ns: int
    categories: dict[str, int]


class Bullets(msgspec.Struct, frozen=True):
    """Sentences of equal weight."""

    items: tuple[str, ...]


class Table(msgspec.Struct, frozen=True):
    """Rows of cells.

    Args:
        right: Columns that are aligned to the right. Where there is little room, the last column is
            left out if it is none of them.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int]


class Fact(msgspec.Struct, frozen=True):
    """A label and its value, which may take several lines."""

    label: str
    lines: tuple[tuple[Span, ...], ...]


class Facts(msgspec.Struct, frozen=True):
    """Labels with values, the most important first."""

    rows: tuple[Fact, ...]


class Code(msgspec.Struct, frozen=True):
    """Lines of Python to adapt."""

    text: str


class Figure(msgspec.Struct, frozen=True):
    """An amount with its unit: what it is, what it refers to, and its share of that."""

    label: str
    amount: str
    of: str = ""
    share: str = ""
    tone: Tone = "strong"


class Card(msgspec.Struct, frozen=True):
    """A finding: its place from 1, its costs and savings, and how these were predicted or ''."""

    number: int
    id: str
    title: str
    figures: tuple[Figure, ...]
    note: str
    evidence: tuple[Fact, ...]
    fix: tuple[Block, ...]


class Group(msgspec.Struct, frozen=True):
    """Checks with the same outcome: clear, or lacking what a better record shows, or neither."""

    ids: tuple[str, ...]
    text: str
    is_clear: bool
    is_missing: bool


class Checks(msgspec.Struct, frozen=True):
    """All checks without a finding, by outcome: clear ones, missing ones, and the rest."""

    groups: tuple[Group, ...]

    def ids(self, *, is_clear: bool) -> tuple[str, ...]:
        """Ids of the clear checks, or of those that could not look."""
        return tuple(
            name
            for group in self.groups
            if (group.is_clear if is_clear else group.is_missing)
            for name in group.ids
        )


class Section(msgspec.Struct, frozen=True):
    """Blocks under a heading or ''; a detail is only for a reader who wants everything."""

    key: str
    title: str
    blocks: tuple[Block, ...]
    is_detail: bool = False


Block = (
    Sentence | Headline | Gain | Bar | Bullets | Table | Facts | Code | Card | Checks | Section
)  # fmt: skip


def sentence(text: str, tone: Tone = "", *, is_alert: bool = False) -> Sentence:
    """A paragraph of one part."""
    return Sentence((Span(text),), tone, is_alert)


def sentences(texts: Iterable[str], tone: Tone = "") -> tuple[Sentence, ...]:
    """A paragraph of each text that is not empty."""
    return tuple(sentence(text, tone) for text in texts if text)


def flat(text: str) -> str:
    """A part of a line on one line, with the spaces at its ends."""
    core = one_line(text)
    before, after = (" " * text[at : at + 1].isspace() for at in (0, len(text) - 1))
    return f"{before}{core}{after}" if core else before
