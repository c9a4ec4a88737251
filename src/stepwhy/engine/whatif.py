"""Predict the step of a recorded run after changes of its program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy import __version__
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lateness.rank_summary import summarise_rank
from stepwhy.base.errors import EditError
from stepwhy.diagnose import run_all
from stepwhy.engine.explain import ranks_of
from stepwhy.engine.opening import open_run
from stepwhy.engine.privacy import redactor_of
from stepwhy.predict import price
from stepwhy.predict.quality import judge
from stepwhy.predict.rank_steps import price_steps
from stepwhy.predict.ranks import job_of
from stepwhy.predict.slowdown import slowdown_of
from stepwhy.predict.timeline import predicted_rows
from stepwhy.read.inputs.remote.addresses import shown
from stepwhy.result import Edit, Prediction, Refusal, WhatIfResult
from stepwhy.show.export.chrome_trace import write_chrome_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from stepwhy.engine.privacy import Redact
    from stepwhy.result import Slowdown

    Progress = Callable[[str, int, int], None]

LIMITS = (
    Edit("input", "free"),
    Edit("kernels", "faster", factor=2.0),
    Edit("dispatch", "gone"),
    Edit("syncs", "gone"),
    Edit("copies", "gone"),
    Edit("communication", "gone"),
    Edit("python", "gone"),
    Edit("compile", "gone"),
    Edit("storage", "gone"),
)
"""What each part of a step could gain at most, and kernels that are twice as fast."""

LIMITS_OF_RANKS = (
    Edit("rank", "even"),
    Edit("communication", "balanced"),
    Edit("variance", "gone"),
    Edit("communication", "gone"),
)
"""The same for a job of whose ranks all operations are recorded."""

LIMITS_OF_TRACES = (Edit("rank", "even"), Edit("variance", "gone"))
"""The same for a job whose ranks were traced one by one."""


def predict(
    names: Sequence[str],
    edits: Sequence[Edit] = (),
    progress: Progress | None = None,
    *,
    redact: Redact = True,
    timeline: Path | None = None,
) -> WhatIfResult:
    """Predict the step after some edits of a run.

    Args:
        names: The inputs, as for `engine.explain`.
        edits: The edits, made together; none for the fixes of all findings, and `LIMITS`.
        progress: As for `engine.explain`.
        redact: Likewise.
        timeline: File for a timeline of the trace with the predicted steps beneath the recorded
            ones, for Perfetto; needs edits that can be predicted.

    Raises:
        InputError: No input can be read, or they are several runs.
        EditError: The edits cannot be predicted, and a timeline was asked for.
        OutputError: The timeline cannot be written.
    """
    redactor = redactor_of(redact)
    opened, _ = open_run(names, progress, redact=redactor)
    ranks = [Facts(one.trace) for one in ranks_of(opened)]
    facts, is_job, slowdown = ranks[0], len(ranks) > 1, None
    if is_job:
        found, slowdown = _predict_job(ranks, tuple(edits))
    else:
        limits = [edit for edit in LIMITS if _has(facts, edit)]
        found = [price(facts, chosen) for chosen in _combinations(tuple(edits), limits)]
        if not edits:
            found += [
                replace(price(facts, (finding.edit,)), finding=finding.id)
                for finding in run_all(facts)
                if finding.verdict == "found" and finding.edit is not None
            ]
    if timeline is not None:
        _draw(facts, found[0], timeline)
    return WhatIfResult(
        path=redactor.text(shown(names[0])),
        step_ns=facts.wall_ns,
        replay=facts.derived(judge) if facts.has_accelerator and not is_job else None,
        predictions=tuple(one for one in found if isinstance(one, Prediction)),
        refusals=tuple(one for one in found if isinstance(one, Refusal)),
        slowdown=slowdown,
        stepwhy=__version__,
    )


def _predict_job(
    ranks: Sequence[Facts], edits: tuple[Edit, ...]
) -> tuple[list[Prediction | Refusal], Slowdown | None]:
    """Predictions for a job of several ranks, and what makes its steps longer than ideal ones."""
    job = job_of(ranks)
    if not job.is_table:
        summaries = [facts.derived(summarise_rank) for facts in ranks]
        chosen = _combinations(edits, LIMITS_OF_TRACES)
        return [price_steps(summaries, some) for some in chosen], None
    found = [job.price(some) for some in _combinations(edits, LIMITS_OF_RANKS)]
    schedule = job.schedule
    return found, None if isinstance(schedule, Refusal) else slowdown_of(schedule)


def _combinations(edits: tuple[Edit, ...], limits: Sequence[Edit]) -> list[tuple[Edit, ...]]:
    """The edits, made together, or each of the limits."""
    return [edits] if edits else [(edit,) for edit in limits]


def _draw(facts: Facts, found: Prediction | Refusal, timeline: Path) -> None:
    if isinstance(found, Refusal):
        raise EditError(found.reason.rstrip("."), "Choose a change that can be predicted")
    write_chrome_trace(facts.trace, timeline, predicted_rows(facts, found))


def _has(facts: Facts, edit: Edit) -> bool:
    """Whether the step spends time in what an edit is about."""
    categories = {
        "input": "input_wait", "kernels": "compute", "copies": "transfer", "syncs": "sync",
    }  # fmt: skip
    return facts.breakdown[categories.get(edit.what, edit.what)] > 0
