"""Order, number and validity of runs."""

import pytest
from tests.measure.results import MS, result, steady

from stepwhy.base.errors import MeasurementError
from stepwhy.measure import Program, measure, measure_pairs, order, sample, summarise


def program(label, results, log=None):
    """A program that returns the given results in order."""
    runs = iter(results)

    def run(number):
        if log is not None:
            log.append((label, number))
        return f"{label}/{number}", next(runs)

    return Program(label, run)


def test_runs_alternate_so_that_drift_affects_both():
    assert order(4) == [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2), (1, 3), (0, 3)]
    places = [[i for i, (side, _) in enumerate(order(4)) if side == s] for s in (0, 1)]
    assert sum(places[0]) == sum(places[1])


def test_sample_leaves_out_the_warm_up():
    measured = sample(result(steady(10 * MS)), "run")
    assert (measured.summary.steps, measured.summary.warm_up) == (20, 1)
    assert measured.summary.median_ns == measured.summary.mean_ns == 10 * MS


def test_a_run_without_steady_steps_cannot_be_measured():
    with pytest.raises(MeasurementError, match="no steady step"):
        sample(result([MS], warm_up=1), "run")


def test_busy_runs_are_repeated():
    runs = [result(steady(10 * MS), background=b) for b in (0.0, 0.9, 0.1, 0.8, 0.0)]
    samples = measure(program("p", runs), 3)
    assert [s.is_valid for s in samples] == [True, False, True, False, True]
    assert "0.9 cores" in samples[1].summary.void


def test_measurement_is_void_if_the_machine_stays_busy():
    runs = [result(steady(10 * MS), background=1.0) for _ in range(6)]
    samples = measure(program("p", runs), 3)
    assert len(samples) == 6
    summary = summarise("p", samples, 3)
    assert summary.quiet is False
    assert summary.sentence.startswith("Void")


def test_allow_busy_makes_every_run_valid():
    runs = [result(steady(10 * MS), background=1.0) for _ in range(3)]
    assert len(measure(program("p", runs), 3, allow_busy=True)) == 3


def test_an_unknown_load_is_not_called_quiet():
    runs = [result(steady(10 * MS), background=None) for _ in range(3)]
    assert summarise("p", measure(program("p", runs), 3), 3).quiet is None


def test_pairs_stop_when_enough_are_valid():
    log = []
    fast = program("a", [result(steady(10 * MS), background=b) for b in (0, 1, 0, 0)], log)
    slow = program("b", [result(steady(11 * MS), background=0) for _ in range(4)], log)
    a, b = measure_pairs((fast, slow), 2)
    assert log == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)]
    assert [x.is_valid and y.is_valid for x, y in zip(a, b, strict=True)] == [True, False, True]


def test_rate_is_given_if_the_batch_size_is_known():
    samples = measure(program("p", [result(steady(10 * MS)) for _ in range(3)]), 3)
    summary = summarise("p", samples, 3, batch_size=32)
    assert "3200 examples/s" in summary.sentence
    assert "examples" not in summarise("p", samples, 3).sentence


def test_note_on_rare_long_steps():
    durations = [MS, *[10 * MS] * 18, 200 * MS, 200 * MS]
    samples = [sample(result(durations), "run")]
    notes = " ".join(summarise("p", samples, 1).notes)
    assert "much longer than the median" in notes
    assert "single run" in notes
