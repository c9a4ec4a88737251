"""A function is traced or compiled again during training.

## What it means
`tf.function`, `torch.compile` and `jax.jit` compile a function for the arguments of its first call.
A call with another shape, type or Python value, or of a function that was created in the loop, does
not fit, so the function is compiled again.

## Why it costs
Compilation takes a hundred to a thousand times as long as a step, and nothing is trained meanwhile.
Each version also stays in memory. PyTorch gives up after a number of versions (8 by default), and
runs the function without compiling it from then on.

## How it is measured
stepwhy logs each compilation with its reason and the line that called the function. The cost is the
time of repeated compilations in steady steps, as a mean over all of these steps; the compilations
of the first steps do not count. If enough steps compile nothing, the cost is how much longer the
other steps are, since a new version is also slower at its first run. Where all versions are soon
compiled, later steps compile nothing, and the mean over the run is the smaller, the longer it is.
JAX compiles for fixed shapes only, so padding may make the rest of the step up to twice as long,
which the saving allows for. In the trace of another
profiler, the cost is the compile time of the mean step, if most of the recorded steps compile.

## Fix
Depends on what has changed. Shapes: pad to a few lengths, or compile for any length
(`input_signature`, `dynamic=True`). Python values: pass them as tensors. New functions: compile
once, before the loop.

## Fix risk
None. Padding must be masked in the loss.

## When it abstains
If the steps were not observed by `stepwhy run` and the trace records no framework code on the host.
`incomplete` if such a trace has fewer than three steps, and if the steps of an observed run
compile, but it was not recorded what. Does not apply to sessions of TensorFlow 1,
whose counterpart is `graph-growth`.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from stepwhy.analyse.steps.stalls import StepEvents, rows_of_kinds
from stepwhy.base.columns.groups import distinct
from stepwhy.base.columns.types import AnyRows, Mask
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import outermost
from stepwhy.diagnose.shared.program import uses_sessions
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule, saving
from stepwhy.diagnose.shared.steady_events import (
    SHOWN,
    by_lines,
    cost_per_step,
    recorded_calls,
    steady_events,
    summary,
)
from stepwhy.trace import NULL, Kind

RULE = Rule(
    __name__,
    name="Compiling again during training",
    found="Stop compiling the same function again",
    clear="No function is compiled again and again",
)

UNNAMED = 0.10  # of the step; less is not worth the question what was compiled
SHARE = 0.05  # of a recorded step; in a log, `StepEvents.recur` decides
FEWEST_STEPS = 3  # recorded steps; with fewer, compilation may be part of the start
MOST_STEPS = 0.5  # of the recorded steps; what most of them compile is not compiled once for all
_MOST_PADDED = 1.0  # of the rest of the step, which padded batches make longer
LIMIT = "recompile limit"
"""Name of the event at which `torch.compile` gives up a function, see `record.torch`."""


def diagnose(facts: Facts) -> Finding:
    """Judge what compiling again costs."""
    if "step-log" not in facts.trace.meta.signals:
        return _from_trace(facts)
    if uses_sessions(facts):
        return RULE.not_applicable("The steps of the run are runs of a session.")
    repeated = _repeated(facts)
    inside = steady_events(facts, repeated)
    if inside.recur:
        return _from_log(facts, inside)
    given_up = _events(facts)[_named(facts, _events(facts), LIMIT)]
    if len(given_up):
        return _from_limit(facts, given_up, repeated)
    evidence = summary(inside, "compile again", "compiling") if len(inside.rows) else ()
    if facts.share("compile") >= UNNAMED:
        return RULE.incomplete("compiled-functions", _UNNAMED, evidence)
    return RULE.nothing(evidence)


# Operations of `jax.lax` whose program depends on shapes or on a Python value. Each is compiled by
# itself where a program calls it outside of a jitted function.
_EAGER = regex(
    r"jit\((?:integer_pow|broadcast_in_dim|concatenate|convert_element_type|dot_general|"
    r"dynamic_(?:update_)?slice|gather|iota|multiply|pad|reduce_\w+|reshape|scatter\w*|select_n|"
    r"slice|squeeze|transpose)\)"
)


def _from_limit(facts: Facts, given_up: AnyRows, repeated: AnyRows) -> Finding:
    changes = _changes(facts, repeated)
    source = facts.trace.string(int(facts.trace.events.source[given_up[0]]))
    limit = Evidence("functions that are no longer compiled", len(given_up), "count", source)
    return RULE.finding(None, (limit, *changes), _fix(facts, _first_reason(changes)))


def _from_log(facts: Facts, inside: StepEvents) -> Finding:
    logged = cost_per_step(facts, inside)
    cost = min(max(logged, inside.with_first_runs_ns, facts.breakdown["compile"]), facts.wall_ns)
    changes = _changes(facts, inside.rows)
    evidence = (
        *summary(inside, "compile again", "compiling"),
        *_first_runs(inside),
        _last(facts, inside),
        *(changes or _places(facts, inside.rows)),
    )
    is_eager = not changes and _is_eager(facts, inside.rows)
    reason = _first_reason(changes)
    fix = RULE.fix("jax-eager") if is_eager else _fix(facts, reason)
    is_padded = facts.trace.meta.framework == "jax" and _SHAPE.search(reason)
    padding_ns = _MOST_PADDED * (facts.wall_ns - cost) if is_padded else 0
    gain = saving("remove recompilation", max(logged - padding_ns, 0), cost)
    return RULE.finding(cost, evidence, fix, gain, Edit("compile", "gone"))


def _last(facts: Facts, inside: StepEvents) -> Evidence:
    """The last step that compiles again: where it is early, few other versions are missing."""
    last = int(inside.steps[inside.affected][-1]) + 1
    return Evidence("last step that compiles again", last, "", f"of {len(facts.trace.marks):,}")


def _is_eager(facts: Facts, rows: AnyRows) -> bool:
    """Whether JAX mostly compiles operations that the program calls outside of jitted functions."""
    if facts.trace.meta.framework != "jax":
        return False
    dur_ns = facts.trace.events.dur_ns[rows]
    eager = facts.trace.matches(facts.trace.events.name[rows], _EAGER.fullmatch)
    return bool(2 * dur_ns[eager].sum() > dur_ns.sum())


def _first_runs(inside: StepEvents) -> tuple[Evidence, ...]:
    """How much longer such a step is, if the code that was compiled runs more slowly at first."""
    if inside.with_first_runs_ns <= inside.mean_ns:
        return ()
    longer = inside.with_first_runs_ns * len(inside.steps) / max(int(inside.affected.sum()), 1)
    return (Evidence("such a step is longer by, with first runs", round(longer), "ns"),)


def _events(facts: Facts) -> AnyRows:
    """Rows of the traces and compilations of the run."""
    return rows_of_kinds(facts.trace, "trace", "compile")


def _named(facts: Facts, rows: AnyRows, name: str) -> Mask:
    return np.isin(facts.trace.events.name[rows], facts.trace.strings_where([name]))


def _repeated(facts: Facts) -> AnyRows:
    """Those of the compilations that are not the first of their function at their line."""
    events, rows = facts.trace.events, _events(facts)
    rows = rows[~_named(facts, rows, LIMIT)]
    seen: Counter[tuple[int, int]] = Counter()
    is_repeated = []
    for row in rows.tolist():
        key = int(events.name[row]), int(events.source[row])
        is_repeated.append(seen[key] > 0 or events.count[row] > 1)
        seen[key] += 1
    repeated: AnyRows = rows[np.array(is_repeated, dtype=bool)]
    return repeated


def _changes(facts: Facts, rows: AnyRows) -> tuple[Evidence, ...]:
    """What has changed, per function and line: the latest reason, the longest compilation first."""
    events, text = facts.trace.events, facts.trace.string
    times: Counter[tuple[int, int]] = Counter()
    reasons: dict[tuple[int, int], str] = {}
    for row in rows.tolist():
        key = int(events.name[row]), int(events.source[row])
        times[key] += int(events.dur_ns[row])
        if events.reason[row] != NULL:
            reasons[key] = text(int(events.reason[row]))
    return tuple(
        Evidence(f"{text(name)} is compiled again for", reasons[name, source], "", text(source))
        for (name, source), _ in times.most_common()
        if (name, source) in reasons
    )[:SHOWN]


def _places(facts: Facts, rows: AnyRows) -> tuple[Evidence, ...]:
    """The lines at which functions are compiled again, of which no reason was recorded."""
    lines = [(line, time_ns) for line, time_ns in by_lines(facts.trace, rows) if line]
    return tuple(
        Evidence("compiling at the line, in all steps", time_ns, "ns", line)
        for line, time_ns in lines[:SHOWN]
    )


def _fix(facts: Facts, reason: str) -> Fix:
    return fix_for(facts.trace.meta.framework, reason)


_UNNAMED = "The steps compile, but which functions was not recorded."


def _first_reason(changes: tuple[Evidence, ...]) -> str:
    return str(changes[0].value) if changes else ""


def _from_trace(facts: Facts) -> Finding:
    """Judge the trace of another profiler by its steps that compile."""
    if "host-ops" not in facts.trace.meta.signals:
        return RULE.lacks("host-ops")
    starts = facts.steps.starts[facts.steps.steady]
    if len(starts) < FEWEST_STEPS or facts.steps.source == "whole-trace":
        return RULE.incomplete(
            "enough-steps",
            f"Fewer than {FEWEST_STEPS} steps were recorded: what they compile may belong to the "
            "start of the run.",
        )
    slices, rows = facts.trace.slices, facts.slices(Kind.COMPILE, steady=True)
    if not len(rows) or facts.share("compile") < SHARE:
        return RULE.nothing()
    compiling = len(distinct(np.searchsorted(starts, slices.start_ns[rows], side="right")))
    if compiling < MOST_STEPS * len(starts):
        return RULE.nothing()
    cost = facts.breakdown["compile"]
    evidence = (
        Evidence("recorded steps that compile", compiling, "count", f"of {len(starts):,}"),
        *recorded_calls(facts, rows[outermost(facts, Kind.COMPILE)[rows] == rows]),
    )
    return RULE.finding(
        cost, evidence, _fix(facts, ""), saving("remove compile", 0, cost), Edit("compile", "gone")
    )


_SHAPE = regex(r"shape |(?:size|rank|stride) mismatch")
_DTYPE = regex(r"dtype ")
_NEW_FUNCTION = regex(r"^a new ")


def fix_for(framework: str, reason: str) -> Fix:
    """What to do, by framework and by what has changed.

    Args:
        framework: As in the trace.
        reason: Why something was compiled again, '' if unknown.
    """
    if not reason or framework not in _FIXES:
        return RULE.fix("any")
    shape, value, function = _FIXES[framework]
    if _SHAPE.search(reason):
        return RULE.fix(shape)
    if _DTYPE.search(reason):
        return RULE.fix("one-type")
    return RULE.fix(function if _NEW_FUNCTION.search(reason) else value)


_FIXES = {
    "tensorflow": ("tf-shape", "tf-value", "tf-function"),
    "jax": ("jax-shape", "jax-value", "jax-function"),
    "pytorch": ("torch-shape", "torch-value", "torch-value"),
}
