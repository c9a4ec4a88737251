"""Some steps take so much longer than others that the median step is not representative.

## What it means
A step takes 10 ms most of the time, but every twentieth takes 200 ms; or the batches differ so much
in size that no two steps take the same time.

## Why it costs
A large part of the training time is in steps that the median, and so most of a report, does not
show. A comparison of two short runs depends on how many slow steps each of them has.

## How it is measured
Steps over 1.5 times the median are slow. The longest of them, which together hold 90 % of the time
beyond the median, are counted. There must be at least three, and the time beyond the median must be
at least a quarter of the time of all steps. Slow steps that wait for input, compile, save, collect
garbage, evaluate or communicate are left to the diagnoses of these causes. In an observed run, the
log shows how long each step waited for input and how long its driving thread ran, and stack samples
show which line slow steps run and others do not; in the trace of another profiler, the breakdown of
the slow steps is compared with that of the others. The finding has no cost, because the described
step is one of the others.

## Fix
Slow steps at a fixed interval do something else as well, such as an evaluation: do it less often,
or compare runs over whole intervals. Steps that compute for different times have batches of
different size: put samples of similar length into one batch, and compare the time per sample.

## Fix risk
Batches of similar samples change the order in which samples are seen.

## When it abstains
`incomplete` with fewer than 16 steps, and if the process waits for CPU cores, unless slow steps
come at a fixed interval or run for longer: the waits make steps differ. Does not apply where the
host waits for the device only in some steps.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec
import numpy as np

from stepwhy.analyse.lines.extra_lines import extra_line
from stepwhy.analyse.steps.cores import CONTENDED, run_delay_share
from stepwhy.analyse.steps.stalls import (
    epoch_starts,
    events_in,
    rows_of_kinds,
    stalling,
    time_of_kinds,
)
from stepwhy.base.columns.types import Floats, Mask, Times
from stepwhy.base.units import format_count
from stepwhy.diagnose.shared.rule import SHARE_BEYOND_MEDIAN, Evidence, Facts, Finding, Rule
from stepwhy.diagnose.shared.steady_events import evaluations_recur
from stepwhy.result import CATEGORIES
from stepwhy.trace import NULL

RULE = Rule(
    __name__,
    name="Steps of very different length",
    found="Look at the slow steps: the median step does not show them",
    clear="The steps are of similar length",
    needs=(("steps",),),
)

SLOW = 1.5  # times the median; noise of a shared machine rarely reaches it
SHARE = 0.25  # of the time of all steps is beyond the median; less does not mislead
MOST = 0.9  # of the time beyond the median is in the slow steps that are counted
FEWEST_SLOW = 3  # steps; one or two may be a pause
FEWEST_STEPS = 16  # with fewer, the median itself is uncertain
MAIN = 0.5  # of the difference between slow and other steps; then it explains them
REGULAR = 0.8  # of the distances between slow steps are equal: they come at a fixed interval
SAVED = 0.3  # of the slow steps' excess is missing from short ones; noise shortens few steps
_SHOWN = 3
# Diagnoses of their own explain a difference in these.
_EXPLAINED = ("input_wait", "compile", "storage", "communication", "events")


class _Steps(msgspec.Struct, frozen=True):
    """Steady steps, and what is known of each.

    Args:
        numbers: Number of each in the run or trace, from 0; (steps,).
        durations_ns: Wall time; (steps,).
        parts_ns: Time by category; NULL where it is unknown; (steps,) each.
    """

    numbers: Times
    durations_ns: Times
    parts_ns: dict[str, Times]

    @property
    def slow(self) -> Mask:
        """Mask of the slow steps that matter: the longest, which hold most of the excess."""
        excess = self._excess_ns
        order = np.argsort(-excess, kind="stable")
        held = np.cumsum(excess[order])
        found: Mask = np.zeros(len(excess), dtype=bool)
        found[order[: int(np.searchsorted(held, MOST * held[-1])) + 1]] = True
        return found & (excess > 0)

    @property
    def share(self) -> float:
        """Share of the time of all steps that slow ones take beyond the median, 0..1."""
        return float(self._excess_ns.sum() / max(int(self.durations_ns.sum()), 1))

    @property
    def saved_share(self) -> float:
        """Time of short steps below the median, as a share of that of slow ones beyond it."""
        below = np.maximum(np.median(self.durations_ns) - self.durations_ns, 0)
        return float(below.sum() / max(self._excess_ns.sum(), 1))

    @property
    def _excess_ns(self) -> Floats:
        """Time of each slow step beyond the median, 0 for others; (steps,)."""
        median = float(np.median(self.durations_ns))
        is_slow = self.durations_ns > SLOW * median
        return np.where(is_slow, self.durations_ns - median, 0.0)

    def difference(self, category: str) -> float:
        """Share of a category in the difference between slow and other steps; 0 if unknown."""
        times = self.parts_ns[category]
        known = times != NULL
        slow, others = known & self.slow, known & ~self.slow
        if not slow.any() or not others.any():
            return 0.0
        whole = self.durations_ns[slow].mean() - self.durations_ns[others].mean()
        # Other steps may wait for longer: the thread's CPU time can differ by more than the step.
        return min(float((times[slow].mean() - times[others].mean()) / whole), 1.0)


def diagnose(facts: Facts) -> Finding:
    """Judge the spread of the step times."""
    if facts.observed is not None and facts.observed.uneven:
        return RULE.not_applicable("Only some steps wait, for the device or for batches.")
    steps = _recorded(facts) if facts.observed is None else _observed(facts)
    if len(steps.numbers) < FEWEST_STEPS:
        return RULE.incomplete("enough-steps", f"There are fewer than {FEWEST_STEPS} steady steps.")
    if steps.slow.sum() < FEWEST_SLOW or steps.share < SHARE:
        # The others may still differ.
        low, high = np.percentile(steps.durations_ns, [10, 90])
        return RULE.nothing((_share(steps),), title="" if high <= SLOW * low else _VARIED)
    if _catches_up(facts, steps):
        return RULE.not_applicable("The slow steps wait for the work of the short ones.")
    differences = {c: steps.difference(c) for c in steps.parts_ns}
    span_ns = facts.observed.steady_span_ns if facts.observed else None
    waiting = run_delay_share(facts.trace, span_ns) or 0.0
    ran = differences.get("running", 0.0) >= MAIN
    if waiting >= CONTENDED and not ran and not _interval(steps):
        contended = Evidence("share of its time that it waits for a core", waiting, "fraction")
        return RULE.incomplete("quiet-machine", _CONTENDED, (_share(steps), contended))
    if sum(differences.get(c, 0.0) for c in _EXPLAINED) >= MAIN:
        evidence = (_share(steps), *_differences(differences))
        return RULE.nothing(evidence, title=_EXPLAINED_TITLE)
    lines = _visited(facts, steps) or _logged(facts, steps)
    evidence = (_share(steps), *_evidence(steps), *lines, *_differences(differences))
    if lines:
        return RULE.finding(None, evidence, RULE.fix("named"), title=_ONE_LINE)
    fix = RULE.fix("batches" if differences.get("compute", 0.0) >= MAIN else "irregular")
    return RULE.finding(None, evidence, RULE.fix("regular") if _interval(steps) else fix)


def _catches_up(facts: Facts, steps: _Steps) -> bool:
    """Whether a host that runs ahead of the device begins short steps, and then waits for them."""
    if not facts.has_accelerator and facts.trace.meta.framework != "jax":
        return False
    return steps.saved_share >= SAVED


def _recorded(facts: Facts) -> _Steps:
    """The steady steps of a trace, with the breakdown of each."""
    steady = facts.steps.steady
    per_step = facts.per_step[steady]
    parts = {c: per_step[:, place] for place, c in enumerate(CATEGORIES)}
    durations = facts.steps.durations_ns[steady]
    return _Steps(np.arange(len(durations)) + facts.steps.warm_up, durations, parts)


def _observed(facts: Facts) -> _Steps:
    """The steady unprofiled steps of the described stretch."""
    trace, marks = facts.trace, facts.trace.marks
    rows = np.arange(len(marks), dtype=np.int64)[facts.regimes.current.rows]
    rows = rows[marks.profiled[rows] == 0][facts.observed.warm_up if facts.observed else 0 :]
    others = rows_of_kinds(trace, "gc", *(("evaluation",) if evaluations_recur(trace) else ()))
    inside = events_in(trace, rows, np.union1d(stalling(trace), others))
    stalled = np.zeros(len(rows), dtype=np.int64)
    stalled[: len(inside.steps)] = inside.inside_ns
    # Where the training profiles itself, its profiler is the difference.
    starts, durations = marks.start_ns[rows], marks.dur_ns[rows]
    profiled = time_of_kinds(trace, "profiler").within(starts, starts + durations)
    waits = np.maximum(marks.input_wait_ns[rows], epoch_starts(trace, rows).inside_ns)
    parts = {"input_wait": waits, "events": np.maximum(stalled, profiled)}
    return _Steps(rows, durations, {**parts, "running": marks.cpu_ns[rows]})


def _share(steps: _Steps) -> Evidence:
    return Evidence(SHARE_BEYOND_MEDIAN, steps.share, "fraction")


def _evidence(steps: _Steps) -> tuple[Evidence, ...]:
    durations, slow = steps.durations_ns, steps.slow
    which = f"of {format_count(len(durations))} steady steps, {_pattern(steps)}"
    return (
        Evidence("slow steps", int(slow.sum()), "count", which),
        Evidence("median of the slow steps", round(float(np.median(durations[slow]))), "ns"),
        Evidence("median of all steps", round(float(np.median(durations))), "ns"),
    )


def _visited(facts: Facts, steps: _Steps) -> tuple[Evidence, ...]:
    """The line in which slow steps spend their extra time, by stack samples."""
    if facts.observed is None:
        return ()
    starts = facts.trace.marks.start_ns[steps.numbers]
    spans, slow = np.stack([starts, starts + steps.durations_ns]), steps.slow
    found = extra_line(facts.trace, spans[:, slow], spans[:, ~slow], MAIN)
    if found is None:
        return ()
    name = "share of the difference in this line, which other steps do not run"
    shown = (Evidence(name, found.share, "fraction", found.line),)
    if not found.hottest or found.hottest == found.line:
        return shown
    return (
        *shown,
        Evidence(
            "share of the difference in the hottest line that it calls",
            found.hottest_share,
            "fraction",
            found.hottest,
        ),
    )


def _logged(facts: Facts, steps: _Steps) -> tuple[Evidence, ...]:
    """The line of the program that most slow steps, and few others, log events of."""
    trace, marks = facts.trace, facts.trace.marks
    if facts.observed is None:
        return ()
    starts = marks.start_ns[steps.numbers]
    place = np.searchsorted(starts, trace.events.start_ns, side="right") - 1
    seen: defaultdict[str, set[int]] = defaultdict(set)
    for step, source in zip(place.tolist(), trace.events.source.tolist(), strict=True):
        if step >= 0 and source != NULL and trace.string(source):
            seen[trace.string(source)].add(step)
    slow = set(np.flatnonzero(steps.slow).tolist())
    found = max(seen, key=lambda line: len(seen[line] & slow), default="")
    shared, others = len(seen[found] & slow), len(seen[found] - slow)
    if shared < MAIN * len(slow) or others > shared:
        return ()
    return (Evidence("slow steps that run this line; others do not", shared, "count", found),)


def _pattern(steps: _Steps) -> str:
    """When slow steps come, in words."""
    interval = _interval(steps)
    if interval:
        return f"every {interval} steps"
    places = steps.numbers[steps.slow] + 1
    groups = int((np.diff(places) > 1).sum()) + 1
    if groups <= len(places) // 4:
        return f"in a row from step {places[0]:,}" if groups == 1 else f"in {groups} bursts"
    return "at no fixed interval"


def _interval(steps: _Steps) -> int:
    """Steps from one slow step to the next, if that is constant for most of them; else 0."""
    slow = steps.numbers[steps.slow]
    distances = np.diff(slow)
    usual = int(np.median(distances))
    if usual <= 1:
        return 0
    if (distances == usual).mean() >= REGULAR:
        return usual
    # Other slow steps between them make other distances, but do not shift the regular ones.
    place = steps.numbers % usual == np.bincount(slow % usual).argmax()
    regular = steps.numbers[steps.slow & place]
    due = int(np.count_nonzero(steps.numbers[place] >= regular[0]))
    return usual if len(regular) >= REGULAR * max(len(slow), due) else 0


def _differences(differences: dict[str, float]) -> tuple[Evidence, ...]:
    """What slow steps have more of, most first."""
    largest = sorted(differences, key=lambda c: -differences[c])[:_SHOWN]
    return tuple(
        Evidence(f"share of {_NAMES.get(c, c)} in the difference", differences[c], "fraction")
        for c in largest
        if differences[c] > 0
    )


_NAMES = {
    "running": "the driving thread's CPU time",
    "input_wait": "the wait for input",
    "events": "compiling, saving, evaluating and the like",
}
_VARIED = "Step times vary, but slow steps take little of the time"
_EXPLAINED_TITLE = "Steps differ in length for a cause that other checks judge"
_CONTENDED = "The process waits for CPU cores, which makes steps differ in length."
_ONE_LINE = "Look at the line that makes some steps much slower than others"
