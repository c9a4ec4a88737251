"""Sentences about findings: what their fixes risk, and which of them others explain or hide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.text import one_line

if TYPE_CHECKING:
    from stepwhy.result import Fix, Result

_RISK_WORDS = {
    "none": "",
    "changes-numerics": "may change numerical results; compare a few {compare}",
    "changes-memory": "needs more or less memory; watch the peak",
    "unknown": "side effects unknown; try it on a short run",
}
_NOT_FIRST = (
    (False, "Also found, but explained by a finding above", "by"),
    (True, "Also found, to be fixed next", "hidden by"),
)


def risk(fix: Fix) -> str:
    """What else a fix may change, and what to check; '' for nothing."""
    return _RISK_WORDS[fix.risk].format(compare=fix.compare)


def explained_sentence(result: Result) -> str:
    """The findings that others explain or hide; '' for none."""
    others = [f for f in result.findings if f.verdict == "found" and f.explained_by]
    sentences = []
    for hidden, text, how in _NOT_FIRST:
        chosen = [f for f in others if f.hidden is hidden]
        names = [f"{one_line(f.id)} ({how} {one_line(f.explained_by)})" for f in chosen]
        if names:
            sentences.append(f"{text}: {', '.join(names)}.")
    return " ".join(sentences)


__all__ = ["explained_sentence", "risk"]
