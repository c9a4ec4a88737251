"""Assemble the result of a trace from its facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from stepwhy import __version__
from stepwhy.analyse.activity.devices import MOST_DEVICES
from stepwhy.analyse.answers.breakdown import breakdown_of
from stepwhy.analyse.answers.devices import devices_of, totals_of
from stepwhy.analyse.answers.events import find_events
from stepwhy.analyse.answers.host_load import described_load, host_load
from stepwhy.analyse.answers.host_notes import core_contention, core_wait, host_notes
from stepwhy.analyse.answers.memory import memory_uses
from stepwhy.analyse.answers.operations import operations_of
from stepwhy.analyse.answers.parallel import parallel_use
from stepwhy.analyse.answers.placement import bounded, placement_of
from stepwhy.analyse.answers.run import input_of, run_of
from stepwhy.analyse.answers.step_summary import steady_span, step_notes, stretches, summarise_steps
from stepwhy.analyse.answers.verdict import decide, first_to_fix, set_up_ns, set_up_share
from stepwhy.analyse.answers.wall_clock import wall_clock
from stepwhy.analyse.input.batch_size import examples_per_step
from stepwhy.analyse.input.pipelines import find_pipelines
from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.analyse.run.usable import MOST_MISSING_WORK, MOSTLY_START_UP
from stepwhy.base.columns.memory import give_back
from stepwhy.diagnose import run_all
from stepwhy.diagnose.shared.rule import SHARE_OF_TRAINING
from stepwhy.engine.pricing import priced
from stepwhy.result import Abstention, Result, Verdict
from stepwhy.result.reasons import (
    Bound,
    LongSteps,
    MostlyStartUp,
    NeverAhead,
    StarvedQueue,
    lack_of,
)
from stepwhy.result.wording.corrections import with_sentences
from stepwhy.result.wording.machine import core_wait_sentence, machine_sentence, unreliable
from stepwhy.result.wording.notes import (
    devices_together,
    longest,
    mostly_set_up,
    rows_left_out,
    work_missing,
)
from stepwhy.result.wording.steps import change_note, steps_note
from stepwhy.result.wording.verdict import cause_sentence, verdict_sentence
from stepwhy.result.wording.wall_clock import wall_clock_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepwhy.analyse.answers.verdict import Decision
    from stepwhy.analyse.facts import Facts
    from stepwhy.result import Finding, HostLoad, Op
    from stepwhy.result.reasons import StepNote
    from stepwhy.trace import Trace

T = TypeVar("T")

# Of the time of all steps.
_MOST = 0.5

# Missing device work below this share of all changes no figure: only a health counter names it.
_WORTH_SAYING = 0.005

# Number of operations that a note names.
_NAMED = 3


def assemble(facts: Facts, path: str, format_name: str, *, predict: bool = True) -> Result:
    """The result of one trace.

    Args:
        facts: Its facts.
        path: Its file or folder, as the user named it.
        format_name: Name of its format.
        predict: Whether to predict what fixes would gain.
    """
    give_back()  # free memory that reading no longer needs
    _count_combined_devices(facts.trace)
    _count_missing_work(facts)
    # What needs most memory is computed first, while few facts are cached.
    ops = _then_free(operations_of(facts))
    breakdown = with_sentences(_then_free(breakdown_of(facts)))
    findings = _then_free(run_all(facts))
    if predict:
        findings = _then_free(priced(facts, findings))
    load = host_load(facts.sampled)
    described = described_load(facts)
    if waits := core_wait(breakdown, described):
        breakdown = replace(breakdown, note=core_wait_sentence(waits))
    notes = step_notes(facts)
    verdict = verdict_of(facts.derived(decide), findings, _caveat(facts, notes, described))
    devices = devices_of(facts)
    clock = wall_clock(facts)
    return Result(
        verdict=verdict,
        inputs=(input_of(facts.trace, path, format_name),),
        run=run_of(facts.trace),
        steps=replace(
            summarise_steps(facts),
            note=steps_note([n for n in notes if not _hides_most(n)]),
            examples=examples_per_step(facts),
        ),
        breakdown=breakdown,
        devices=devices,
        parallel=None if verdict.bound_by == "unknown" else parallel_use(devices, facts.wall_ns),
        trace=totals_of(facts),
        ops=ops,
        findings=findings,
        stepwhy=__version__,
        notes=tuple(_notes(facts, ops, load)),
        host=load,
        events=find_events(facts.trace),
        pipelines=find_pipelines(facts.trace, steady_span(facts)),
        placement=bounded(placement_of(facts)),
        memory=facts.derived(memory_uses),
        wall_clock=clock and replace(clock, sentence=wall_clock_sentence(clock, devices, ops)),
        lines=facts.derived(line_breakdown),
    )


def _then_free(result: T) -> T:
    """Return a result, after memory that is no longer used is given back to the system."""
    give_back()
    return result


def _count_combined_devices(trace: Trace) -> None:
    """Add a health counter of the devices that results combine into one."""
    if not trace.health.has("devices-together"):
        trace.health.count(
            "devices-together",
            "warning",
            devices_together(MOST_DEVICES),
            count=max(len(trace.devices) - MOST_DEVICES, 0),
            dropped=False,
        )


def _count_missing_work(facts: Facts) -> None:
    """Add a health counter of the device work that the steps lack."""
    missing = facts.missing_work
    if facts.has_accelerator and not facts.trace.health.has("device-work-missing"):
        facts.trace.health.count(
            "device-work-missing",
            "warning",
            work_missing(missing.share),
            count=missing.count,
            dropped=False,
        )


def verdict_of(decision: Decision, findings: Sequence[Finding], caveat: str = "") -> Verdict:
    """The verdict; if the costliest finding is another cause, the sentence names it.

    Args:
        decision: What bounds the step.
        findings: All findings, the costliest first.
        caveat: Why the measured times are not reliable.
    """
    first = first_to_fix(decision.bound_by, findings) or _interrupting(findings[0])
    sentence = verdict_sentence(decision.reason, first.title if first else "")
    reason = decision.reason
    abstention = (
        None
        if isinstance(reason, (Bound, MostlyStartUp, NeverAhead, StarvedQueue))
        else Abstention("incomplete-record", (lack_of(reason),))
    )
    cause = cause_sentence(reason, first)
    return Verdict(decision.bound_by, decision.confidence, sentence, caveat, abstention, cause)


def _interrupting(first: Finding) -> Finding | None:
    """The first finding, if it interrupts the steps for most of the training, else None."""
    shares = (e.value for e in first.evidence if e.what == SHARE_OF_TRAINING)
    takes_most = any(isinstance(share, float) and share > _MOST for share in shares)
    return first if first.verdict == "found" and takes_most else None


def _caveat(facts: Facts, notes: Sequence[StepNote], load: HostLoad | None) -> str:
    """Why the described step is not reliable, or not what the run spends its time on."""
    contention, missing = core_contention(load), facts.missing_work.share
    lost = _WORTH_SAYING <= missing < MOST_MISSING_WORK and facts.has_accelerator
    hidden = steps_note([note for note in notes if _hides_most(note)])
    machine = unreliable(contention) if contention else ""
    set_up = mostly_set_up(share) if (share := _unsaid_set_up(facts)) > MOSTLY_START_UP else ""
    return " ".join(filter(None, (machine, work_missing(missing) if lost else "", set_up, hidden)))


def _unsaid_set_up(facts: Facts) -> float:
    """Share of the record that is set-up, 0..1; 0 if the verdict says so by itself."""
    is_said = facts.derived(decide).bound_by == "startup" or set_up_ns(facts)
    return 0.0 if is_said else set_up_share(facts)


def _hides_most(note: StepNote) -> bool:
    """Whether a note is about long steps that take more time than the described ones."""
    return isinstance(note, LongSteps) and note.share > _MOST


def _notes(facts: Facts, ops: Sequence[Op], load: HostLoad | None) -> Iterator[str]:
    if change := change_note(stretches(facts)):
        yield change
    if facts.trace.meta.limit and ops:
        yield longest(ops[:_NAMED], per_step=facts.steps.source != "whole-trace")
    yield from facts.trace.meta.notes
    yield from map(machine_sentence, host_notes(load))
    if len(facts.ops) > len(ops):
        yield rows_left_out(len(facts.ops) - len(ops))
