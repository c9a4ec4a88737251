"""Converts the lines of a step log to observed steps."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from stepwhy.read.formats.run_directory.records import DAMAGED, Amount, Flag, Int, bounded
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.read.formats.run_directory.log_files import LogLines
    from stepwhy.trace import TraceBuilder

# Calls that are made fewer times than this are set-up, not training steps.
_FEWEST_RUNS = 3
# Runs with a smaller share of the time (polling a queue) are no steps, however frequent.
_LEAST_SHARE = 0.05
# Runs that are rarer than this, relative to the most frequent ones, are not part of every step,
# however long they are (a checkpoint every tenth step).
_LEAST_FREQUENCY = 0.5
# An update may take little beside what is computed for each example of a batch, one after another.
_LEAST_UPDATE = 0.01
# A longer step is a damaged record: the sum of 100,000 steps of a day still fits into 64 bits.
_LONGEST_STEP_NS = 24 * 3600 * 10**9
_GAP = "gap"
_DRAINED = "drained"
# After a line of such a kind, the training marks its steps; earlier versions wrote the second one.
_EXPLICIT = ("explicit", "told")
_OPTIMIZER = "torch-optimizer"
_IN_PART = 2  # in `marks.light`


class Line(msgspec.Struct, gc=False):
    """A step (kind 'step'), a `Session.run` ('run'), or a call of a compiled function ('call').

    After a line of kind 'explicit', the training marks its steps with `stepwhy.step()`. At that of
    kind 'drained', which follows the last call, the device had finished all of them.
    """

    kind: str
    start_ns: Int
    end_ns: Int
    profiled: Flag = 0
    signature: int = 0
    input_wait_ns: Amount | None = None
    cpu_ns: Amount | None = None
    compile_ns: Amount | None = None
    process_cpu_ns: Amount | None = None
    run_delay_ns: Amount | None = None
    optimizer_ns: Amount | None = None
    light: Flag = 0
    gap_cpu_ns: Amount | None = None
    fresh: Flag = 0
    update: Flag = 0
    fed: dict[str, Int] | None = None
    early: Flag = 0
    failed: Flag = 0
    ahead: Flag | None = None


class Steps(msgspec.Struct, frozen=True):
    """The records of a step log.

    Args:
        records: Its records; a record of kind 'gap' stands for dropped ones.
        torn: Number of lines that cannot be read.
    """

    records: list[Line]
    torn: Int


class _Mark(msgspec.Struct, gc=False):
    """A row of `marks`."""

    start_ns: Int
    dur_ns: Int
    profiled: Int
    light: Int
    input_wait_ns: Amount = NULL
    compile_ns: Amount = NULL
    cpu_ns: Amount = NULL
    graph_ns: Int = NULL
    process_cpu_ns: Amount = NULL
    run_delay_ns: Amount = NULL
    optimizer_ns: Amount = NULL
    drained: Int = NULL


def marks_of(records: Sequence[Line], builder: TraceBuilder) -> None:
    """Add the steps of a log to `marks`, without those of impossible length.

    Args:
        records: The records of the log.
        builder: Takes the rows.
    """
    if _explicit_from(records) is not None:
        marks = [_explicit_mark(step, runs) for step, runs in _explicit_steps(records)]
    else:
        # Calls outside of noted steps evaluate or predict: they count only without such steps.
        noted = [_noted(line) for line in records if line.kind == "step"]
        periods = _periods(records, "call")
        called = [
            _called(calls, after) for calls, after in periods + _last_period(records, periods)
        ]
        marks = called if called and len(noted) < _FEWEST_RUNS else noted
        marks += [_session_mark(runs, after) for runs, after in _periods(records, "run")]
        # Without a loop, a few runs are all there is.
        marks = marks or [_alone(run) for run in lone_runs(records)]
    marks = [mark for mark in marks if mark.dur_ns <= _LONGEST_STEP_NS]
    names = _Mark.__struct_fields__
    builder.rows_from("marks", {name: [getattr(m, name) for m in marks] for name in names})


def _last_period(
    records: Sequence[Line], periods: Sequence[tuple[list[Line], Line]]
) -> list[tuple[list[Line], Line]]:
    """The last step with its end, if the program then waited until the device had finished.

    It has one only if no other calls than usual follow: those of an evaluation belong to no step.
    """
    end = next((r for r in reversed(records) if r.kind == _DRAINED), None)
    if end is None or not periods:
        return []
    start_ns = periods[-1][1].start_ns
    rest = [r for r in records if r.start_ns >= start_ns and r.kind in {"call", _GAP}]
    is_usual = len(rest) <= max(len(calls) for calls, _ in periods)
    whole = is_usual and all(r.kind != _GAP for r in rest)
    return [(rest, msgspec.structs.replace(end, ahead=0))] if whole else []


def untimed_steps(records: Sequence[Line], observer: str) -> int:
    """Number of steps that the training took and that have no row in `marks`.

    An optimizer that steps ends a step, so the first step of a loop has no known start. A call of a
    compiled function, or of `Session.run`, begins a step, so the last one has no known end.

    Args:
        records: The records of the log.
        observer: What saw the steps, as in `process.json`.
    """
    if _explicit_from(records) is not None:
        return 0
    noted = [line for line in records if line.kind in {"step", _GAP}]
    calls = sum(line.kind == "step" for line in noted) < _FEWEST_RUNS
    untimed = int(_last_returned(records, "run")) + int(calls and _has_open_call(records))
    return untimed + (_stretches(noted) if observer == _OPTIMIZER else 0)


def _stretches(noted: Sequence[Line]) -> int:
    """Stretches in which each step begins where the one before it ended, or after a gap."""
    breaks = sum(
        _GAP not in {before.kind, step.kind} and step.start_ns != before.end_ns
        for before, step in pairwise(noted)
    )
    return breaks + bool(noted)


def _has_open_call(records: Sequence[Line]) -> bool:
    """Whether the last step, which a call began, has no known end."""
    ends = _last_period(records, _periods(records, "call"))
    return not ends and _last_returned(records, "call")


def _last_returned(records: Sequence[Line], kind: str) -> bool:
    """Whether the last record of the training signature is of a call that did not raise."""
    calls = sorted((r for r in records if r.kind == kind), key=lambda r: r.start_ns)
    anchor = training_signature(calls)
    last = next((call for call in reversed(calls) if call.signature == anchor), None)
    return last is not None and not last.failed


def _explicit_from(records: Sequence[Line]) -> int | None:
    """When the training started to mark its steps explicitly; None if it never did."""
    return min((r.start_ns for r in records if r.kind in _EXPLICIT), default=None)


def _explicit_steps(records: Sequence[Line]) -> list[tuple[Line, list[Line]]]:
    """The explicitly marked steps, each with the session runs that started in it."""
    begin_ns = _explicit_from(records) or 0
    runs = sorted((r for r in records if r.kind == "run"), key=lambda r: r.start_ns)
    starts = [run.start_ns for run in runs]
    return [
        (step, runs[bisect_left(starts, step.start_ns) : bisect_left(starts, step.end_ns)])
        for step in records
        if step.kind == "step" and step.start_ns >= begin_ns
    ]


def _explicit_mark(step: Line, runs: Sequence[Line]) -> _Mark:
    """The row of an explicitly marked step and the runs in it."""
    mark = _noted(step)
    if runs:
        mark.graph_ns = _inside_ns(runs, mark.dur_ns)
        mark.profiled = int(any(part.profiled for part in (step, *runs)))
        mark.light = _light((step, *runs))
    return mark


def _session_mark(runs: Sequence[Line], after: Line) -> _Mark:
    """The row of a step from its runs of a session and the run after it.

    The later of two runs holds the CPU time between them, and the first run of the next step that
    of the process.
    """
    used = [run.cpu_ns for run in runs] + [run.gap_cpu_ns for run in (*runs[1:], after)]
    known = [cpu_ns for cpu_ns in used if cpu_ns is not None]
    dur_ns = max(after.start_ns - runs[0].start_ns, 0)
    return _Mark(
        runs[0].start_ns,
        dur_ns,
        int(any(run.profiled for run in runs)),
        _light(runs),
        cpu_ns=bounded(sum(known)) if len(known) == len(used) else NULL,
        graph_ns=_inside_ns(runs, dur_ns),
        process_cpu_ns=_known(after.process_cpu_ns),
        run_delay_ns=_known(after.run_delay_ns),
    )


def lone_runs(records: Sequence[Line]) -> list[Line]:
    """The runs of a session that ran too few times for a loop; empty if there is one.

    Of several kinds of runs the most frequent one, and of those the last: variables are initialised
    before.

    Args:
        records: The records of a log.
    """
    runs = [r for r in records if r.kind == "run" and not r.failed]
    if not runs or training_signature(runs) is not None:
        return []
    counts = Counter(run.signature for run in reversed(runs))
    kind = counts.most_common(1)[0][0]
    return [run for run in runs if run.signature == kind]


def _alone(run: Line) -> _Mark:
    """The row of a run that is no part of a loop."""
    dur_ns = max(run.end_ns - run.start_ns, 0)
    cpu_ns = _known(run.cpu_ns)
    return _Mark(run.start_ns, dur_ns, run.profiled, _light([run]), cpu_ns=cpu_ns, graph_ns=dur_ns)


def _noted(line: Line) -> _Mark:
    """The row of a step with a line of its own."""
    return _Mark(
        line.start_ns,
        max(line.end_ns - line.start_ns, 0),
        line.profiled,
        line.light,
        input_wait_ns=_known(line.input_wait_ns),
        compile_ns=_known(line.compile_ns),
        cpu_ns=_known(line.cpu_ns),
        process_cpu_ns=_known(line.process_cpu_ns),
        run_delay_ns=_known(line.run_delay_ns),
        optimizer_ns=_known(line.optimizer_ns),
    )


def _called(calls: Sequence[Line], after: Line) -> _Mark:
    """The row of a step from its calls and the call after it.

    A call's input wait lies before it, so that the first one's belongs to the step before; and so
    does the CPU time that it notes, which is that since the last call that marks a step.
    """
    waited = (*calls[1:], after)
    waits = [c.input_wait_ns for c in waited if c.input_wait_ns is not None]
    if any(c.light for c in waited):
        waits = []  # a part of the waiting was not recorded
    compiled = [c.compile_ns for c in calls if c.compile_ns is not None]
    return _Mark(
        calls[0].start_ns,
        max(after.start_ns - calls[0].start_ns, 0),
        int(any(call.profiled for call in calls)),
        _light(calls) if after.kind != _DRAINED else _IN_PART,
        input_wait_ns=bounded(sum(waits)) if waits else NULL,
        compile_ns=bounded(sum(compiled)) if compiled else NULL,
        cpu_ns=_known(after.cpu_ns),
        process_cpu_ns=_known(after.process_cpu_ns),
        run_delay_ns=_known(after.run_delay_ns),
        drained=NULL if after.ahead is None else 1 - after.ahead,
    )


def _inside_ns(runs: Sequence[Line], step_ns: int) -> int:
    """Time that the driving thread spent inside the runs of a step, at most the step itself, ns."""
    return min(sum(max(run.end_ns - run.start_ns, 0) for run in runs), step_ns)


def _light(parts: Sequence[Line]) -> int:
    """Whether a step was only timed: 0 no, 1 yes, 2 in part."""
    if all(part.light for part in parts):
        return 1
    return _IN_PART if any(part.light for part in parts) else 0


def _known(value: int | None) -> int:
    """A column's value."""
    return NULL if value is None else value


