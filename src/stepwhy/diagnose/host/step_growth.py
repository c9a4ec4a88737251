"""Each step takes longer than the one before, because state accumulates.

## What it means
The training does the same work in each step, but step times rise over the run: each step registers
its hooks again, iterates over a list of everything seen so far, or runs one more callback. Or they
rise within each epoch, and what accumulates is dropped when the next one begins: each step computes
a metric over all predictions of the epoch.

## Why it costs
Step time grows with the number of steps, so the total time grows with its square. The additional
work is not needed: the first steps did without it.

## How it is measured
The unprofiled steps of the whole run are divided into `BLOCKS` parts, and the median step time of
each part is compared with that of each later part. It must rise in all but two of these pairs, by
at least `LEAST_RISE` over the run, neither in a single jump nor levelling off. If other programs
compete for the cores, the CPU time of the driving thread must rise as well, or the cause must be
known; otherwise the machine may just have become slower. The cost is the step time of the report
less that of the first part.

Where the run as a whole does not rise, its epochs are judged, if the log shows two or more of at
least `FEWEST_STEPS` steps: by the restarts of the training's loader, or by the pauses of Keras'
`fit`. The parts are then those of the epochs, and the step time must rise in this way over the
parts of all epochs together, and in most epochs alone, there also in jumps.

Stack samples from early and late in the run, or in its epochs, show the line whose time per step
grows. In PyTorch, `stepwhy run` also counts the hooks on the modules, parameters and optimizer of a
step, and once it has found some, notes which lines register more of them; in Keras, it counts the
callbacks of `fit`. Many hooks with the same code on one object, or a number of them that rises, are
reported even without stack samples. If no line is known to grow, the longest line of the recorded
steps is named, if it can hold most of the growth.

## Fix
Register hooks and callbacks once, before the loop, or remove their handles. Keep running sums, or
a history of limited length, in place of a list that each step walks. Compute a metric of the epoch
once, at its end.

## Fix risk
None for hooks that only observe, and for metrics of an epoch. Hooks that change gradients were
applied several times; applied once, they change the training. A statistic over a limited history
differs from one over all of it.

## When it abstains
Without a log of the steps. `incomplete` with fewer than `FEWEST_STEPS` steps, or if other programs
use the cores. If neither a line nor a hook is known, a rise below `SURE_RISE` is `incomplete` as
well, because a processor that lowers its clock looks the same. A curriculum that makes sequences
longer on purpose is reported, too, and so are epochs whose data are sorted by length; the line is
then one of the model.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.analyse.lines.extra_lines import growing_line, sampled_ends
from stepwhy.analyse.steps.contention import contention
from stepwhy.analyse.steps.cores import CONTENDED
from stepwhy.analyse.steps.epochs import training_epochs
from stepwhy.analyse.steps.sampled_lines import function_of
from stepwhy.analyse.steps.step_search import count_warm_up
from stepwhy.base.columns.types import Floats, Times
from stepwhy.diagnose.shared.rule import SHARE_OF_TRAINING, Evidence, Facts, Finding, Rule, saving
from stepwhy.trace import NULL

RULE = Rule(
    __name__,
    name="Steps that become slower and slower",
    found="Find what accumulates: steps become slower and slower",
    clear="Steps do not become slower in the course of the run",
    needs=(("step-log",),),
)

BLOCKS = 8  # parts of the run, or of its epochs
FEWEST_EPOCHS = 2  # one alone is a part of the run
AT_ENDS = 3  # of them count as the beginning, and as the end, of an epoch
MOST_EPOCHS = 0.5  # rise alone; in a single one, the machine may have been busy
FEWEST_STEPS = 64  # eight per part, so that no median is a single step
INVERTED = 2  # pairs of parts that may fall; eight random ones do so in 1 of 1000 runs
LEAST_RISE = 1.2  # of the last part by the first; less may be caches or a warm processor
SURE_RISE = 1.5  # from here on it cannot be a processor that lowers its clock
LEAP = 0.5  # of the rise between two parts next to each other: then the level has changed
LEVELLING = 0.2  # of the rise in the first half; a cache that fills up grows less and less
FEWEST_KNOWN = 3  # steps of a part whose CPU time is known: light steps do not read it
OWN = 0.5  # of the relative rise is one of the driving thread's CPU time: it does more
MAIN = 0.5  # of the growth; a line with less of it is not its cause, unless it is new
MANY = 12  # hooks with the same code on one object; libraries use one or two
LEAST_SHARE = 0.05  # of the step
LEAST_SAVED = 0.5  # of the cost; what is kept still has to be updated
HOOKS = "hooks"
"""Kind of the events that count hooks and callbacks."""


class _Course(NamedTuple):
    """How the step time changes in the course of the run, or of its epochs.

    Args:
        of: What is divided into parts: 'the run' or 'an epoch'.
        blocks: Rows of `marks` of each part.
        medians: Median step time of each part, ns; (parts,).
        cpu: The same of the CPU time of the driving thread; NaN where it is not known.
    """

    of: str
    blocks: list[Times]
    medians: Floats
    cpu: Floats

    @property
    def ends(self) -> tuple[Evidence, ...]:
        """Step time at both ends."""
        return (
            Evidence(f"median step at the beginning of {self.of}", round(self.medians[0]), "ns"),
            Evidence(f"median step at the end of {self.of}", round(self.medians[-1]), "ns"),
        )

    @property
    def growth(self) -> float:
        """The last step time by the first."""
        return float(self.medians[-1] / self.medians[0])

    def is_rising(self, is_contended: bool, *, may_leap: bool = False) -> bool:
        """Whether steps become slower and slower.

        Args:
            is_contended: Whether the process waited for cores.
            may_leap: See `rises`.
        """
        # Waits for cores hide a trend of the wall time, but hardly one of the CPU time.
        return any(
            rises(medians, may_leap=may_leap)
            for medians in (self.medians, *([self.cpu] if is_contended else []))
        )


def diagnose(facts: Facts) -> Finding:
    """Judge whether steps become slower because state accumulates."""
    trace = facts.trace
    rows = np.flatnonzero(trace.marks.profiled == 0)
    rows = rows[count_warm_up(trace.marks.dur_ns[rows]) :]
    hooks, grown = _hooks(facts)
    if len(rows) < FEWEST_STEPS:
        return _only_hooks(facts, hooks) or RULE.incomplete(
            "enough-steps", f"There are fewer than {FEWEST_STEPS} steady steps."
        )
    course, is_contended = _course(facts, _RUN, _split(rows)), _is_contended(facts, rows)
    if not course.is_rising(is_contended, may_leap=grown):
        within = _within_epochs(facts, rows, is_contended)
        if within is None and is_contended and course.growth >= SURE_RISE:
            return RULE.incomplete("quiet-machine", _CONTENDED, course.ends)
        if within is None:
            return _only_hooks(facts, hooks) or RULE.nothing(course.ends)
        if many := _only_hooks(facts, hooks):
            return many
        course, hooks, grown = within, (), False  # hooks stay when an epoch ends
    line = () if hooks and grown else _line(facts, course)
    medians, cpu = course.medians, course.cpu
    is_own = rises(cpu) and cpu[-1] / cpu[0] - 1 >= OWN * (course.growth - 1)
    if is_contended and not (hooks or line or is_own):
        return RULE.incomplete("quiet-machine", _CONTENDED, course.ends)
    if not (hooks or line) and course.growth < SURE_RISE:
        return RULE.incomplete("program-lines", _UNNAMED, course.ends)
    is_steady = rises(medians, may_leap=grown)
    first = medians[0] if is_steady else cpu[0] / max(cpu[-1], 1) * medians[-1]
    longest = () if hooks or line else _longest(facts, round(first.item()))
    evidence = (*hooks, *line, *course.ends, *longest)
    return _found(facts, course, round(first.item()), evidence)


def _course(facts: Facts, of: str, blocks: list[Times]) -> _Course:
    marks = facts.trace.marks
    return _Course(of, blocks, _medians(marks.dur_ns, blocks), _medians(marks.cpu_ns, blocks))


def _split(rows: Times) -> list[Times]:
    return np.array_split(rows, BLOCKS)


def _within_epochs(facts: Facts, rows: Times, is_contended: bool) -> _Course | None:
    """The course of epochs; None unless it rises in all of them together, and in most alone."""
    known = [
        (epoch, rows[(rows >= epoch.first) & (rows < epoch.end)])
        for epoch in training_epochs(facts.trace, FEWEST_STEPS)
    ]
    known = [each for each in known if len(each[1]) >= FEWEST_STEPS]
    if len(known) < FEWEST_EPOCHS:
        return None
    # What else happens in a single epoch may make a part of it longer.
    alone = [
        _course(facts, _EPOCH, _split(part)).is_rising(is_contended, may_leap=True)
        for _, part in known
    ]
    if sum(alone) <= MOST_EPOCHS * len(alone):
        return None
    # The last epoch may be cut off.
    longest = max(epoch.end - epoch.first for epoch, _ in known)
    part = np.concatenate([(rows - epoch.first) * BLOCKS // longest for epoch, rows in known])
    together = np.concatenate([rows for _, rows in known])
    course = _course(facts, _EPOCH, [together[part == number] for number in range(BLOCKS)])
    return course if course.is_rising(is_contended) else None


def _longest(facts: Facts, first_ns: int) -> tuple[Evidence, ...]:
    """The longest line of the recorded steps, if it can hold most of what has been added.

    Args:
        facts: Facts of the run.
        first_ns: What the first steps took.
    """
    lines = facts.derived(line_breakdown)
    row = next((row for row in lines.lines if row.kind == "line"), None) if lines else None
    if row is None or row.time_ns < MAIN * max(facts.wall_ns - first_ns, 1):
        return ()
    return (Evidence("the longest line, in which most of it may be", row.time_ns, "ns", row.line),)


def _found(facts: Facts, course: _Course, first_ns: int, evidence: tuple[Evidence, ...]) -> Finding:
    """The finding, where the first steps took `first_ns`."""
    durations = facts.trace.marks.dur_ns[np.concatenate(course.blocks)]
    share = float(np.maximum(durations - first_ns, 0).sum() / max(int(durations.sum()), 1))
    shown = (Evidence(SHARE_OF_TRAINING, share, "fraction"), *_to_change_first(evidence))
    name = next((n for n, start in _STARTS.items() if evidence[0].what.startswith(start)), "any")
    title, fix = _NAMED[name], RULE.fix(name)
    if course.of == _EPOCH:
        title, fix = _IN_EPOCHS[name], RULE.fix("epochs")
    # Where the described steps are among the first ones, it is what follows that is slower.
    cost = max(facts.wall_ns - first_ns, 0)
    if cost < LEAST_SHARE * facts.wall_ns:
        return RULE.finding(None, shown, fix, title=title)
    gain = saving(f"steps as short as the first ones of {course.of}", LEAST_SAVED * cost, cost)
    return RULE.finding(cost, shown, fix, gain, title=title)


def _medians(values: Times, blocks: list[Times]) -> Floats:
    """Median of the known values in each part; NaN where too few are known."""
    known = [values[block][values[block] != NULL] for block in blocks]
    return np.array([np.median(v) if len(v) >= FEWEST_KNOWN else np.nan for v in known])


def _is_contended(facts: Facts, rows: Times) -> bool:
    """Whether other programs kept the process waiting for cores."""
    starts, durations = facts.trace.marks.start_ns[rows], facts.trace.marks.dur_ns[rows]
    span_ns = int(starts[0]), int(starts[-1] + durations[-1])
    return (contention(facts.trace, span_ns) or 0.0) >= CONTENDED


def rises(medians: Floats, *, may_leap: bool = False) -> bool:
    """Whether the step time rises all the time, by steps of similar height.

    Args:
        medians: Medians of equal parts of the run, ns; (parts,).
        may_leap: Whether single leaps count, as where a leap is known to add a hook.
    """
    if np.isnan(medians).any():
        return False
    whole, half = medians[-1] - medians[0], len(medians) // 2
    falls = sum(a > b for a, b in combinations(medians.tolist(), 2))
    if falls > INVERTED or medians[-1] < LEAST_RISE * medians[0]:
        return False
    if may_leap:
        return True
    levels_off = medians[-1] - medians[half - 1] < LEVELLING * (medians[half - 1] - medians[0])
    return bool(not levels_off and np.diff(medians).max() <= LEAP * whole)


def _hooks(facts: Facts) -> tuple[tuple[Evidence, ...], bool]:
    """The hooks or callbacks that are registered again and again, and whether they were seen to."""
    events, text = facts.trace.events, facts.trace.string
    counts: dict[tuple[str, str], list[int]] = {}
    registering: dict[tuple[str, str], str] = {}
    for row in np.flatnonzero(np.isin(events.kind, facts.trace.strings_where({HOOKS}))).tolist():
        key = text(int(events.name[row])), text(int(events.source[row]))
        counts.setdefault(key, []).append(int(events.count[row]))
        if events.reason[row] != NULL:
            registering[key] = text(int(events.reason[row]))
    grown = {key: seen for key, seen in counts.items() if seen[-1] > seen[0]}
    found = max(grown.items() or counts.items(), key=lambda one: one[1][-1], default=None)
    if found is None or (not grown and found[1][-1] < MANY):
        return (), False
    (name, source), seen = found
    now = f"times that the {name} is registered on one object"
    evidence = [Evidence(now, seen[-1], "count", source)]
    if (name, source) in registering:
        evidence.append(Evidence(_REGISTERED, name, "", registering[name, source]))
    if grown:
        evidence.append(Evidence("times when it was first counted", seen[0], "count", source))
    return tuple(evidence), bool(grown)


def _to_change_first(evidence: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    """The evidence with the line that registers hooks in front: that of the change."""
    return tuple(sorted(evidence, key=lambda each: each.what != _REGISTERED))


def _only_hooks(facts: Facts, hooks: tuple[Evidence, ...]) -> Finding | None:
    """The finding about hooks that do not yet show in the step time."""
    if not hooks or (times := int(hooks[0].value)) < MANY:
        return None
    function, lines = function_of(hooks[0].where), facts.derived(line_breakdown)
    rows = () if lines is None else lines.lines
    in_hooks = sum(row.time_ns for row in rows if function_of(row.line) == function)
    cost = round(in_hooks * (1 - 1 / times))
    return RULE.finding(
        cost or None,
        _to_change_first(hooks),
        RULE.fix("hooks"),
        saving("one hook", LEAST_SAVED * cost, cost) if cost else None,
        title=_NAMED["hooks"],
    )


def _line(facts: Facts, course: _Course) -> tuple[Evidence, ...]:
    """The line whose time per step grows, by stack samples."""
    trace, blocks = facts.trace, course.blocks
    if course.of == _EPOCH:
        early, late = (_spans(facts, part) for part in (blocks[:AT_ENDS], blocks[-AT_ENDS:]))
    else:
        early, late = sampled_ends(trace, _spans(facts, blocks))
    found = growing_line(trace, early, late, MAIN)
    if found is None:
        return ()
    what = "share of the growth in this line and in what it calls"
    return (Evidence(what, found.share, "fraction", found.line),)


def _spans(facts: Facts, blocks: list[Times]) -> Times:
    """The steps of some parts, in order."""
    rows, marks = np.sort(np.concatenate(blocks)), facts.trace.marks
    return np.stack([marks.start_ns[rows], marks.start_ns[rows] + marks.dur_ns[rows]])


_RUN, _EPOCH = "the run", "an epoch"
_REGISTERED = "registered by"
_STARTS = {
    "callbacks": "times that the callback",
    "hooks": "times that",
    "line": "share of the growth",
}
_NAMED = {
    "hooks": "Register hooks once: more of them run in each step",
    "callbacks": "Register callbacks once: more of them run in each step",
    "line": "Look at the line that takes longer and longer",
    "any": RULE.found,
}
_IN_EPOCHS = {
    "any": "Find what accumulates: steps become slower and slower within each epoch",
    "line": "Look at the line that takes longer and longer within each epoch",
}
_CONTENDED = "The process waits for cores more and more, which makes steps longer as well."
_UNNAMED = "Steps become a little slower, and no line is known that does more and more."
