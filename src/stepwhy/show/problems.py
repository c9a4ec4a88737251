"""Findings as lines `file:line: message`, which editors turn into a list of problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.base import units
from stepwhy.base.patterns import regex
from stepwhy.base.text import one_line
from stepwhy.show import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.result import Evidence, Finding, Result

# 'file(line): function', as Python's profilers write it, also behind the name of a node; and
# 'file:line', as stack samples do.
# Only a place that is the whole text may have spaces in its path.
_DRIVE, _LINE = (
    r"(?:[A-Za-z]:(?=[\\/]))?",
    r"(?:\((?P<line>[1-9]\d{0,7})\)|:(?P<number>[1-9]\d{0,7})\b)",
)
_WHOLE = regex(rf"^(?P<file>{_DRIVE}[^():]{{0,400}}\w\.pyw?){_LINE}")
_PLACE = regex(rf"(?P<file>{_DRIVE}[^\s():]{{0,400}}\w\.pyw?){_LINE}")
_LIBRARIES = regex(r"(?:^|[/\\])(?:(?:site|dist)-packages|lib[/\\]python3\.\d+)[/\\]")


class Place(msgspec.Struct, frozen=True):
    """A line of the program."""

    file: str
    line: int


def render(result: Result) -> str:
    """One line per finding that names a line of the program, the costliest first; '' for none."""
    return "".join(f"{text}\n" for text in _lines(result))


def _lines(result: Result) -> Iterator[str]:
    for finding in words.found(result):
        place = place_of(finding)
        if place is not None:
            text = f"{finding.id}: {finding.title}{_cost(result, finding)}"
            yield f"{one_line(place.file)}:{place.line}: {one_line(text)}"


def place_of(finding: Finding) -> Place | None:
    """The first line of the program that the evidence of a finding names; None for none.

    Args:
        finding: Its evidence names lines as 'file(line): function' or 'file:line'; lines of
            installed packages do not count.
    """
    places = (place for fact in finding.evidence for place in _places(fact))
    return next(places, None)


def _places(fact: Evidence) -> Iterator[Place]:
    texts = (fact.where, fact.value if isinstance(fact.value, str) else "")
    for text in texts:
        whole = _WHOLE.match(text)
        for found in [whole] if whole else _PLACE.finditer(text):
            if not _LIBRARIES.search(found["file"]):
                yield Place(found["file"], int(found["line"] or found["number"]))


def _cost(result: Result, finding: Finding) -> str:
    if finding.cost_ns_per_step is None:
        return ""
    return f" (costs {units.format_ns(finding.cost_ns_per_step)} {words.per_whole(result)})"