def read_steps(log: LogLines) -> Steps:
    """The records of a log.

    Args:
        log: Its lines.
    """
    decode = msgspec.json.Decoder(Line).decode
    starts = {gap.index for gap in log.gaps}
    records: list[Line] = []
    torn = 0
    for index, line in enumerate(log.lines):
        if index in starts and records:
            end_ns = records[-1].end_ns
            records.append(Line(_GAP, end_ns, end_ns))
        try:
            records.append(decode(line))
        except DAMAGED:
            torn += 1
    return Steps(records, torn)


def session_steps(records: Sequence[Line]) -> list[tuple[list[Line], int]]:
    """The `Session.run`s of every step in order, and when the step ends.

    Without explicit marks, a step lasts from one run of the training fetches to the next. Runs of
    other fetches (metrics, summaries, queue sizes) and the Python between runs belong to the
    preceding step.

    Args:
        records: The records of a log.
    """
    if _explicit_from(records) is not None:
        return [(runs, step.end_ns) for step, runs in _explicit_steps(records) if runs]
    periods = [(runs, after.start_ns) for runs, after in _periods(records, "run")]
    return periods or [([run], run.end_ns) for run in lone_runs(records)]


def _periods(records: Sequence[Line], kind: str) -> list[tuple[list[Line], Line]]:
    """The records from each one of the training signature to the next, and that next record."""
    runs = sorted((r for r in records if r.kind in (kind, _GAP)), key=lambda r: r.start_ns)
    anchor = training_signature([r for r in runs if r.kind == kind])
    starts = [i for i, run in enumerate(runs) if run.signature == anchor and run.kind == kind]
    periods = [(runs[i:after], runs[after]) for i, after in pairwise(starts)]
    gaps = any(run.kind == _GAP for run in runs)
    return [p for p in periods if all(r.kind != _GAP for r in p[0])] if gaps else periods


def training_signature(runs: Sequence[Line]) -> int | None:
    """The training fetches: those that take longest of the ones that run in every step.

    Runs that update come before those that only compute, which a step may do for each example.

    If several qualify, the ones with which the observer started its traced steps.
    """
    time: Counter[int] = Counter()
    count: Counter[int] = Counter()
    for run in runs:
        time[run.signature] += run.end_ns - run.start_ns
        count[run.signature] += 1
    least = _LEAST_SHARE * time.total()
    repeated = {s: n for s, n in count.items() if n >= _FEWEST_RUNS and time[s] >= least}
    updates = {run.signature for run in runs if run.update}
    least = _LEAST_UPDATE * time.total()
    updates = {s for s in updates if count[s] >= _FEWEST_RUNS and time[s] >= least}
    repeated = {s: count[s] for s in updates} or repeated
    most = max(repeated.values(), default=0)
    frequent = [s for s, n in repeated.items() if n >= _LEAST_FREQUENCY * most]
    opened = Counter(b.signature for a, b in pairwise(runs) if b.profiled and not a.profiled)
    return max(frequent, key=lambda s: (opened[s], time[s]), default=None)
