"""Repeat runs until they answer the question, or until a budget of time is used up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from stepwhy.measure.compare import ratio_of_pairs
from stepwhy.measure.looks import LEVEL, MOST_PAIRS, Looks
from stepwhy.measure.sample import sample
from stepwhy.measure.stats import judge, median_interval
from stepwhy.measure.summary import LEVEL as BENCH_LEVEL
from stepwhy.measure.summary import valid_or_all, valid_pairs
from stepwhy.measure.words import signed_change

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepwhy.measure.measure import Program
    from stepwhy.measure.sample import Sample
    from stepwhy.measure.stats import Ratio

# `bench` ends when its interval reaches this far to each side of the step time, ...
_PRECISION = 0.02
# ... which fewer runs cannot show: some are equal by chance. If four ended it, the 95 % interval
# would cover only 89 %.
_FEWEST_RUNS = 6


class Budget:
    """Time for an experiment of equal rounds; the clock starts when it is created.

    Args:
        seconds: The budget.
        clock: Gives the time in seconds.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._begin = clock()

    def rounds(self, done: int) -> int:
        """Number of rounds that fit into the budget, from the mean time of those done."""
        each = max(self._clock() - self._begin, 1e-9) / done
        return min(max(int(self.seconds / each), done), MOST_PAIRS)


class Trial(msgspec.Struct, frozen=True):
    """Runs of two programs, made one pair after another until they answered.

    Args:
        a: Runs of the first program.
        b: Runs of the second one.
        level: Confidence level to use for the final interval. It is higher than that of the
            answer, because the interval was looked at after each pair.
        answered: Whether the runs ended before the budget.
    """

    a: list[Sample]
    b: list[Sample]
    level: float
    answered: bool


def measure_until_answered(
    programs: Sequence[Program],
    budget: Budget,
    *,
    margin: float,
    allow_busy: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
    after_pair: Callable[[Trial, int], None] | None = None,
) -> Trial:
    """Run two programs in turns until it is clear which is faster, or that they are the same.

    Args:
        programs: The two programs.
        budget: Time for all runs. A pair that would exceed it is not begun.
        margin: Largest change that counts as the same.
        allow_busy: Whether runs are valid while other programs keep the machine busy.
        progress: Called before each run with (label and interval so far, pairs made, pairs that
            fit into the budget).
        after_pair: Called after each pair with the trial so far and the number of pairs that fit.
    """
    made: tuple[list[Sample], list[Sample]] = ([], [])
    looks = Looks()
    done, possible, known = 0, 0, ""
    while True:
        for side in (0, 1) if done % 2 == 0 else (1, 0):
            if progress:
                progress(programs[side].label + known, done, max(possible, done + 1))
            path, result = programs[side].run(done)
            made[side].append(sample(result, path, allow_busy=allow_busy))
        done += 1
        possible = budget.rounds(done)
        level, ratio = _look(made, looks, done / possible)
        answered = judge(ratio, margin) != "cannot tell"
        trial = Trial(*made, level=level, answered=answered)
        if after_pair:
            after_pair(trial, possible)
        if answered or done >= possible:
            return trial
        known = f", B {signed_change(ratio.low)} to {signed_change(ratio.high)}" if ratio else ""


def _look(
    made: tuple[list[Sample], list[Sample]], looks: Looks, spent: float
) -> tuple[float, Ratio | None]:
    """Confidence level of a look at the valid pairs, and the ratio; None with too few pairs."""
    pairs = valid_pairs(*made)
    if len(pairs) < 2:
        return LEVEL, None
    level = looks.level(len(pairs), spent)
    return level, ratio_of_pairs(pairs, level)


def measure_until_precise(
    program: Program,
    budget: Budget,
    *,
    allow_busy: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Sample]:
    """Run one program until its step time is known to about 2 %, or the budget ends.

    Args:
        program: The program.
        budget: Time for all runs. A run that would exceed it is not begun.
        allow_busy: Whether runs are valid while other programs keep the machine busy.
        progress: Called before each run with (label, runs made, runs that fit into the budget).
    """
    samples: list[Sample] = []
    possible, known = 1, ""
    while len(samples) < possible:
        if progress:
            progress(program.label + known, len(samples), possible)
        path, result = program.run(len(samples))
        samples.append(sample(result, path, allow_busy=allow_busy))
        possible = budget.rounds(len(samples))
        # Half width of the interval of the step time, as a fraction of it.
        runs = [s.durations_ns for s in valid_or_all(samples)]
        interval = median_interval(runs, level=BENCH_LEVEL)
        precision = (interval.high - interval.low) / 2 / max(interval.estimate, 1)
        if sum(s.is_valid for s in samples) >= _FEWEST_RUNS and precision <= _PRECISION:
            break
        known = f", ± {100 * precision:.1f} %" if len(samples) > 1 else ""
    return samples
