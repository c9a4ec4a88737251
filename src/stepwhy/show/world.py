"""Grades of `lab/world`, in words: a line per program, and totals of each half."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.text import one_line
from stepwhy.base.units import format_fraction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.result import GradedProgram, WorldGrade

HALVES = {"tune": "The half for tuning", "locked": "The locked half"}
TITLES = ("program", "half", "first findings", "cause", "line", "gain", "predicted", "alarms")

_FIRST = 2  # findings that are shown, and that may name the cause or the line


def cells(program: GradedProgram) -> tuple[str, ...]:
    """One line of the table, as in `TITLES`; '-' for what was not graded or is not there."""
    return (
        one_line(program.name),
        program.half,
        _ids(program.found[:_FIRST] if program.found is not None else None),
        _place(program),
        {True: "yes", False: "no", None: "-"}[program.right_line],
        "-" if program.gain is None else format_fraction(program.gain),
        "-" if program.predicted is None else " to ".join(map(format_fraction, program.predicted)),
        _ids(program.alarms),
    )


def note(program: GradedProgram) -> str:
    """What else to know about a program; '' for nothing."""
    notes = [
        one_line(program.error),
        "no diagnosis names the cause" if not (program.healthy or program.causes) else "",
        f"without a verdict: {program.abstained}" if program.abstained else "",
        "machine busy" if program.busy else "",
        f"shown to help there: {_ids(program.proved)}" if program.proved else "",
    ]
    return "; ".join(filter(None, notes))


def totals(grade: WorldGrade) -> list[str]:
    """What was found in each half that has graded programs, a sentence or a few each."""
    halves = {half: [p for p in grade.programs if p.half == half] for half in HALVES}
    return [f"{HALVES[half]}: {_totals(some)}" for half, some in halves.items() if some]


def _totals(programs: Sequence[GradedProgram]) -> str:
    slow = [p for p in programs if p.found is not None]
    clean = [p for p in programs if p.alarms is not None]
    places = [p.place for p in slow if p.place is not None]
    judged = [p.within for p in slow if p.within is not None]
    alarming = sum(bool(p.alarms) for p in clean)
    failed = [one_line(p.name) for p in programs if p.error]
    busy = sum(p.busy for p in programs)
    found = (
        f"the cause first in {places.count(1)} of {len(slow)} slow programs, among the first two "
        f"in {sum(place <= _FIRST for place in places)}; a right line among the first two in "
        f"{sum(p.right_line is True for p in slow)}; the gain inside the predicted interval in "
        f"{sum(judged)} of {len(judged)}; findings of 5 % or more in {alarming} of {len(clean)} "
        "fixed and healthy programs."
    )
    abstained = sum(p.abstained for p in programs)
    without = f"Without a verdict: {abstained} of {len(slow) + len(clean)} runs."
    load = f"On a busy machine: {busy} runs." if busy else ""
    missing = f"Not run: {', '.join(failed)}." if failed else ""
    return " ".join(filter(None, (found, without, load, missing)))


def _place(program: GradedProgram) -> str:
    if program.found is None:
        return "-"
    return "not found" if program.place is None else f"{program.place}."


def _ids(ids: Sequence[str] | None) -> str:
    """Ids in a cell: '-' if nothing was graded, 'none' if nothing was found."""
    if ids is None:
        return "-"
    return ", ".join(map(one_line, ids)) or "none"
