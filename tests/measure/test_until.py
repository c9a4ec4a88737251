"""Runs that end with an answer or with the budget."""

import numpy as np
import pytest
from tests.measure.results import MS, result, steady

from stepwhy.measure import (
    Budget,
    Program,
    compare,
    forecast,
    measure_until_answered,
    measure_until_precise,
    sample,
)
from stepwhy.measure.looks import Looks


class Clock:
    """A clock that runs advance."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def program(label, clock, step_ms, *, seconds=10.0, background=0.0):
    """A program whose runs take so long; the step time is a function of the run's number."""

    def run(number):
        clock.now += seconds
        made = result(steady(int(step_ms(number) * MS)), background=background)
        return f"{label}/{number}", made

    return Program(label, run)


def tried(step_a, step_b, seconds=180.0, **options):
    clock = Clock()
    budget = Budget(seconds, clock)
    sides = [program("a", clock, step_a, **options), program("b", clock, step_b, **options)]
    return measure_until_answered(sides, budget, margin=0.03), clock.now


def test_a_clear_answer_ends_the_runs():
    trial, seconds = tried(lambda _: 10, lambda _: 30)
    assert trial.answered
    assert seconds < 100
    assert len(trial.a) == len(trial.b)


def test_equal_programs_end_as_the_same():
    trial, _ = tried(lambda _: 10, lambda _: 10)
    said = compare(("a", "b"), trial.a, trial.b, margin=0.03, level=trial.level)
    assert (trial.answered, said.verdict) == (True, "same")


def test_noise_ends_with_the_budget():
    random = np.random.default_rng(0)
    noisy = lambda _: 10 * np.exp(random.normal(0, 0.3))  # noqa: E731
    trial, seconds = tried(noisy, noisy)
    assert not trial.answered
    assert 160 <= seconds <= 180
    assert trial.level == pytest.approx(0.98, abs=0.005)


def test_early_intervals_are_wider():
    trial, _ = tried(lambda _: 10, lambda _: 30)
    assert trial.level > 0.98


def test_a_pair_that_exceeds_the_budget_is_made_alone():
    trial, seconds = tried(lambda _: 10, lambda _: 30, seconds=5.0)
    assert (len(trial.a), seconds) == (1, 20.0)


def test_a_machine_that_stays_busy_uses_the_budget():
    trial, seconds = tried(lambda _: 10, lambda _: 30, background=1.0)
    assert not trial.answered
    assert seconds <= 180


def test_a_fix_worth_15_percent_is_found_in_three_minutes():
    random = np.random.default_rng(1)
    noisy = lambda scale: lambda _: scale * np.exp(random.normal(0, 0.03))  # noqa: E731
    trials = [tried(noisy(10), noisy(8.5))[0] for _ in range(60)]
    verdicts = [compare(("a", "b"), t.a, t.b, margin=0.03, level=t.level).verdict for t in trials]
    assert verdicts.count("faster") >= 0.9 * len(verdicts)


def test_equal_noisy_programs_rarely_differ():
    random = np.random.default_rng(2)
    noisy = lambda _: 10 * np.exp(random.normal(0, 0.03))  # noqa: E731
    trials = [tried(noisy, noisy)[0] for _ in range(100)]
    verdicts = [compare(("a", "b"), t.a, t.b, margin=0.03, level=t.level).verdict for t in trials]
    assert verdicts.count("faster") + verdicts.count("slower") <= 5


def test_bench_ends_when_the_step_time_is_precise():
    clock = Clock()
    steady_runs = measure_until_precise(program("a", clock, lambda _: 10), Budget(180, clock))
    assert len(steady_runs) == 6
    clock = Clock()
    random = np.random.default_rng(3)
    noisy = program("a", clock, lambda _: 10 * np.exp(random.normal(0, 0.3)))
    assert len(measure_until_precise(noisy, Budget(180, clock))) == 18


def test_forecast_names_what_cannot_be_found():
    assert "no interval" in forecast(1)
    assert "2 pairs of runs detect only slowdowns of" in forecast(2)
    assert "18 % needs 3 pairs" in forecast(2)
    assert forecast(3) == ""
    runs = [sample(result([MS, *np.linspace(5 * MS, 20 * MS, 80)]), "r")]
    assert "With the drift of these runs" in forecast(6, runs)


def test_a_look_without_a_new_pair_replaces_the_one_before():
    looks = Looks()
    looks.level(2, 0.3)
    assert looks.level(2, 0.6) == Looks().level(2, 0.6)
    assert looks.level(3, 0.5) < 1  # a share of the budget that was used up stays used up
