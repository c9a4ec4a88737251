"""Summary of a session of the GPU lab, in words and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.report.grade import is_passed, remark
from stepwhy.text import one_line
from stepwhy.units import format_fraction, format_ns

if TYPE_CHECKING:
    from stepwhy.findings.gpu import GpuGrade, GpuPair

ON_CPU = (
    "These results come from programs in their smallest size on a CPU or GPU. They show that the "
    "programs and the harness work, and nothing about a GPU."
)
PAIR_HEAD = (
    *("pair", "planted", "first", "false alarm", "predicted", "measured", "kept", "step"),
    "remark",
)
POINT_HEAD = ("live point", "what should be true", "answer", "evidence")
OVERHEAD_HEAD = ("program", "alone", "observed", "difference", "runs")


def summary(grade: GpuGrade) -> list[str]:
    """Where it was measured, and how much was found, found by mistake, and predicted well."""
    planted = [pair for pair in grade.pairs if pair.graded.diagnosis]
    ran = [pair for pair in planted if pair.graded.faulty_runs]
    clean = [pair for pair in grade.pairs if pair.graded.fixed_runs]
    first = sum(2 * p.graded.found_first > p.graded.faulty_runs for p in ran)
    found = sum(2 * p.graded.found > p.graded.faulty_runs for p in ran)
    alarms = sum(bool(p.graded.false_alarms) for p in clean)
    compared = [pair for pair in grade.pairs if pair.kept]
    inside = sum(pair.kept == "yes" for pair in compared)
    overlap = sum(pair.kept == "overlap" for pair in compared)
    against = sum(len(pair.graded.contradictions) for pair in grade.pairs)
    failed = [one_line(pair.graded.name) for pair in grade.pairs if pair.graded.error]
    answers = [point.answer for point in grade.points]
    found_text = (
        f"Planted faults: first in {first} of {len(ran)} pairs, found in {found}. "
        f"False alarms in {alarms} of {len(clean)} fixed programs. "
        f"Statements of one report that contradict each other: {against}."
    )
    gains = (
        f"Measured gains: {inside} of {len(compared)} within the prediction, and in {overlap} "
        "more a part of the interval."
    )
    points = (
        f"Live points: {answers.count('ok')} ok, {answers.count('broken')} broken, "
        f"{answers.count('cannot tell')} that cannot be told."
    )
    return [
        *([ON_CPU] if grade.tiny or not grade.card else []),
        *(_where(grade), found_text, gains, points),
        *([f"Not run or not explained: {', '.join(failed)}."] if failed else []),
    ]


def _where(grade: GpuGrade) -> str:
    card = f"{one_line(grade.card)}, driver {one_line(grade.driver)}" if grade.card else "no GPU"
    versions = ", ".join(map(one_line, grade.versions)) or "no framework"
    return f"Measured on {grade.date} with {card}; Python {grade.python}, {versions}."


def pair_row(pair: GpuPair) -> tuple[str, ...]:
    """One line of the table of pairs."""
    graded = pair.graded
    measured = "-"
    if pair.gain_ns is not None:
        within = interval(pair.gain_low_ns, pair.gain_high_ns)
        measured = f"{_time(pair.gain_ns)} ({within})"
    return (
        one_line(graded.name),
        one_line(graded.diagnosis) or "none",
        f"{graded.found_first} of {graded.faulty_runs}",
        f"{graded.false_alarms} of {graded.fixed_runs}",
        interval(pair.predicted_low_ns, pair.predicted_high_ns),
        measured,
        pair.kept or "-",
        "-" if pair.faulty_ns is None else _time(pair.faulty_ns),
        remark(graded),
    )


def point_rows(grade: GpuGrade) -> list[tuple[str, ...]]:
    """The live points."""
    return [tuple(map(one_line, (p.point, p.about, p.answer, p.evidence))) for p in grade.points]


def overhead_rows(grade: GpuGrade) -> list[tuple[str, ...]]:
    """What observing costs."""
    return [
        (
            one_line(each.program),
            _time(each.alone_ns),
            _time(each.observed_ns),
            _signed(each.observed_ns / each.alone_ns - 1) if each.alone_ns else "-",
            str(each.runs),
        )
        for each in grade.overhead
    ]


def interval(low: int | None, high: int | None) -> str:
    """A range of times; '-' if it is not known."""
    return "-" if low is None or high is None else f"{_time(low)} to {_time(high)}"


def _signed(share: float) -> str:
    return f"{'-' if share < 0 else '+'}{format_fraction(abs(share))}"


def _time(ns: int) -> str:
    return f"{'-' if ns < 0 else ''}{format_ns(abs(ns))}"


__all__ = [
    "OVERHEAD_HEAD", "PAIR_HEAD", "POINT_HEAD", "interval", "is_passed", "overhead_rows",
    "pair_row", "point_rows", "summary",
]  # fmt: skip
