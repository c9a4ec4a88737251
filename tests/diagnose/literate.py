"""Literate tests: Markdown files with cases, each a drawn timeline and the expected finding.

A case is a section ``## Fires: ...``, ``## Silent: ...`` or ``## Abstains: ...`` with one block
``timeline`` (the notation of `stepwhy.trace.notation`) and one block ``finding``. With several
timelines, each is a rank, and the finding is that of the first one. The lines of ``finding`` are a
subset of what is expected::

    verdict: found
    cost: 6 ms                         # 'none' for no cost; '6 ms ± 1 ms' allows a range
    saving: 3 ms .. 6 ms
    edit: input=workers:2              # its text; 'none' for no edit
    edit cost: 4 ms                    # the work that it is about
    evidence: what = 0.6 ± 0.01        # or '= text'; '@ where' may follow
    reason: part of the reason
    fix: part of its text or code
"""

import re
from dataclasses import dataclass

from stepwhy.trace.notation import parse_quantity

KINDS = ("Fires", "Silent", "Abstains")
_SECTION = re.compile(r"^## (?P<kind>\w+): (?P<title>.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Case:
    diagnosis: str
    kind: str
    title: str
    timelines: tuple[str, ...]
    expected: tuple[tuple[str, str], ...]


def read_cases(path):
    text = path.read_text(encoding="utf-8")
    starts = list(_SECTION.finditer(text))
    ends = [match.start() for match in starts[1:]] + [len(text)]
    return [
        _case(path, match, text[match.end() : end]) for match, end in zip(starts, ends, strict=True)
    ]


def _case(path, match, body):
    blocks = [(block["language"], block["text"]) for block in _BLOCK.finditer(body)]
    timelines = tuple(text for language, text in blocks if language == "timeline")
    assert [language for language, _ in blocks] == [*["timeline"] * len(timelines), "finding"]
    assert timelines, f"{path.name}: {match['title']}"
    lines = [line.partition(":") for line in blocks[-1][1].splitlines() if line.strip()]
    expected = tuple((key.strip(), value.strip()) for key, _, value in lines)
    return Case(path.stem, match["kind"], match["title"], timelines, expected)


def mismatches(finding, expected):
    """Differences between the finding and the expected lines, one line each."""
    return [line for key, value in expected for line in _CHECKS[key](finding, value)]


def _is(attribute):
    def check(finding, value):
        actual = getattr(finding, attribute)
        return [] if actual == value else [f"{attribute}: {actual!r}, not {value!r}"]

    return check


def _cost(finding, value):
    actual = finding.cost_ns_per_step
    if value == "none":
        return [] if actual is None else [f"cost: {actual}, not none"]
    return (
        [] if actual is not None and _in_range(actual, value) else [f"cost: {actual}, not {value}"]
    )


def _saving(finding, value):
    low, _, high = value.partition("..")
    actual = finding.saving
    expected = (parse_quantity(low), parse_quantity(high))
    is_equal = actual is not None and (actual.low_ns, actual.high_ns) == expected
    return [] if is_equal else [f"saving: {actual}, not {value}"]


def _edit(finding, value):
    actual = "none" if finding.edit is None else str(finding.edit)
    return [] if actual == value else [f"edit: {actual}, not {value}"]


def _edit_cost(finding, value):
    actual = finding.edit.cost_ns
    return [] if _in_range(actual, value) else [f"edit cost: {actual}, not {value}"]


def _evidence(finding, value):
    what, _, rest = value.partition(" = ")
    measured, _, where = rest.partition(" @ ")
    for fact in finding.evidence:
        if fact.what == what and where in fact.where and _matches(fact.value, measured):
            return []
    seen = [(fact.what, fact.value, fact.where) for fact in finding.evidence]
    return [f"evidence {value!r} is not among {seen}"]


def _matches(actual, expected):
    if isinstance(actual, str):
        return expected in actual
    return _in_range(actual, expected)


def _in_range(actual, expected):
    centre, _, width = expected.partition("±")
    if re.fullmatch(r"\d*\.\d+", centre.strip()):
        return abs(actual - float(centre)) <= float(width or 1e-9)
    return abs(actual - parse_quantity(centre)) <= parse_quantity(width or "0")


def _reason(finding, value):
    return [] if value in finding.reason else [f"reason: {finding.reason!r} lacks {value!r}"]


def _fix(finding, value):
    fix = f"{finding.fix.text}\n{finding.fix.code}" if finding.fix else ""
    return [] if value in fix else [f"fix: {fix!r} lacks {value!r}"]


_CHECKS = {
    "verdict": _is("verdict"),
    "title": _is("title"),
    "cost": _cost,
    "saving": _saving,
    "edit": _edit,
    "edit cost": _edit_cost,
    "evidence": _evidence,
    "reason": _reason,
    "fix": _fix,
}
