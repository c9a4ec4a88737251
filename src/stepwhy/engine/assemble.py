"""From facts to the result contract."""

from __future__ import annotations

from textwrap import shorten
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy import __version__
from stepwhy.answers.breakdown import breakdown_of
from stepwhy.answers.devices import devices_of, totals_of
from stepwhy.answers.events import find_events
from stepwhy.answers.host_load import host_load
from stepwhy.answers.host_notes import host_notes
from stepwhy.answers.memory import memory_uses
from stepwhy.answers.operations import operations_of
from stepwhy.answers.parallel import parallel_use
from stepwhy.answers.pipelines import find_pipelines
from stepwhy.answers.placement import bounded, placement_of
from stepwhy.answers.run import input_of, run_of
from stepwhy.answers.step_summary import note_of_changes, steady_span, summarise_steps
from stepwhy.answers.verdict import decide
from stepwhy.columns.memory import give_back
from stepwhy.diagnoses import run_all
from stepwhy.findings import Result
from stepwhy.passes.devices import MOST_DEVICES
from stepwhy.units import format_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.findings import Finding, Op, Verdict
    from stepwhy.passes.facts import Facts
    from stepwhy.trace import Trace

# Operations that a sentence names, and letters of each.
_NAMED = 3
_LONGEST_NAME = 60


def assemble(facts: Facts, path: str, format_name: str) -> Result:
    """The result of one trace.

    Args:
        facts: Its facts.
        path: Where it came from, as the user named it.
        format_name: Name of its format.
    """
    give_back()  # what reading left behind
    _count_together(facts.trace)
    findings = run_all(facts)
    verdict = decide(facts)
    ops = operations_of(facts)
    devices = devices_of(facts)
    return Result(
        verdict=_with_cause(verdict, findings),
        inputs=(input_of(facts.trace, path, format_name),),
        run=run_of(facts.trace),
        steps=summarise_steps(facts),
        breakdown=breakdown_of(facts),
        devices=devices,
        parallel=None if verdict.bound_by == "unknown" else parallel_use(devices, facts.wall_ns),
        trace=totals_of(facts),
        ops=ops,
        findings=findings,
        stepwhy=__version__,
        notes=_notes(facts, ops),
        host=host_load(facts.sampled),
        events=find_events(facts.trace),
        pipelines=find_pipelines(facts.trace, steady_span(facts)),
        placement=bounded(placement_of(facts)),
        memory=facts.derived(memory_uses),
    )


def _count_together(trace: Trace) -> None:
    """Count the devices that results show as one."""
    if not trace.health.has("devices-together"):
        trace.health.count(
            "devices-together",
            "warning",
            f"Only the first {MOST_DEVICES:,} devices are listed separately. The others are "
            "combined into one device, and still count in the step and its categories.",
            count=max(len(trace.devices) - MOST_DEVICES, 0),
            dropped=False,
        )


# The findings that only repeat in detail what the verdict says.
_SAME = {
    "input": {"input-bound"},
    "host": {"launch-bound", "host-sync", "session-overhead", "wall-device-gap"},
    "communication": {"exposed-communication"},
    "transfer": {"exposed-transfer"},
    "startup": {"warmup-included"},
}


def _with_cause(verdict: Verdict, findings: tuple[Finding, ...]) -> Verdict:
    """The breakdown shows the symptom; where the costliest finding is another, it is named."""
    first = findings[0]
    named = first.verdict == "found" and bool(first.cost_ns_per_step)
    if verdict.bound_by == "unknown" or not named or first.id in _SAME.get(verdict.bound_by, ()):
        return verdict
    return replace(verdict, sentence=f"{verdict.sentence} Fix first: {_lower(first.title)}.")


def _lower(title: str) -> str:
    return title[:1].lower() + title[1:]


def _longest(facts: Facts) -> tuple[str, ...]:
    """Where to begin in a record that explains nothing: what takes longest in it."""
    first = facts.ops.largest(_NAMED)[:_NAMED] if facts.trace.meta.limit else ()
    if not first:
        return ()
    named = ", ".join(
        f"'{shorten(row.name, _LONGEST_NAME, placeholder='...')}' "
        f"{format_ns(facts.mean_ns(row.self_ns))}"
        + (f" on {row.device}" if row.device != "host" else "")
        for row in first
    )
    when = "in all" if facts.steps.source == "whole-trace" else "per step"
    return (f"Longest {when}, excluding nested operations: {named}.",)


def _notes(facts: Facts, ops: Sequence[Op]) -> tuple[str, ...]:
    left_out = len(facts.ops) - len(ops)
    told = host_notes(host_load(facts.sampled))
    notes = (*note_of_changes(facts), *_longest(facts), *facts.trace.meta.notes, *told)
    if left_out > 0:
        notes = (*notes, f"The op table omits the {left_out} rows with the least time.")
    return notes
