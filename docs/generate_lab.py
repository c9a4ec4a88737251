"""The page of what the lab's pairs showed, from the results that were kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy.base.units import format_fraction, format_ns
from stepwhy.cli.lab_world import stored_world, world_programs
from stepwhy.measure import graded_world
from stepwhy.result import Grade, current_id
from stepwhy.show import world
from stepwhy.show.grade import remark, summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.result import GradedPair, GradedProgram

RESULTS = Path(__file__).resolve().parent.parent / "lab" / "results"

INTRODUCTION = """\
## Measured pairs

The latest result of each pair of the [lab](../how-to/use-the-lab.md), measured with `stepwhy lab
run NAME --record`. *Found* counts the runs of the faulty program in which the expected diagnosis
was the first finding; *false alarm* counts the runs of the fixed one in which it was found.
*Predicted* is the saving per step that the finding predicts, currently a bound from the
breakdown; *measured* is the difference of the step times in the reports of both programs, run
alternately, with its 95 % interval. *Kept* is `yes` if the measured gain is within the predicted
range, and `overlap` if only part of its interval is.
"""


def results() -> Iterator[dict[str, Any]]:
    """The kept results, by name of the pair."""
    for path in sorted(RESULTS.glob("*.json")):
        yield json.loads(path.read_text(encoding="utf-8"))


def row(result: dict[str, Any]) -> tuple[str, ...]:
    """One line of the table."""
    runs, fixed = result["faulty_runs"], result["fixed_runs"]
    within = _interval(result["measured_low_ns"], result["measured_high_ns"])
    return (
        f"`{result['name']}`",
        _link(result["diagnosis"]),
        f"{result['found_first']} of {runs}",
        f"{result['false_alarms']} of {fixed}",
        _interval(result["predicted_low_ns"], result["predicted_high_ns"]),
        f"{_time(result['measured_ns'])} ({within})",
        kept(result),
        _time(sum(result["comparison"]["a"]["breakdown"].values())),
        result["date"],
    )


def kept(result: dict[str, Any]) -> str:
    """Whether the measured gain lies within the predicted one."""
    low, high = result["predicted_low_ns"], result["predicted_high_ns"]
    if low is None:
        return "none predicted"
    if low <= result["measured_ns"] <= high:
        return "yes"
    ends = result["measured_low_ns"], result["measured_high_ns"]
    return "overlap" if None not in ends and ends[0] <= high and ends[1] >= low else "no"


def versions() -> str:
    """What the results were measured with."""
    said = {
        f"{key} {value}" if key == "python" else str(value)
        for result in results()
        for key, value in result["versions"].items()
    }
    return f"Measured with {', '.join(sorted(said))}.\n"


def _interval(low: int | None, high: int | None) -> str:
    return "-" if low is None or high is None else f"{_time(low)} to {_time(high)}"


def _time(ns: int) -> str:
    return f"{'-' if ns < 0 else ''}{format_ns(abs(ns))}"


GRADES = RESULTS.parent / "grade.json"
GRADE_INTRODUCTION = """\
## Every pair

What `stepwhy lab grade --record` showed, with a run of each program: the first finding in the
faulty one, and what was found in the fixed one.
"""
GRADE_HEAD = ("pair", "planted", "found first", "false alarm", "unexplained", "remark", "date")


def grades() -> Grade | None:
    """The stored grades of the pairs; None if there are none."""
    if not GRADES.is_file():
        return None
    return msgspec.json.decode(GRADES.read_bytes(), type=Grade)


def _link(diagnosis: str) -> str:
    id_ = current_id(diagnosis)
    return f"[`{id_}`](../diagnoses/{id_}.md)"


def grade_sentences(grade: Grade) -> str:
    """The totals, as a list."""
    return "\n".join(f"- {sentence}" for sentence in summary(grade)) + "\n"


def grade_row(pair: GradedPair) -> tuple[str, ...]:
    """One line of the table of grades."""
    return (
        f"`{pair.name}`",
        _link(pair.diagnosis),
        f"{pair.found_first} of {pair.faulty_runs}",
        f"{pair.false_alarms} of {pair.fixed_runs}",
        "-" if pair.unexplained is None else format_fraction(pair.unexplained),
        remark(pair),
        pair.date,
    )


WORLD_GRADES = RESULTS.parent / "world-grade.json"
WORLD_INTRODUCTION = """\
## Programs by other authors

What `stepwhy lab grade --world --record` showed about [programs whose authors had not read the
diagnoses](../how-to/other-programs.md), with one run of each version.
*Cause* is the rank of the first finding that names the mistake, and *line* whether one of the first
two findings names a line where the time goes. *Gain* is the measured share of the slow step that
the fix saves; *predicted* is the interval that the finding predicts. *Alarms*
are findings of 5 % of the step or more in the fixed or healthy version. Not each of them is wrong:
its author may have missed a problem.
"""
WORLD_HEAD = (*world.TITLES, "remark", "date")


def world_sentences() -> str:
    """How many programs are graded, and the totals of each half, as a list."""
    grade = graded_world(stored_world(WORLD_GRADES))
    share = f"Graded: {len(grade.programs)} of {len(world_programs())} programs."
    return "\n".join(f"- {sentence}" for sentence in (share, *world.totals(grade))) + "\n"


def world_rows() -> Iterator[tuple[str, ...]]:
    """The lines of the table of the programs in `lab/world`, those for tuning first."""
    order = list(world.HALVES)
    programs = sorted(stored_world(WORLD_GRADES), key=lambda program: order.index(program.half))
    return map(_world_row, programs)


def _world_row(program: GradedProgram) -> tuple[str, ...]:
    name, *cells = world.cells(program)
    return (f"`{name}`", *cells, world.note(program), program.date)


HEAD = (
    *("pair", "planted", "found", "false alarm", "predicted", "measured"),
    *("kept", "faulty step", "date"),
)
