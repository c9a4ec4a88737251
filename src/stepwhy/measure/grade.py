"""Grade what stepwhy reports about a pair of the lab: is the fault found, and its fix clean?"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from stepwhy import __version__
from stepwhy.measure.sample import MOST_BACKGROUND_CORES
from stepwhy.result import Grade, GradedPair
from stepwhy.result.contradictions import contradictions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import date

    from stepwhy.result import Result


def grade_pair(
    name: str,
    diagnosis: str,
    faulty: Sequence[Result],
    fixed: Sequence[Result],
    *,
    day: date,
    error: str = "",
) -> GradedPair:
    """What was reported about one pair.

    Args:
        name: Name of the pair.
        diagnosis: Id of the diagnosis of the planted fault.
        faulty: Results of runs of the faulty program.
        fixed: Results of runs of the fixed program.
        day: Day of the runs.
        error: Why a program could not be run or explained.
    """
    found, clean = [_found(r) for r in faulty], [_found(r) for r in fixed]
    first = [ids[0] if ids else "" for ids in found]
    every = [*faulty, *fixed]
    return GradedPair(
        name=name,
        diagnosis=diagnosis,
        faulty_runs=len(faulty),
        found=sum(diagnosis in ids for ids in found),
        found_first=first.count(diagnosis),
        other_first=_distinct(i for i in first if i not in {"", diagnosis}),
        fixed_runs=len(fixed),
        false_alarms=sum(diagnosis in ids for ids in clean),
        also_in_fixed=_distinct(i for ids in clean for i in ids if i != diagnosis),
        abstained=sum(r.verdict.bound_by == "unknown" for r in every),
        unexplained=max(map(_unexplained, every), default=None),
        busy=sum(map(is_busy, every)),
        error=error,
        date=day.isoformat(),
        framework=framework_of(every),
        contradictions=_distinct(text for result in every for text in contradictions(result)),
    )


def graded(pairs: Iterable[GradedPair]) -> Grade:
    """The grade of several pairs; of two with one name, the later one counts."""
    latest = {pair.name: pair for pair in pairs}
    ordered = tuple(latest[name] for name in sorted(latest))
    return Grade(ordered, platform.python_version(), stepwhy=__version__)


def _found(result: Result) -> list[str]:
    """Ids of what was found and is not explained by another finding."""
    return [f.id for f in result.findings if f.verdict == "found" and not f.explained_by]


def _distinct(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ids))


def _unexplained(result: Result) -> float:
    wall_ns = result.breakdown.wall_ns
    return round(result.breakdown.categories["unexplained"] / wall_ns, 4) if wall_ns else 1.0


def is_busy(result: Result) -> bool:
    """Whether other programs kept the machine busy during a run."""
    cores = result.host.background_cores if result.host is not None else None
    return cores is not None and cores > MOST_BACKGROUND_CORES


def framework_of(results: Sequence[Result]) -> str:
    """Framework and version of some runs; '' without a run."""
    runs = [result.run for result in results]
    return f"{runs[0].framework} {runs[0].framework_version}".strip() if runs else ""
