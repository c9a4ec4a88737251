"""Try a fix: run a program with and without it until the interval of its gain is clear."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.steps.uneven import waits_in_some_steps
from stepwhy.measure.looks import LEVEL, MOST_PAIRS, Looks
from stepwhy.measure.sample import MOST_BACKGROUND_CORES
from stepwhy.measure.stats import expected_spread, judge, paired_ratio, switched_ratio
from stepwhy.measure.stats.switched import arm_of_block
from stepwhy.result.trial import TrialRunSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.measure.fixes import FixAbout
    from stepwhy.measure.stats import Ratio
    from stepwhy.result.trial import Losses, TrialMethod

MARGIN = 0.03
# Blocks of a switched run: as many as give a dozen pairs, but none of fewer steps than show a
# step time, and the first step of each is left out.
_BLOCKS, _FEWEST_BLOCK_STEPS, _MOST_BLOCK_STEPS = 24, 4, 50
_FEWEST_SWITCHED_STEPS = 50
# Gain that is known to a quarter of itself is known well enough to be compared with a prediction.
_PRECISE = 0.25
# Losses of the first steps are compared: later ones differ by the rounding of other kernels.
_COMPARED_LOSSES = 20
_SAME_LOSS = 0.01


class TrialRun(msgspec.Struct, frozen=True):
    """One run of the program.

    Args:
        path: Its run directory.
        fix: 'off', 'on' or 'switched'.
        durations_ns: Durations of its steady steps; of all steps of a switched run.
        blocks: Number of the block of each step, from 0; () if it was not switched.
        changed: What the fix changed.
        left: Why something was not changed.
        refused: Why the result is of no use.
        losses: The first losses; None for one that is not finite.
        background_cores: Cores that other programs kept busy; None if unknown.
    """

    path: str
    fix: str
    durations_ns: tuple[int, ...]
    blocks: tuple[int, ...] = ()
    changed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    losses: tuple[float | None, ...] = ()
    background_cores: float | None = None


class Runner(Protocol):
    """Runs the program.

    Attributes:
        is_timed: Whether the trial times the steps itself, without observation.
    """

    is_timed: bool

    def run(self, *, fix: bool) -> TrialRun:
        """Run it once, with the fix or without it.

        Raises:
            MeasurementError: It failed, or no step was seen.
        """

    def run_switched(self, block_steps: int, warm_up: int) -> TrialRun:
        """Run it once and switch the fix after so many steps each, after some for warm-up.

        Raises:
            MeasurementError: It failed, or no step was seen.
        """

    def elapsed_s(self) -> float:
        """Seconds since the first run began."""


class Budget(msgspec.Struct, frozen=True):
    """Limit of an experiment.

    Args:
        seconds: When no further run begins, in seconds after the first one began.
    """

    seconds: float


class Outcome(msgspec.Struct, frozen=True):
    """What an experiment has shown.

    Args:
        ratio: Step time with the fix relative to that without; None if there are too few pairs.
        step_ns: Step time without the fix.
        method: 'blocks' or 'runs'.
        runs: All runs.
    """

    ratio: Ratio | None
    step_ns: float
    method: TrialMethod
    runs: tuple[TrialRun, ...]


def fitted(about: FixAbout, first: TrialRun) -> FixAbout:
    """A fix as it is to be measured on a program.

    If only some steps wait for the work of all, such as those of a host that runs ahead of its
    device, the median step shows how fast the others are launched. Then means of whole runs count.

    Args:
        about: The fix.
        first: A run without it.
    """
    if not waits_in_some_steps(np.asarray(first.durations_ns, dtype=np.int64)):
        return about
    return replace(about, statistic="mean", switchable=False)


def conduct(about: FixAbout, first: TrialRun, runner: Runner, budget: Budget) -> Outcome:
    """Run the program until the gain of a fix is clear, or the budget ends.

    Args:
        about: The fix.
        first: A run without the fix. It counts if the runner times steps as it did.
        runner: Runs the program.
        budget: When to stop.

    Raises:
        MeasurementError: A run failed.
    """
    if about.switchable and runner.is_timed and len(first.durations_ns) >= _FEWEST_SWITCHED_STEPS:
        return _conduct_blocks(about, first, runner, budget)
    return _conduct_runs(about, first, runner, budget)


def _conduct_blocks(about: FixAbout, first: TrialRun, runner: Runner, budget: Budget) -> Outcome:
    """Switch the fix within runs."""
    steps = len(first.durations_ns)
    warm_up = min(10, steps // 6)
    block = min(max((steps - warm_up) // _BLOCKS, _FEWEST_BLOCK_STEPS), _MOST_BLOCK_STEPS)
    made: list[TrialRun] = []
    looks = _Looks(runner, budget)
    while True:
        made.append(runner.run_switched(block, warm_up))
        outcome = _analyse_blocks(about, [first, *made], LEVEL)
        if made[-1].refused:
            return outcome
        if not made[-1].changed:  # some devices cannot switch what they can leave on
            return _conduct_runs(about, first, runner, budget)
        if outcome.ratio is None:
            return outcome
        outcome = _analyse_blocks(about, [first, *made], looks.level(outcome.ratio.pairs))
        if looks.is_last or _is_clear(outcome):
            return outcome


def _analyse_blocks(about: FixAbout, runs: Sequence[TrialRun], level: float) -> Outcome:
    """Analysis of switched runs, as one sequence of blocks."""
    durations: list[int] = []
    blocks: list[int] = []
    arms: list[int] = []
    for run in runs:
        offset = max(blocks, default=-1) + 1
        durations += run.durations_ns if run.blocks else ()
        blocks += [offset + block for block in run.blocks]
        arms += [arm_of_block(block) for block in run.blocks]
    ratio = switched_ratio(durations, arms, blocks, statistic=about.statistic, level=level)
    off = [d for d, arm in zip(durations, arms, strict=True) if not arm]
    return Outcome(ratio, _step_ns(off, about), "blocks", tuple(runs))


def _conduct_runs(about: FixAbout, first: TrialRun, runner: Runner, budget: Budget) -> Outcome:
    """Run the program with and without the fix in turns: A B, B A, A B, ..."""
    on = [runner.run(fix=True)]
    if on[0].refused or not on[0].changed:
        return Outcome(None, _step_ns(first.durations_ns, about), "runs", (first, *on))
    off = [runner.run(fix=False) if runner.is_timed else first]
    order = [first, *on, *off] if runner.is_timed else [first, *on]
    looks = _Looks(runner, budget)
    while len(on) < MOST_PAIRS:
        if looks.is_over(len(on)):
            break
        first_arm = bool(len(on) % 2) != runner.is_timed
        for fix in (first_arm, not first_arm):
            run = runner.run(fix=fix)
            (on if fix else off).append(run)
            order.append(run)
        if any(run.refused for run in on):
            break
        outcome = _analyse_runs(about, off, on, order, looks.level(len(on)))
        if looks.is_last or _is_clear(outcome):
            return outcome
    return _analyse_runs(about, off, on, order, LEVEL)


def _analyse_runs(
    about: FixAbout,
    off: Sequence[TrialRun],
    on: Sequence[TrialRun],
    order: Sequence[TrialRun],
    level: float,
) -> Outcome:
    """Analysis of pairs of runs."""
    sides = [[_step_ns(run.durations_ns, about) for run in side] for side in (off, on)]
    expected = expected_spread([np.asarray(run.durations_ns) for run in (*off, *on)])
    ratio = paired_ratio(sides[0], sides[1], level=level, expected=expected)
    return Outcome(ratio, float(np.median(sides[0])), "runs", tuple(order))


class _Looks:
    """The looks at a growing experiment.

    Args:
        runner: Runs the program.
        budget: When to stop.

    Attributes:
        is_last: Whether the latest look is the last: another round would exceed the budget.
    """

    def __init__(self, runner: Runner, budget: Budget) -> None:
        self._runner, self._budget = runner, budget
        self._start_s = runner.elapsed_s()
        self._looks, self._rounds = Looks(), 0
        self.is_last = False

    def level(self, pairs: int) -> float:
        """The confidence level of a look at so many pairs."""
        self._rounds += 1
        elapsed_s = self._runner.elapsed_s()
        round_s = (elapsed_s - self._start_s) / self._rounds
        self.is_last = elapsed_s + round_s > self._budget.seconds or pairs >= MOST_PAIRS
        spent = 1.0 if self.is_last else min(elapsed_s / self._budget.seconds, 0.99)
        return self._looks.level(pairs, spent)

    def is_over(self, pairs: int) -> bool:
        """Whether the budget is used up before another pair; a first one is always completed."""
        return pairs > 1 and self._runner.elapsed_s() > self._budget.seconds


def _is_clear(outcome: Outcome) -> bool:
    """Whether the interval answers the question."""
    ratio = outcome.ratio
    if ratio is None or judge(ratio, MARGIN) == "cannot tell":
        return False
    precise = max(abs(ratio.change) * _PRECISE, MARGIN)
    return (ratio.high - ratio.low) / 2 <= precise


def _step_ns(durations_ns: Sequence[int], about: FixAbout) -> float:
    if not durations_ns:
        return math.nan
    centre = np.median if about.statistic == "median" else np.mean
    return float(centre(durations_ns))


def summaries(about: FixAbout, runs: Sequence[TrialRun]) -> tuple[TrialRunSummary, ...]:
    """The runs for reports."""
    return tuple(_summary(about, run) for run in runs)


def _summary(about: FixAbout, run: TrialRun) -> TrialRunSummary:
    durations = run.durations_ns
    if run.blocks:
        pairs = zip(durations, run.blocks, strict=True)
        durations = tuple(d for d, block in pairs if not arm_of_block(block))
    step_ns = _step_ns(durations, about)
    return TrialRunSummary(
        run.path,
        run.fix,  # type: ignore[arg-type]
        len(run.durations_ns),
        0 if math.isnan(step_ns) else round(step_ns),
        run.background_cores,
    )


def compare_losses(runs: Sequence[TrialRun]) -> Losses:
    """Whether the first losses with the fix agree with those without it.

    'not compared' if they cannot be: two runs without the fix differ already, or the fix was
    switched within the runs.
    """
    off = [run.losses for run in runs if run.fix == "off" and run.losses]
    on = [run.losses for run in runs if run.fix == "on" and run.losses]
    if not off or not on:
        switched = any(run.fix == "switched" for run in runs)
        return "not compared" if switched and off else "not seen"
    if not all(_agree(a, b) for a, b in pairwise(off)):
        return "not compared"
    return "agree" if all(_agree(off[0], losses) for losses in on) else "differ"


def _agree(a: Sequence[float | None], b: Sequence[float | None]) -> bool:
    """Whether the losses of the first steps of two runs are the same within rounding."""
    both = list(zip(a, b, strict=False))[:_COMPARED_LOSSES]
    return all(
        x == y if x is None or y is None else math.isclose(x, y, rel_tol=_SAME_LOSS, abs_tol=1e-6)
        for x, y in both
    )


def busy_note(runs: Sequence[TrialRun]) -> str:
    """A remark about other programs during the runs; '' if they did little."""
    known = [run.background_cores for run in runs if run.background_cores is not None]
    busy = [cores for cores in known if cores > MOST_BACKGROUND_CORES]
    if not busy:
        return ""
    return (
        f"Other programs kept {max(busy):.1f} cores busy during {len(busy)} of {len(known)} runs, "
        "which makes the interval wider."
    )


__all__ = [
    "LEVEL", "MARGIN", "Budget", "Outcome", "Runner", "TrialRun", "busy_note", "compare_losses",
    "conduct", "summaries",
]  # fmt: skip
