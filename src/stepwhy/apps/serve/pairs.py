"""Compare two stored runs, with the statistics of `stepwhy compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.apps.serve.scan import RESULT_FILE
from stepwhy.apps.serve.summaries import MOST_RESULT_BYTES, copies
from stepwhy.base.errors import InputError, MeasurementError, StepwhyError
from stepwhy.measure import compare, sample
from stepwhy.measure.words import signed_change
from stepwhy.read.formats.run_directory.records import DAMAGED
from stepwhy.read.inputs.side_files import read_side_file
from stepwhy.result import CATEGORIES, Result, stored_result

if TYPE_CHECKING:
    from pathlib import Path

    from stepwhy.apps.serve.summaries import Entry
    from stepwhy.result import Comparison, Finding

# As `stepwhy compare` has by default.
_MARGIN = 0.03
_MOST_OPS = 12


class FindingRow(msgspec.Struct, frozen=True):
    """A problem that one of the runs has, or both.

    Args:
        id, title: Of the finding.
        change: 'gone', 'new' or 'both'.
        a_ns, b_ns: Its cost per step; None if unknown, or if it was not found.
        elsewhere: Verdict of the run in which it was not found, if that could not look.
    """

    id: str
    title: str
    change: str
    a_ns: int | None
    b_ns: int | None
    elsewhere: str = ""


class Pair(msgspec.Struct, frozen=True):
    """Two runs side by side; B is compared with A.

    Args:
        a, b: The entries.
        comparison: What `stepwhy compare` would say; None if `problem` says why not.
        problem: A sentence, or ''.
        change: The relative change of the step time, as text.
        findings: Problems, those that differ first.
        categories: Category, ns in A and ns in B of the mean step.
        wall: Mean step of A and of B, ns.
        is_same: Whether one is a copy of the other, so that there is nothing to compare.
    """

    a: Entry
    b: Entry
    comparison: Comparison | None = None
    problem: str = ""
    change: str = ""
    findings: tuple[FindingRow, ...] = ()
    categories: tuple[tuple[str, int, int], ...] = ()
    wall: tuple[int, int] = (0, 0)
    is_same: bool = False


def pair(root: Path, a: Entry, b: Entry) -> Pair:
    """Compare two entries.

    Args:
        root: The served folder.
        a: The first one.
        b: The second one.
    """
    if copies((a, b)):
        return Pair(a, b, is_same=True)
    try:
        results = (_result(root, a), _result(root, b))
    except StepwhyError as error:
        return Pair(a, b, problem=f"{error.what}. {error.todo}.")
    return _compared(a, b, results)


def _compared(a: Entry, b: Entry, results: tuple[Result, Result]) -> Pair:
    breakdowns = results[0].breakdown, results[1].breakdown
    first, second = (breakdown.categories for breakdown in breakdowns)
    rows = [(name, first.get(name, 0), second.get(name, 0)) for name in CATEGORIES]
    comparison, problem = None, ""
    try:
        samples = [sample(r, e.name) for r, e in zip(results, (a, b), strict=True)]
        comparison = compare(
            (a.name, b.name), samples[:1], samples[1:], margin=_MARGIN, alternated=False
        )
    except MeasurementError as error:
        problem = f"{error.what}: the step times cannot be compared."
    return Pair(
        a,
        b,
        comparison=comparison
        and msgspec.structs.replace(comparison, ops=comparison.ops[:_MOST_OPS]),
        problem=problem,
        change=signed_change(comparison.change) if comparison else "",
        findings=_findings(*results),
        categories=tuple(row for row in rows if row[1] or row[2]),
        wall=(breakdowns[0].wall_ns, breakdowns[1].wall_ns),
    )


def _result(root: Path, entry: Entry) -> Result:
    """The stored result of an entry.

    Raises:
        InputError: There is none, or it cannot be read.
    """
    path = root / entry.path
    file = path / RESULT_FILE if entry.summary.kind == "run" else path
    data = None
    if entry.summary.kind != "page":
        data = read_side_file(root, file, MOST_RESULT_BYTES)
    if data is None:
        raise InputError(f"{entry.name} has no stored result", "Explain it first")
    try:
        return stored_result(data)
    except DAMAGED as error:
        what = f"The result of {entry.name} is damaged ({error})"
        raise InputError(what, "Explain it again") from None


def _findings(a: Result, b: Result) -> tuple[FindingRow, ...]:
    before, after = ({f.id: f for f in r.findings} for r in (a, b))
    ids = [f.id for r in (a, b) for f in r.findings if f.verdict == "found"]
    rows = [_row(before.get(name), after.get(name)) for name in dict.fromkeys(ids)]
    return tuple(sorted(rows, key=lambda row: ("gone", "new", "both").index(row.change)))


def _row(a: Finding | None, b: Finding | None) -> FindingRow:
    found = [f if f is not None and f.verdict == "found" else None for f in (a, b)]
    named = found[0] or found[1]
    assert named is not None  # noqa: S101 - one of them is found
    change = "both" if all(found) else "gone" if found[0] else "new"
    other = {"gone": b, "new": a}.get(change)
    looked = other is not None and other.verdict in {"clear", "found"}
    return FindingRow(
        named.id,
        named.title,
        change,
        a_ns=found[0].cost_ns_per_step if found[0] else None,
        b_ns=found[1].cost_ns_per_step if found[1] else None,
        elsewhere="" if change == "both" or looked else other.verdict if other else "no_data",
    )
