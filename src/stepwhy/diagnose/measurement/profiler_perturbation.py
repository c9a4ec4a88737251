"""Profiling makes the steps that it records much slower.

## What it means
A profiler notes each operation, and on request also its shapes, its memory and the Python stack.
Where operations are short, this takes longer than they do.

## Why it costs
A profiler that stays on slows the whole training down. One that is on in some steps makes them
untypical: the division of their time shows what the profiler costs, not what the training does.

## How it is measured
If the training's own PyTorch profiler ran in some of the observed steps, or if the program traced
some calls of a TensorFlow 1 `Session.run`, the time of these steps beyond the median of the others
counts. It includes the time to write the record. The cost is its share of the time of all steps,
applied to the described step. If each run of a session is traced, no step without tracing is there
to compare: then the time after the last operation counts, in which the record is copied. Of the
steps that stepwhy traced itself, the median is compared with that of all others. What tracing adds
to them is no problem of the program: if they take three times as long, a note says that their
breakdown no longer holds for the others.

Steps that wait for a CPU core are slow without a profiler, too. Where other programs used the
cores, the CPU times of the steps are compared instead of their wall times.

## Fix
Record a few steps, once, and only what is needed.

## Fix risk
None.

## When it abstains
If the steps were not observed by `stepwhy run`: a trace has no steps without its profiler.
`incomplete` if fewer than eight steps ran with, or without, the training's own profiler, unless
each run of a session was traced, if the step times vary too much to say whether tracing adds to
them, and if other programs used the CPU cores while stepwhy traced steps.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.program.session_parts import SessionParts, find_session_parts
from stepwhy.analyse.steps.cores import CONTENDED
from stepwhy.analyse.steps.overhead import is_untypical, ratio_of_medians
from stepwhy.analyse.steps.stalls import rows_of_kinds, time_of
from stepwhy.analyse.steps.step_search import count_warm_up
from stepwhy.base.columns.types import AnyRows, Ints, Mask
from stepwhy.base.units import format_count
from stepwhy.diagnose.shared.program import uses_sessions
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.trace import NULL

RULE = Rule(
    __name__,
    name="Steps that profiling slows down",
    found="Profile fewer steps, or less of them: profiling slows them down",
    clear="Profiling changes the steps little",
    least_share=0.05,  # of the step; less is not worth a change
    least_saved=0.5,  # of the cost; a few steps are still recorded
    change="profile a few steps",
    edit=Edit("profiler", "gone"),
)

FEWEST_STEPS = 8  # with the training's own profiler, and without; fewer have no reliable median
LITTLE = 0.2  # of a step; what two runs of the same program may differ by
MOSTLY = 0.9  # of the steps run with the training's own profiler: it is left on
LEAST_AFTER = 0.7  # of the time after the last operation; fetched values are copied then, too
MOST_OF_TRACED = 0.8  # of a traced step; a graph of ten thousand short operations came close to it
MOST_LOGGED = 200  # runs of a session that are logged as traced; later steps are not judged


def diagnose(facts: Facts) -> Finding:
    """Judge what profiling adds to the steps."""
    observed = facts.observed
    if observed is None:
        return RULE.no_data(
            "profiled-steps", "Only 'stepwhy run' observes steps with and without a profiler."
        )
    own = rows_of_kinds(facts.trace, "profiler")
    if len(own):
        return _from_own(facts, own)
    cost, interval = observed.profiler_cost, observed.profiler_cost_interval
    if cost is None or interval is None:
        return RULE.incomplete("profiled-steps", _CONTENDED if observed.is_contended else _NONE)
    added = Evidence("relative cost of profiling a step", cost, "fraction")
    if not is_untypical(cost, interval):
        return _typical(interval, added)
    evidence = (added, Evidence("step without profiling", observed.without_stalls_ns, "ns"))
    return replace(RULE.nothing(evidence), title=_SLOWER)


def _typical(interval: tuple[float, float], added: Evidence) -> Finding:
    """Traced steps that still show what the others do, with how sure it is that they are alike."""
    if interval[1] <= LITTLE:
        return RULE.nothing((added,))
    if interval[0] <= 0:
        return RULE.incomplete("profiled-steps", _UNSURE, (added,))
    return replace(RULE.nothing((added,)), title=_SLOWER)


def _from_own(facts: Facts, own: AnyRows) -> Finding:
    """Compare the steps with and without the training's own profiler."""
    is_contended = any((r.contention or 0.0) >= CONTENDED for r in facts.regimes.all)
    durations, recorded = _steps(facts, own, on_cores=is_contended)
    inside, outside = durations[recorded], durations[~recorded]
    parts = find_session_parts(facts)
    if parts is not None and len(inside) >= max(FEWEST_STEPS, MOSTLY * len(durations)):
        return _of_each_run(facts, own, parts, len(inside), len(durations))
    if min(len(inside), len(outside)) < FEWEST_STEPS:
        return RULE.incomplete("profiled-steps", _FEW)
    ratio, (low, _) = ratio_of_medians(inside, outside)
    # The mean includes the steps in which a record is written.
    longer = max(float(inside.mean() - np.median(outside)), 0.0)
    share = longer * len(inside) / max(int(durations.sum()), 1)
    cost = round(share * facts.wall_ns)
    evidence = (
        Evidence("relative cost of profiling a step", ratio, "fraction"),
        Evidence("share of the time of all steps", share, "fraction"),
        *_about(facts, own, len(inside), len(durations)),
        *((Evidence("compared times", "CPU time", ""),) if is_contended else ()),
        Evidence("median step with the profiler", round(float(np.median(inside))), "ns"),
        Evidence("mean step with the profiler", round(float(inside.mean())), "ns"),
        Evidence("median step without it", round(float(np.median(outside))), "ns"),
    )
    if low <= 0 or cost < RULE.least_share * facts.wall_ns:
        return replace(RULE.nothing(evidence), title=_RARE)
    return RULE.finding(cost, evidence, RULE.fix("session" if uses_sessions(facts) else "own"))


