"""Summary of a session of the GPU lab, in words and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.text import one_line
from stepwhy.base.units import format_fraction, format_ns
from stepwhy.show.grade import is_passed, remark

if TYPE_CHECKING:
    from stepwhy.result.gpu import GpuClocks, GpuGrade, GpuPair

ON_CPU = (
    "These results come from programs in their smallest size, or without a GPU. They show that the "
    "programs and the harness work, and nothing about a GPU."
)
PAIR_HEAD = (
    *("pair", "planted", "first", "false alarm", "predicted", "measured", "kept", "step"),
    "remark",
)
POINT_HEAD = ("live point", "what should be true", "answer", "evidence")
BOUND_HEAD = ("answer", "bound", "measured")
CLOCKS_DIFFER = 0.03  # more than clocks vary from run to run of a card that is not held back
OVERHEAD_HEAD = ("program", "alone", "observed", "difference", "runs")


def summary(grade: GpuGrade) -> list[str]:
    """Where it was measured, and how much was found, found by mistake, and predicted well."""
    planted = [pair for pair in grade.pairs if pair.graded.diagnosis]
    ran = [pair for pair in planted if pair.graded.faulty_runs]
    clean = [pair for pair in grade.pairs if pair.graded.fixed_runs]
    first = sum(pair.is_first for pair in ran)
    found = sum(2 * p.graded.found > p.graded.faulty_runs for p in ran)
    alarms = sum(pair.has_alarm for pair in clean)
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
        f"Live points: {answers.count('passed')} passed, {answers.count('failed')} failed, "
        f"{answers.count('cannot tell')} that cannot be told."
    )
    card = f"{one_line(grade.card)}, driver {one_line(grade.driver)}" if grade.card else "no GPU"
    versions = ", ".join(map(one_line, grade.versions)) or "no framework"
    where = f"Measured on {grade.date} with {card}; Python {grade.python}, {versions}."
    return [
        *([ON_CPU] if grade.tiny or not grade.card else []),
        *(where, found_text, gains, points),
        _clocks(grade.clocks),
        *([f"Not run or not explained: {', '.join(failed)}."] if failed else []),
        *([f"Left out: {'; '.join(map(one_line, grade.left_out))}."] if grade.left_out else []),
    ]


def _clocks(clocks: GpuClocks) -> str:
    """The state of the GPU in a sentence."""
    if not clocks.samples:
        return f"Clocks, power and temperature were not sampled: {one_line(clocks.missing)}."
    parts = [f"{clocks.samples} samples"]
    if clocks.low_mhz is not None and clocks.high_mhz is not None:
        parts.append(f"{clocks.low_mhz:.0f} to {clocks.high_mhz:.0f} MHz")
    if clocks.power_w is not None:
        parts.append(f"up to {clocks.power_w:.0f} W")
    if clocks.temperature_c is not None:
        parts.append(f"up to {clocks.temperature_c:.0f} °C")
    reduced = [f"{one_line(reason)} in {len(names)} measurements"
               for reason, names in clocks.reasons.items()]  # fmt: skip
    missing = f" Missing: {one_line(clocks.missing)}." if clocks.missing else ""
    return (
        f"GPU during the measurements: {', '.join(parts)}. "
        f"Clocks were reduced: {', '.join(reduced) or 'never'}.{missing}"
    )


def bound_rows(grade: GpuGrade) -> list[tuple[str, ...]]:
    """What was asked for, and whether it was reached."""
    return [tuple(map(one_line, (b.answer, b.bound, b.measured))) for b in grade.bounds]


def remarks(pair: GpuPair) -> str:
    """What else to know about a pair; '' for nothing."""
    said = [remark(pair.graded)]
    if pair.clocks_mhz is not None:
        faulty, fixed = pair.clocks_mhz
        if abs(faulty / fixed - 1) > CLOCKS_DIFFER:
            said.append(f"the clock was {faulty:.0f} MHz in the faulty program, "
                        f"{fixed:.0f} MHz in the fixed one")  # fmt: skip
    return "; ".join(filter(None, said))


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
        remarks(pair),
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
    "BOUND_HEAD", "OVERHEAD_HEAD", "PAIR_HEAD", "POINT_HEAD", "bound_rows", "interval", "is_passed",
    "overhead_rows", "pair_row", "point_rows", "remarks", "summary",
]  # fmt: skip
