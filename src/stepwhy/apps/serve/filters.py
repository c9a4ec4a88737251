"""Choose entries of the list by text, framework, verdict and branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stepwhy.apps.serve.summaries import Entry, Summary

Axis = Literal["date", "commit"]
PAGE_SIZE = 200
"""Rows of one page of the list."""

NOT_EXPLAINED = "not explained"


class Filter(msgspec.Struct, frozen=True):
    """What the form above the list asks for; '' for everything.

    Args:
        text: Words that must all occur in the name, command, verdict, findings, commit, branch,
            note or tags.
        framework, verdict, branch: Exact values.
        axis: What the trend goes along.
        page: Number of the page of the list, from 1.
    """

    text: str = ""
    framework: str = ""
    verdict: str = ""
    branch: str = ""
    axis: Axis = "date"
    page: int = 1

    @property
    def is_set(self) -> bool:
        """Whether anything is left out."""
        return any((self.text, self.framework, self.verdict, self.branch))

    def chosen(self, entries: Iterable[Entry]) -> list[Entry]:
        """The entries that it asks for, in the same order."""
        words = self.text.lower().split()
        return [entry for entry in entries if self._matches(entry, words)]

    def _matches(self, entry: Entry, words: Sequence[str]) -> bool:
        summary = entry.summary
        exact = (
            (self.framework, summary.framework),
            (self.verdict, verdict_of(summary)),
            (self.branch, summary.branch),
        )
        if any(asked not in {"", value} for asked, value in exact):
            return False
        text = _text(entry).lower() if words else ""
        return all(word in text for word in words)


class Choices(msgspec.Struct, frozen=True):
    """Values that occur, for the form."""

    frameworks: list[str]
    verdicts: list[str]
    branches: list[str]


def filter_of(query: Mapping[str, str]) -> Filter:
    """The filter of an address.

    Args:
        query: Its parameters; those that are not known are ignored.
    """
    page = query.get("page", "")
    return Filter(
        text=query.get("q", "").strip()[:200],
        framework=query.get("framework", ""),
        verdict=query.get("verdict", ""),
        branch=query.get("branch", ""),
        axis="commit" if query.get("by") == "commit" else "date",
        page=max(1, int(page)) if page.isdecimal() and len(page) < 6 else 1,
    )


def choices(entries: Iterable[Entry]) -> Choices:
    """The values that occur in all entries, sorted."""
    summaries = [entry.summary for entry in entries]
    return Choices(
        _values(s.framework for s in summaries),
        _values(map(verdict_of, summaries)),
        _values(s.branch for s in summaries),
    )


def verdict_of(summary: Summary) -> str:
    """The verdict to filter by: what bounds the step, or 'not explained'."""
    if summary.state != "explained":
        return NOT_EXPLAINED
    return summary.bound_by


def _values(values: Iterable[str]) -> list[str]:
    return sorted(set(values) - {""})


def _text(entry: Entry) -> str:
    summary = entry.summary
    findings = (text for finding in summary.findings for text in finding)
    parts = (
        *(entry.name, summary.command, summary.sentence, summary.commit, summary.branch),
        *(summary.framework, verdict_of(summary), summary.note.text),
        *findings,
        *summary.note.tags,
        *summary.devices,
    )
    return "\n".join(parts)
