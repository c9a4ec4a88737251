"""The wall time of a step contains time that the trace does not explain.

## What it means
For part of the step, neither device work nor any activity of the host was recorded: a timeline
looks fast, the wall clock does not.

## Why it costs
The training takes wall time, whether or not a timeline shows it: Python without a profiler,
sleeping, reading and writing, or another process on the same cores.

## How it is measured
It is the 'unexplained' part of the breakdown of the steady steps. Time that is explained by waiting
for input, launching or synchronisation does not count. If one silence of the host takes most of
the unexplained time, it is named with the operation that ends it.

The finding has a cost if the record tells where that time is: one such silence, a part of a run
beside its operations, a line at which the driving thread is for a fifth of its stack samples, or
lines that most of it falls to by the breakdown by line, calls of compiled functions aside. Else it
comes last, without a cost: nothing is known that could be gained.

A step of `Session.run` calls is divided to the nanosecond into Python between two runs, preparation
of the graph, time before the first operation, operations (overlapping ones count once), time
between two operations, time after the last one, and what remains. Traced runs show the shares,
untraced runs the total time. The cost of tracing is separate: after its last operation, a traced
run writes its trace, which takes longer than the same part of an untraced run. If the rest of a
traced run is slower, its parts are scaled down; if it is much faster, the difference is time
without evidence, and so is time between two runs in which the driving thread neither ran nor waited
for a CPU core.

Long times before and after the operations of `Session.run` are reported by `session-overhead`.

## Fix
Record what is missing: Python stacks, or the time of each part of the loop.

## Fix risk
None.

## When it abstains
When device time was not recorded at all: then nothing explains any of the step. When `Session.run`
spends that time around its operations, which other checks judge.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.analyse.program.session_parts import find_session_parts
from stepwhy.analyse.steps.sampled_lines import place_of, python_lines
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.columns.types import Ints
from stepwhy.diagnose.shared.program import is_pytorch, on_gpu, uses_sessions
from stepwhy.diagnose.shared.recording import is_of_nsight, record_later
from stepwhy.diagnose.shared.rule import Evidence, Facts, Finding, Fix, Rule
from stepwhy.diagnose.shared.session_evidence import feed_less, is_overhead, session_evidence
from stepwhy.trace import Kind, SampleRole

RULE = Rule(
    __name__,
    name="Wall time without a record",
    found="Record what the step does: part of its wall time has no explanation",
    clear="The record accounts for the wall time of the step",
    needs=(("device-time",), ("steps",)),
)

LONGEST_SILENCE = "longest time without any record of the host"
_HOST = (Kind.OP, Kind.FRAMEWORK, Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC, Kind.INPUT, Kind.COMPILE)
_FEWEST = 10  # slices of the host; among fewer, any gap may be the longest
_MOSTLY = 0.5  # of the unexplained time; shorter silences are no single cause
_PARTS = frozenset(
    {
        "before the first operation of Session.run",
        "after the last operation of Session.run",
        "longer gaps between two operations",
        "Python between two runs",
    }
)
_AROUND = (
    "Session.run spends the time before its first and after its last operation; other checks judge "
    "what it feeds, fetches and schedules there."
)
_NOT_TOLD = "Part of the step has no explanation: nothing recorded tells what it is"
_AT_LINES = "Look at these lines: what they do leaves no record"
_AT_LINE = "time without a record at"
_SHOWN = 3
_LEAST = 0.05  # of the unexplained time
SHARE = 0.20  # of the step; profilers always miss something, a fifth is more than that


def diagnose(facts: Facts) -> Finding:
    """Judge the part of the step that nothing explains."""
    parts = find_session_parts(facts)
    if parts is None:
        share, *whole = _unexplained(facts)
        parts_of_it = (*_at_lines(facts), *whole, *_silence(facts), *_around(facts))
        return _judge(facts, (share, *parts_of_it, *_unprofiled(facts)))
    evidence = session_evidence(facts, parts)
    if facts.share("unexplained") >= SHARE and is_overhead(facts, parts):
        # Feeding, fetching and scheduling explain it, though no record shows what they do.
        return replace(RULE.not_applicable(_AROUND), evidence=evidence)
    return _judge(facts, evidence)


def _judge(facts: Facts, evidence: tuple[Evidence, ...]) -> Finding:
    if facts.share("unexplained") < SHARE:
        return RULE.nothing(evidence)
    is_silence = any(fact.what == LONGEST_SILENCE for fact in evidence)
    is_one_pass = is_silence and facts.steps.source == "whole-trace" and is_pytorch(facts)
    fix = _later_fix(facts) if is_one_pass else _fix(facts)
    # A gap, a part of the run or a line tells where the time is.
    unexplained_ns = facts.breakdown["unexplained"]
    at_lines_ns = sum(int(e.value) for e in evidence if e.what == _AT_LINE)
    if at_lines_ns >= _MOSTLY * unexplained_ns:
        return RULE.finding(unexplained_ns, evidence, fix, title=_AT_LINES)
    places = [e for e in evidence if e.what == LONGEST_SILENCE or e.what in _PARTS]
    named_ns = sum(int(e.value) for e in places)
    if not _lines(facts) and named_ns < _MOSTLY * unexplained_ns:
        return RULE.finding(None, evidence, fix, title=_NOT_TOLD)
    return RULE.finding(unexplained_ns, evidence, fix)


def _at_lines(facts: Facts) -> tuple[Evidence, ...]:
    """The lines of the program that the time without a record falls to, the longest first."""
    lines = facts.derived(line_breakdown) if facts.share("unexplained") >= SHARE else None
    rows = () if lines is None else (row for row in lines.lines if row.kind == "line")
    trace = facts.trace
    # What surrounds a compiled function is the framework's work, which its trace does not show.
    calls = {trace.string(int(trace.events.source[row])) for row in rows_of_kinds(trace, "trace")}
    times = Counter(
        {row.line: row.categories.get("unexplained", 0) for row in rows if row.line not in calls}
    )
    return tuple(
        Evidence(_AT_LINE, ns, "ns", line)
        for line, ns in times.most_common(_SHOWN)
        if ns >= _LEAST * facts.breakdown["unexplained"]
    )


def _unexplained(facts: Facts) -> tuple[Evidence, ...]:
    busy = sum(facts.breakdown[c] for c in ("compute", "communication", "transfer"))
    return (
        Evidence("share of the step without evidence", facts.share("unexplained"), "fraction"),
        Evidence("wall time of the step", facts.wall_ns, "ns"),
        Evidence("time in which a device works", busy, "ns"),
    )


def _silence(facts: Facts) -> list[Evidence]:
    """The longest time without any record of the host, and the operation that ends it."""
    if facts.share("unexplained") < SHARE:
        return []
    rows = np.flatnonzero(facts.trace.is_kind(*_HOST) & facts.is_steady)
    if len(rows) < _FEWEST:
        return []
    starts, ends = facts.trace.slices.start_ns[rows], facts.trace.ends(rows)
    gaps = starts[1:] - np.maximum.accumulate(ends)[:-1]
    longest = int(np.argmax(gaps))
    if gaps[longest] < _MOSTLY * facts.breakdown["unexplained"]:
        return []
    name = facts.trace.string(int(facts.trace.slices.name[rows[longest + 1]]))
    return [Evidence(LONGEST_SILENCE, int(gaps[longest]), "ns", f"before {name}")]


def _around(facts: Facts) -> list[Evidence]:
    """Time before the first and after the last operation of `Session.run`."""
    trace, steps = facts.trace, facts.steps
    if trace.meta.framework != "tensorflow" or steps.source != "marker":
        return []
    if len(trace.marks) and not uses_sessions(facts):
        return []
    starts, ends = steps.starts[steps.steady], steps.ends[steps.steady]
    first, last = ends.copy(), starts.copy()
    rows = _operations(facts)
    if not len(rows):
        return []
    step = np.searchsorted(starts, trace.slices.start_ns[rows], side="right") - 1
    np.minimum.at(first, step, trace.slices.start_ns[rows])
    np.maximum.at(last, step, trace.ends(rows))
    has_any = np.bincount(step, minlength=len(starts)) > 0
    before = sum((first - starts)[has_any].tolist())
    after = sum(np.maximum(ends - last, 0)[has_any].tolist())
    return [
        Evidence("before the first operation of Session.run", facts.mean_ns(before), "ns"),
        Evidence("after the last operation of Session.run", facts.mean_ns(after), "ns"),
    ]


def _operations(facts: Facts) -> Ints:
    """Operations, waits, input and device work in the steady steps; rows of slices."""
    runs = facts.trace.is_kind(Kind.OP, Kind.WAIT, Kind.INPUT)
    for activity in facts.activities:
        runs[activity.rows] = True
    return np.flatnonzero(runs & facts.is_steady)


def _unprofiled(facts: Facts) -> list[Evidence]:
    """Time without a profiler and relative cost of profiling, if such steps were observed."""
    if facts.observed is None:
        return []
    found = [Evidence("median step without a profiler", facts.observed.wall_ns, "ns")]
    if facts.observed.profiler_cost is not None:
        cost = facts.observed.profiler_cost
        found.append(Evidence("relative cost of profiling a step", cost, "fraction"))
    return found


def _fix(facts: Facts) -> Fix:
    if facts.observed is not None:
        return _observed_fix(facts)
    if is_of_nsight(facts):
        return RULE.fix("nsight")
    framework = facts.trace.meta.framework
    if framework == "pytorch":
        return RULE.fix("pytorch-gpu" if on_gpu(facts) else "pytorch")
    return feed_less() if framework == "tensorflow" else RULE.fix("any")


def _later_fix(facts: Facts) -> Fix:
    if not is_of_nsight(facts):
        return RULE.fix("later")
    later = record_later(facts, RULE.fix("later"))
    return replace(later, text=f"{_SILENCE} {later.text}")


def _observed_fix(facts: Facts) -> Fix:
    """Fix for a run of `stepwhy run`, which already traced what it can: the hottest source line."""
    lines = [one.where for one in _at_lines(facts)] or _lines(facts)
    if not lines:
        return RULE.fix("observed", where="Look at what the loop does there.")
    called = _called(facts, lines[0])
    often = f", which stack samples mostly find in {called}" if called else ""
    return RULE.fix("observed", where=f"Start at {lines[0]}{often}.")


def _called(facts: Facts, line: str) -> str:
    """What a line is mostly in, by its stack samples: 'Layer.get_weights of keras'; else ''."""
    trace, samples = facts.sampled, facts.sampled.samples
    counts: Counter[str] = Counter()
    for row in np.flatnonzero(samples.role == SampleRole.DRIVER).tolist():
        if place_of(trace.string(int(samples.line[row]))) == place_of(line):
            counts[trace.string(int(samples.called[row]))] += int(samples.count[row])
    package, _, name = (counts.most_common(1) or [("", 0)])[0][0].partition(": ")
    is_most = counts[f"{package}: {name}"] > _MOSTLY * counts.total()
    return f"{name} of {package}" if name and is_most else ""


def _lines(facts: Facts) -> list[str]:
    """Lines at which the driving thread is outside of the framework for a fifth of its samples."""
    return [line for line, share in python_lines(facts.sampled) if share >= SHARE]


_SILENCE = (
    "One silence takes most of it. In a first pass, that is work that later ones do not repeat, "
    "such as loading a library or compiling the operation after it."
)
