"""Summary of the grades of the lab's pairs, in words."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from stepwhy.base.text import one_line
from stepwhy.base.units import format_fraction

if TYPE_CHECKING:
    from stepwhy.result import Grade, GradedPair


def summary(grade: Grade) -> list[str]:
    """What was found, what was found by mistake, and what could not be explained."""
    pairs = grade.pairs
    faulty, fixed = sum(p.faulty_runs for p in pairs), sum(p.fixed_runs for p in pairs)
    found, first = sum(p.found for p in pairs), sum(p.found_first for p in pairs)
    alarms = sum(p.false_alarms for p in pairs)
    judged = (
        f"Found in {found} of {faulty} faulty runs of {len(pairs)} pairs, as the first finding in "
        f"{first}; found by mistake in {alarms} of {fixed} fixed runs."
    )
    unknown = f"Without a verdict: {sum(p.abstained for p in pairs)} of {faulty + fixed} runs."
    shares = [p.unexplained for p in pairs if p.unexplained is not None]
    if shares:
        unknown += (
            f" Unexplained share of the step: {format_fraction(median(shares))} in the median "
            f"pair, {format_fraction(max(shares))} at most."
        )
    failed = [one_line(p.name) for p in pairs if p.error]
    against = sum(len(p.contradictions) for p in pairs)
    return [
        judged,
        unknown,
        *([f"Statements of one report that contradict each other: {against}."] if against else []),
        *([f"Not run: {', '.join(failed)}."] if failed else []),
    ]


def is_passed(pair: GradedPair) -> bool:
    """Whether the fault was found first in all faulty runs and in no fixed one."""
    return 0 < pair.faulty_runs == pair.found_first and pair.fixed_runs > 0 == pair.false_alarms


def remark(pair: GradedPair) -> str:
    """What else to know about a pair; '' for nothing."""
    remarks = [
        one_line(pair.error),
        f"first: {', '.join(pair.other_first)}" if pair.other_first else "",
        f"also in the fixed one: {', '.join(pair.also_in_fixed)}" if pair.also_in_fixed else "",
        "machine busy" if pair.busy else "",
        *(f"contradiction: {one_line(text).rstrip('.')}" for text in pair.contradictions),
    ]
    return "; ".join(filter(None, remarks))
