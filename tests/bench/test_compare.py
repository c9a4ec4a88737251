"""The comparison of two programs, and the source of their difference."""

import numpy as np
import pytest
from tests.bench.results import MS, op, result, steady

from stepwhy.bench import compare, sample


def side(steps_ms, **options):
    return [
        sample(result(steady(int(ms * MS)), **options), f"run-{i}") for i, ms in enumerate(steps_ms)
    ]


def test_a_slower_program():
    comparison = compare(("a", "b"), side([10, 10.1, 9.9]), side([12, 12.1, 11.9]), margin=0.03)
    assert comparison.verdict == "slower"
    assert comparison.change == pytest.approx(0.2, abs=0.005)
    assert comparison.low <= comparison.change <= comparison.high
    assert "20 % longer" in comparison.sentence


def test_a_faster_program():
    comparison = compare(("a", "b"), side([10, 10.1, 9.9]), side([5, 5.1, 4.9]), margin=0.03)
    assert comparison.verdict == "faster"
    assert "less time" in comparison.sentence


def test_the_same_program():
    comparison = compare(
        ("a", "b"), side([10, 10.01, 9.99, 10]), side([10, 10.02, 9.98, 10.01]), margin=0.03
    )
    assert comparison.verdict == "same"
    assert "same within 3 %" in comparison.sentence


def test_noise_hides_a_difference_and_detectable_change_is_given():
    comparison = compare(("a", "b"), side([10, 14, 9]), side([12, 11, 13]), margin=0.03)
    assert comparison.verdict == "cannot tell"
    assert comparison.detectable > 0.2
    assert "would be detected" in comparison.sentence


def test_one_run_each_shows_a_difference_without_verdict():
    comparison = compare(("a", "b"), side([10]), side([20]), margin=0.03)
    assert comparison.verdict == "cannot tell"
    assert (comparison.low, comparison.high, comparison.detectable) == (None, None, None)
    assert comparison.change == 1
    assert "2.0 times as long" in comparison.sentence


def test_pair_with_a_busy_run_is_not_valid():
    busy = side([30], background=1.0)
    a, b = side([10, 10]) + busy, side([10, 10, 10])
    comparison = compare(("a", "b"), a, b, margin=0.03, requested=3)
    assert comparison.pairs == 2
    assert comparison.quiet is False
    assert any("Void" in note for note in comparison.notes)
    assert comparison.a.step_ns == 10 * MS


def test_categories_sum_to_the_difference():
    a = side([10, 10], categories={"compute": 8 * MS, "python": 2 * MS})
    b = side([13, 13], categories={"compute": 8 * MS, "python": 2 * MS, "input_wait": 3 * MS})
    comparison = compare(("a", "b"), a, b, margin=0.03)
    assert comparison.categories[0].category == "input_wait"
    assert sum(c.difference_ns for c in comparison.categories) == 3 * MS
    assert comparison.categories[0].sure
    assert not comparison.categories[1].sure


def test_ops_added_removed_and_changed():
    a = side([10, 10], ops=[op("conv", 5 * MS), op("bn", 2 * MS), op("add", MS), op("tiny", 10)])
    b = side([10, 10], ops=[op("conv", 7 * MS), op("fused_bn", MS), op("add", MS), op("tiny", 20)])
    comparison = compare(("a", "b"), a, b, margin=0.03)
    assert {(o.name, o.change) for o in comparison.ops} == {
        ("conv", "changed"), ("bn", "removed"), ("fused_bn", "added"),
    }  # fmt: skip
    removed = next(o for o in comparison.ops if o.name == "bn")
    assert (removed.a_ns, removed.b_ns, removed.difference_ns) == (2 * MS, None, -2 * MS)


def test_an_op_on_two_devices_counts_once():
    a = side([10, 10], ops=[op("conv", 2 * MS, "gpu:0"), op("conv", 3 * MS, "gpu:1")])
    b = side([10, 10], ops=[op("conv", 1 * MS, "gpu:0")])
    comparison = compare(("a", "b"), a, b, margin=0.03)
    assert (comparison.ops[0].a_ns, comparison.ops[0].b_ns) == (5 * MS, MS)


def test_note_on_rare_long_steps_that_medians_hide():
    stalls = [sample(result([MS, *[10 * MS] * 18, 100 * MS, 100 * MS]), "r") for _ in range(2)]
    comparison = compare(("a", "b"), side([10, 10]), stalls, margin=0.03)
    assert any("rare long steps" in note for note in comparison.notes)


def test_identical_noisy_runs_rarely_differ():
    random = np.random.default_rng(0)
    wrong = 0
    for _ in range(200):
        a, b = (side(10 * np.exp(random.normal(0, 0.03, 5))) for _ in range(2))
        wrong += compare(("a", "b"), a, b, margin=0.03).verdict in ("faster", "slower")
    assert wrong <= 6