def _of_each_run(
    facts: Facts, own: AnyRows, parts: SessionParts, inside: int, steps: int
) -> Finding:
    """Judge a session whose runs are all traced: after its operations, each copies the record."""
    after_ns = parts.after_ns
    evidence = (
        *_about(facts, own, inside, steps),
        Evidence("after the last operation of Session.run", after_ns, "ns"),
        Evidence("median step without it", "not observed", ""),
    )
    if after_ns < RULE.least_share * facts.wall_ns:
        return RULE.incomplete("profiled-steps", _FEW, evidence)
    gain = saving("trace few runs", LEAST_AFTER * after_ns, MOST_OF_TRACED * facts.wall_ns)
    gain = replace(gain, note=_SLOWER_OPERATIONS)
    return RULE.finding(after_ns, evidence, RULE.fix("session"), gain, title=_EACH_RUN)


def _steps(facts: Facts, own: AnyRows, *, on_cores: bool) -> tuple[Ints, Mask]:
    """Times of the steps that stepwhy did not trace, and which the own profiler recorded.

    Args:
        facts: Facts of the run.
        own: Rows of the events of the own profiler.
        on_cores: Whether to return CPU times, and only the steps of which they are known.
    """
    marks = facts.trace.marks
    rows = np.flatnonzero(marks.profiled == 0)
    if len(own) >= MOST_LOGGED:
        rows = rows[marks.start_ns[rows] <= facts.trace.events.start_ns[own[-1]]]
    rows = rows[count_warm_up(marks.dur_ns[rows]) :]
    starts, durations = marks.start_ns[rows], marks.dur_ns[rows]
    recorded = time_of(facts.trace, own).within(starts, starts + durations) > 0
    if not on_cores:
        return durations, recorded
    used = marks.process_cpu_ns[rows]
    return used[used != NULL], recorded[used != NULL]


def _about(facts: Facts, own: AnyRows, inside: int, steps: int) -> tuple[Evidence, ...]:
    """How many steps are recorded, from which line on, and what is recorded of them."""
    events, text = facts.trace.events, facts.trace.string
    line = text(int(events.source[own[0]]))
    options = text(int(events.reason[own[0]])) if events.reason[own[0]] != NULL else ""
    counted = Evidence("steps with the profiler", inside, "count", f"of {format_count(steps)}")
    name = text(int(events.name[own[0]]))
    runs = Evidence(f"runs of {name}{f' ({options})' if options else ''}", len(own), "count", line)
    return counted, runs


_EACH_RUN = "Trace few runs of the session: each of them records all of its operations"
_SLOWER_OPERATIONS = "Tracing also slows each operation down, which is part of the gain."
_SLOWER = "Profiling slows down the traced steps; the step time is that of the others"
_RARE = "The training's own profiler takes little of the training time"
_UNSURE = "The step times vary too much to say what profiling adds."
_FEW = f"Fewer than {FEWEST_STEPS} steps ran with, or without, the training's own profiler."
_NONE = "Too few steps were traced to compare them with the others."
_CONTENDED = "Other programs used the CPU cores, which makes some steps longer than others, too."
