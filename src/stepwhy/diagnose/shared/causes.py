"""One cause, one finding: which findings another one explains, or may leave without gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.activity.callbacks import callback_time
from stepwhy.analyse.activity.devices import intervals_of, known_bytes
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.input.batch_work import find_batch_work, starts_processes
from stepwhy.analyse.lateness.call_lateness import CallLateness, lateness_of_calls
from stepwhy.analyse.lateness.hangs import hangs_by_mismatch
from stepwhy.analyse.steps.stalls import time_of_kinds
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.columns.types import Ints
from stepwhy.diagnose.shared.constants import constants
from stepwhy.diagnose.shared.eager_calls import eager_loop
from stepwhy.diagnose.shared.measure import mean_within, on_scale
from stepwhy.diagnose.shared.pipeline_stages import calls_in_parallel, works_ahead
from stepwhy.diagnose.shared.placement import COPIED_FOR_OPS
from stepwhy.diagnose.shared.rule import SPARED, Rule
from stepwhy.diagnose.shared.settings import LAUNCHES_WAIT, MOST_WAIT, UNCOMPILED
from stepwhy.diagnose.shared.stable_functions import OF_FUNCTIONS
from stepwhy.diagnose.shared.steady_events import SUMMARY_LINE
from stepwhy.diagnose.shared.unread import unread
from stepwhy.result import Finding, Saving
from stepwhy.result.wording.notes import PROCESSES_BESIDE_OPERATIONS
from stepwhy.trace import Kind

MAIN_CAUSE = 0.5  # of the symptom's cost; a cause that explains less leaves most of it open
INPUT_FIRST = 0.5  # of the step waits for input; until that is mended, faster compute waits longer
INPUT_LIMITS = 0.1  # of the step waits for workers: the rest of it may be shortened in vain

# Remedies for the same time rather than causes of it: both findings are worth reading.
_ALTERNATIVES = frozenset({"repeated-preprocessing"})
# Of these, more workers would start in each step, or prepare more batches that are dropped.
_OF_INPUT = frozenset({"input-bound", "serial-input", "worker-respawn", "python-preprocessing"})
_WAITS = ("serial-input", "input-bound")
# What makes the device's own work faster, less or larger, which a step that waits for input cannot
# use.
_COMPUTE_FAMILIES = frozenset({"compute", "not needed"})
_COMPUTE_IDS = frozenset({"launch-bound", "eager-loop", "memory-headroom"})


STALLS = ("checkpoint-stall", "logging-stall", "frequent-evaluation")
"""Findings that say why a rank is late in some steps, with what to do about it."""


def with_causes(
    facts: Facts, findings: Sequence[Finding], rules: Mapping[str, Rule]
) -> list[Finding]:
    """The findings, each with the id of the finding that explains or hides it.

    Where workers cannot keep up, a step that does less else may only wait longer for its batch, so
    that savings elsewhere can be nothing. So can those of processes that compete with operations.

    Args:
        facts: Facts of the run.
        findings: In any order.
        rules: Rules of the diagnoses by id.
    """
    found = {f.id: f for f in findings if f.verdict == "found"}
    hidden = _behind_input(facts, found, rules)
    causes = _refined(facts, found, rules) | _kept_graphs(found)
    causes |= _of_fresh_iterators(found) | _of_wrong_devices(facts, found)
    causes |= _of_evaluations(facts, found) | _of_callbacks(facts, found)
    causes |= _of_summaries(found) | _of_uncompiled(found)
    causes |= _of_waiting_launches(found) | _of_mismatches(facts, found)
    causes |= _of_late_ranks(facts, found)
    causes |= _of_constants(facts, found) | _of_grown_graphs(found)
    causes |= _of_unread(facts, found)
    causes |= _of_repeated_functions(facts, found) | _of_spared_work(found)
    causes |= _of_unused_gradients(found)
    # The wait of such calls for their own input goes with them.
    is_own = causes.get("input-bound") == "frequent-evaluation"
    unsure = frozenset() if is_own else _behind_workers(facts, found, rules)
    return [
        replace(
            f,
            explained_by=causes.get(f.id) or hidden.get(f.id, ""),
            hidden=f.id in hidden and f.id not in causes,
            saving=_saving(facts, f, unsure),
        )
        for f in findings
    ]


def _of_late_ranks(facts: Facts, found: Mapping[str, Finding]) -> dict[str, str]:
    """What shows again that a rank is late, or that steps are long in which it is."""
    lateness = facts.derived(lateness_of_calls) if "late-arrival" in found else None
    if not isinstance(lateness, CallLateness) or lateness.late is None:
        return {}
    if "straggler" in found:
        return {"late-arrival": "straggler"}
    # What is not recorded of a rank that is always late is why it is late.
    is_late_here = facts.trace.meta.rank == lateness.late.ranks[0]
    stalls = [name for name in STALLS if name in found] if is_late_here else []
    if stalls:
        return {"late-arrival": stalls[0]}
    if lateness.late.every == 1:
        return {"wall-device-gap": "late-arrival"} if is_late_here else {}
    return {"noisy-steps": "late-arrival"}


def _of_mismatches(facts: Facts, found: Mapping[str, Finding]) -> dict[str, str]:
    """A collective that hangs because ranks called different things."""
    both = found.keys() >= {"hung-collective", "mismatched-collective"}
    is_cause = both and hangs_by_mismatch(facts.calls)
    return {"hung-collective": "mismatched-collective"} if is_cause else {}


def _saving(facts: Facts, finding: Finding, unsure: frozenset[str]) -> Saving | None:
    """The saving of a finding, from nothing where the fix may gain nothing."""
    saving = finding.saving
    if saving is None:
        return None
    if finding.edit is not None and starts_processes(facts, finding.edit):
        return replace(saving, low_ns=0, note=" ".join(PROCESSES_BESIDE_OPERATIONS))
    return replace(saving, low_ns=0) if finding.id in unsure else saving


def _refined(
    facts: Facts, found: Mapping[str, Finding], rules: Mapping[str, Rule]
) -> dict[str, str]:
    """Symptoms by the costliest found cause that explains most of their cost."""
    causes: dict[str, str] = {}
    for cause in sorted(found.values(), key=lambda f: f.cost_ns_per_step or 0):
        rule = rules.get(cause.id)
        symptom = found.get(rule.refines) if rule else None
        # Where the pipeline already works ahead and in parallel, only less work is left. What the
        # step computes from its batch makes no step wait for one.
        is_cause = cause.id not in _ALTERNATIVES or (
            (cause.edit is None or cause.edit.what == "input")
            and works_ahead(facts.trace)
            and bool(calls_in_parallel(facts.trace))
        )
        if symptom is not None and is_cause and explains(cause, symptom):
            causes[symptom.id] = cause.id
    return causes


def explains(cause: Finding, symptom: Finding) -> bool:
    """Whether a cause explains most of the cost of its symptom."""
    whole = symptom.cost_ns_per_step or 0
    return whole > 0 and (cause.cost_ns_per_step or 0) >= MAIN_CAUSE * whole


def _kept_graphs(found: Mapping[str, Finding]) -> dict[str, str]:
    """Memory and steps that grow because graphs or compiled functions are added."""
    cause = next((id_ for id_ in ("graph-growth", "recompilation") if id_ in found), "")
    symptoms = found.keys() & {"memory-growth", "step-growth"}
    return dict.fromkeys(symptoms, cause) if cause else {}


def _of_grown_graphs(found: Mapping[str, Finding]) -> dict[str, str]:
    """Runs of a session that take long because each of them prepares a graph that has grown."""
    both = {"session-overhead", "graph-growth"} <= found.keys()
    return {"session-overhead": "graph-growth"} if both else {}


def _of_repeated_functions(facts: Facts, found: Mapping[str, Finding]) -> dict[str, str]:
    """Waits for a DataLoader that mostly computes the same for each element in each epoch.

    On CPUs, a process that prepares batches ahead competes with the operations for the cores.
    """
    cause = found.get("repeated-preprocessing")
    if cause is None or all(one.what != OF_FUNCTIONS for one in cause.evidence):
        return {}
    if facts.has_accelerator:
        return {}
    return {id_: cause.id for id_ in _WAITS if id_ in found and explains(cause, found[id_])}


def _of_unused_gradients(found: Mapping[str, Finding]) -> dict[str, str]:
    """Passes through the same layers, of which the first computes gradients that nothing uses."""
    both = {"repeated-computation", "unused-gradient"} <= found.keys()
    return {"repeated-computation": "unused-gradient"} if both else {}


def _of_spared_work(found: Mapping[str, Finding]) -> dict[str, str]:
    """Waits for work on each sample that can mostly be spared, which is better than to hide it."""
    cause = found.get("python-preprocessing")
    if cause is None or all(one.what != SPARED for one in cause.evidence):
        return {}
    return {id_: cause.id for id_ in _WAITS if id_ in found and explains(cause, found[id_])}


def _of_fresh_iterators(found: Mapping[str, Finding]) -> dict[str, str]:
    """Findings about the input of steps that make a new iterator, which starts all of it again."""
    cause = found.get("iterator-rebuild")
    if cause is None:
        return {}
    return {id_: cause.id for id_ in _OF_INPUT & found.keys() if explains(cause, found[id_])}


def _of_uncompiled(found: Mapping[str, Finding]) -> dict[str, str]:
    """Operations that run one by one because a setting keeps functions from being compiled."""
    settings = found.get("debug-settings")
    names = [str(one.value).partition("=")[0] for one in settings.evidence] if settings else []
    is_cause = "eager-loop" in found and not UNCOMPILED.isdisjoint(names)
    return {"eager-loop": "debug-settings"} if is_cause else {}


def _of_evaluations(facts: Facts, found: Mapping[str, Finding]) -> dict[str, str]:
    """What each evaluation or prediction compiles, and the input it waits for."""
    if "frequent-evaluation" not in found:
        return {}
    calls = time_of_kinds(facts.trace, "evaluation")
    parts = {"recompilation": ("trace", "compile"), "input-bound": ("iterator",)}
    return {
        id_: "frequent-evaluation"
        for id_, kinds in parts.items()
        if id_ in found and _explain(facts, calls & time_of_kinds(facts.trace, *kinds), found[id_])
    }


def _explain(facts: Facts, time: Intervals, symptom: Finding) -> bool:
    """Whether some time is most of the cost of a symptom."""
    marks = facts.trace.marks
    # Calls are logged up to a limit.
    steps = np.flatnonzero(marks.start_ns < time.ends.max(initial=0))
    starts = marks.start_ns[steps]
    inside_ns = int(time.within(starts, starts + marks.dur_ns[steps]).sum())
    return 0 < inside_ns >= MAIN_CAUSE * (symptom.cost_ns_per_step or 0) * len(steps)


def _of_waiting_launches(found: Mapping[str, Finding]) -> dict[str, str]:
    """Launches that a variable makes wait: how long they take without it is not known."""
    cause = found.get("debug-settings")
    if cause is None or "launch-bound" not in found:
        return {}
    shares = [e.value for e in cause.evidence if e.what == LAUNCHES_WAIT]
    is_blocked = any(isinstance(share, float) and share >= MOST_WAIT for share in shares)
    return {"launch-bound": cause.id} if is_blocked else {}


def _of_summaries(found: Mapping[str, Finding]) -> dict[str, str]:
    """Small operations that mostly are those of summaries."""
    cause = found.get("logging-stall")
    if cause is None or "eager-loop" not in found or not explains(cause, found["eager-loop"]):
        return {}
    is_by_line = any(one.what == SUMMARY_LINE for one in cause.evidence)
    return {"eager-loop": cause.id} if is_by_line else {}


def _of_unread(facts: Facts, found: Mapping[str, Finding]) -> dict[str, str]:
    """Small operations whose results mostly go to waste."""
    if not {"discarded-result", "eager-loop"} <= found.keys():
        return {}
    known, loop = unread(facts), eager_loop(facts)
    share = _share_within(facts, loop.calls, known.rows) if loop else 0.0
    return {"eager-loop": "discarded-result"} if share >= MAIN_CAUSE else {}


def _of_constants(facts: Facts, found: Mapping[str, Finding]) -> dict[str, str]:
    """Small operations, or Python, that mostly make constants."""
    if "constant-computation" not in found:
        return {}
    known, loop = constants(facts), eager_loop(facts)
    of_loop = _share_within(facts, loop.calls, known.rows) if loop else 0.0
    of_python = known.made_ns(facts) >= MAIN_CAUSE * _cost_ns(found.get("python-overhead"))
    shown = {"eager-loop": of_loop >= MAIN_CAUSE, "python-overhead": of_python}
    return {id_: "constant-computation" for id_, is_so in shown.items() if is_so and id_ in found}


def _share_within(facts: Facts, calls: Ints, rows: Ints) -> float:
    """Share of some calls in which any of some operations run, 0..1."""
    starts = facts.trace.slices.start_ns[calls]
    time = intervals_of(facts.trace, rows)
    return float((time.within(starts, facts.trace.ends(calls)) > 0).mean()) if len(calls) else 0.0


def _cost_ns(finding: Finding | None) -> int:
    return (finding.cost_ns_per_step or 0) if finding else 0


def _of_wrong_devices(facts: Facts, found: Mapping[str, Finding]) -> dict[str, str]:
    """Copies, if most of their bytes come from or go to operations on the wrong device."""
    moved = {id_: _bytes(finding, COPIED_FOR_OPS) for id_, finding in found.items()}
    cause = max(moved, key=moved.__getitem__, default="")
    if "exposed-transfer" not in found or not moved[cause]:
        return {}
    copied = known_bytes(facts.trace, facts.slices(Kind.MEMCPY, steady=True))
    is_most = copied is not None and moved[cause] > MAIN_CAUSE * facts.mean_ns(copied)
    return {"exposed-transfer": cause} if is_most else {}


def _of_callbacks(facts: Facts, found: Mapping[str, Finding]) -> dict[str, str]:
    """Copies, if most of their time is in callbacks into Python, which need their values."""
    symptoms = {"exposed-transfer", "pageable-copy"} & found.keys()
    if "host-callback" not in found or not symptoms:
        return {}
    copies = facts.partition.sets["transfer"] & callback_time(facts.trace)
    pageable = facts.slices(Kind.MEMCPY)
    pageable = pageable[facts.trace.slices.pageable[pageable] == 1]
    parts = {"pageable-copy": copies & intervals_of(facts.trace, pageable)}
    inside_ns = {
        id_: on_scale(facts, mean_within(facts, parts.get(id_, copies)), "transfer")
        for id_ in symptoms
    }
    return {
        id_: "host-callback"
        for id_, ns in inside_ns.items()
        if 0 < ns >= MAIN_CAUSE * _cost_ns(found[id_])
    }


def _bytes(finding: Finding, what: str) -> int:
    """Bytes per step of a piece of evidence; 0 without it."""
    return sum(e.value for e in finding.evidence if e.what == what and isinstance(e.value, int))


def _behind_input(
    facts: Facts, found: Mapping[str, Finding], rules: Mapping[str, Rule]
) -> dict[str, str]:
    """Findings about the device's work in a step that mostly waits for input."""
    late = [f for f in found.values() if _family(f, rules) == "input" and f.cost_ns_per_step]
    if not late or facts.share("input_wait") < INPUT_FIRST:
        return {}
    cause = max(late, key=lambda f: f.cost_ns_per_step or 0).id
    return {
        id_: cause
        for id_, finding in found.items()
        if _family(finding, rules) in _COMPUTE_FAMILIES or id_ in _COMPUTE_IDS
    }


def _behind_workers(
    facts: Facts, found: Mapping[str, Finding], rules: Mapping[str, Rule]
) -> frozenset[str]:
    """Findings beside the input, where threads or processes of its own prepare it too slowly."""
    beside = [f.id for f in found.values() if f.saving and _family(f, rules) != "input"]
    if not beside or facts.share("input_wait") < INPUT_LIMITS:
        return frozenset()
    work = find_batch_work(facts)
    return frozenset(beside if work is None or work.is_ahead else ())


def _family(finding: Finding, rules: Mapping[str, Rule]) -> str:
    rule = rules.get(finding.id)
    return rule.family if rule else ""
