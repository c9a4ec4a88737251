"""Grade what stepwhy reports about programs whose authors did not know its diagnoses."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import msgspec

from stepwhy import __version__
from stepwhy.base.patterns import regex
from stepwhy.measure.grade import framework_of, is_busy
from stepwhy.result import GradedProgram, WorldGrade
from stepwhy.result.world import Half  # noqa: TC001 - msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import date

    from stepwhy.result import Finding, Result

READ = 2  # findings; few readers look further for where to begin
ALARM = 0.05  # of the step; what costs less sends nobody to change the program

_LINE = regex(r"([^\s/\\]+\.py)\((\d+)\)")


class Truth(msgspec.Struct, frozen=True):
    """What the author of a program said about it.

    Args:
        name: Its name.
        half: 'tune' or 'locked'.
        causes: Ids of the diagnoses that name the mistake.
        lines: Lines where the time goes, as (file, number).
        gain: Measured gain of the fix, as a share of the slow step; None if not measured.
        healthy: Whether there is no mistake, so that there is only one version.
        proved: Ids of the diagnoses whose advice made the fixed or healthy version faster.
    """

    name: str
    half: Half
    causes: tuple[str, ...] = ()
    lines: frozenset[tuple[str, int]] = frozenset()
    gain: float | None = None
    healthy: bool = False
    proved: frozenset[str] = frozenset()


def grade_program(
    truth: Truth, slow: Result | None, clean: Result | None, *, day: date, error: str = ""
) -> GradedProgram:
    """What was reported about one program.

    Args:
        truth: What its author said.
        slow: Result of a run of the slow version; None if there is none.
        clean: Result of a run of the fixed or healthy version; None if there is none.
        day: Day of the runs.
        error: Why a version could not be run or explained.
    """
    found = _found(slow) if slow else []
    right = [finding for finding in found if finding.id in truth.causes]
    every = [result for result in (slow, clean) if result]
    worth = _worth_a_look(clean) if clean else ()
    return GradedProgram(
        name=truth.name,
        half=truth.half,
        healthy=truth.healthy,
        causes=truth.causes,
        found=tuple(finding.id for finding in found) if slow else None,
        place=found.index(right[0]) + 1 if right else None,
        right_line=_names_line(found[:READ], truth.lines) if slow else None,
        gain=truth.gain,
        predicted=_predicted(right[0], slow.breakdown.wall_ns) if slow and right else None,
        alarms=tuple(id_ for id_ in worth if id_ not in truth.proved) if clean else None,
        proved=tuple(id_ for id_ in worth if id_ in truth.proved),
        abstained=sum(result.verdict.bound_by == "unknown" for result in every),
        busy=sum(map(is_busy, every)),
        error=error,
        date=day.isoformat(),
        framework=framework_of(every),
    )


def graded_world(programs: Iterable[GradedProgram]) -> WorldGrade:
    """The grade of several programs; of two with one name, the later one counts."""
    latest = {program.name: program for program in programs}
    ordered = tuple(latest[name] for name in sorted(latest))
    return WorldGrade(ordered, platform.python_version(), stepwhy=__version__)


def _found(result: Result) -> list[Finding]:
    """What was found and is not explained by another finding, in the order of the report."""
    return [f for f in result.findings if f.verdict == "found" and not f.explained_by]


def _names_line(findings: Sequence[Finding], lines: frozenset[tuple[str, int]]) -> bool:
    named = (
        (file, int(number))
        for finding in findings
        for evidence in finding.evidence
        for file, number in _LINE.findall(evidence.where)
    )
    return not lines.isdisjoint(named)


def _predicted(finding: Finding, wall_ns: int) -> tuple[float, float] | None:
    """Interval of the predicted gain, as shares of the step."""
    if finding.saving is None or not wall_ns:
        return None
    low, high = finding.saving.low_ns / wall_ns, finding.saving.high_ns / wall_ns
    return round(low, 4), round(high, 4)


def _worth_a_look(result: Result) -> tuple[str, ...]:
    """Ids of what costs, or would save, a share of the step that is worth a look.

    What is listed last because nothing shows that it helps is not counted.
    """
    least_ns = max(ALARM * result.breakdown.wall_ns, 1)
    return tuple(f.id for f in _found(result) if _weight_ns(f) >= least_ns and not f.is_optional)


def _weight_ns(finding: Finding) -> int:
    saving_ns = finding.saving.high_ns if finding.saving else 0
    return max(finding.cost_ns_per_step or 0, saving_ns)
