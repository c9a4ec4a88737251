"""What is recorded of a measured fix."""

from tests.measure.results import MS
from tests.measure.test_lab import judged, runs

from stepwhy.measure import accuracy_of
from stepwhy.measure.accuracy import typical
from stepwhy.result import PricingInputs


def record(inputs):
    faulty, fixed = runs([20, 22, 21]), runs([11, 12, 10])
    return accuracy_of(
        judged(faulty, fixed, requested=3),
        list(zip(faulty, fixed, strict=True)),
        inputs,
        edit="compile=gone",
        refusal="The problem was not found.",
        size="small",
    )


def test_the_steps_of_all_runs_are_kept():
    found = record([PricingInputs(21 * MS, 9 * MS, "removed")])
    assert found.faulty_steps_ns == (20 * MS, 22 * MS, 21 * MS)
    assert found.fixed_steps_ns == (11 * MS, 12 * MS, 10 * MS)
    assert found.gain_ns == 10 * MS
    # Student's t of two degrees of freedom alone, 4.303, times 1 ms / sqrt(3), is 2.5 ms. Steady
    # steps within the runs make it less.
    assert MS < found.fixed_reach_ns < 2_484_138
    assert (found.edit, found.refusal, found.repeats) == ("compile=gone", "", 3)


def test_without_a_prediction_there_is_a_reason():
    assert record([]).refusal == "The problem was not found."


def test_the_typical_run_has_the_median_of_each_number():
    runs = [
        PricingInputs(ns, ns // 2, "removed", cores=2, run_delay_share=share, floor_ns=floor)
        for ns, share, floor in ((100, 0.1, 5), (300, 0.3, None), (200, 0.5, 7))
    ]
    assert typical(runs) == PricingInputs(200, 100, "removed", cores=2, run_delay_share=0.3)
