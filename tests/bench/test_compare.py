"""The comparison of two programs and where the difference lies."""

import numpy as np
import pytest
from tests.bench.results import MS, op, result, steady

from stepwhy.bench import compare, sample


def side(steps_ms, **about):
    return [
        sample(result(steady(int(ms * MS)), **about), f"run-{i}") for i, ms in enumerate(steps_ms)
    ]


def test_a_slower_program():
    said = compare(("a", "b"), side([10, 10.1, 9.9]), side([12, 12.1, 11.9]), margin=0.03)
    assert said.verdict == "slower"
    assert said.change == pytest.approx(0.2, abs=0.005)
    assert said.low <= said.change <= said.high
    assert "20 % longer" in said.sentence


def test_a_faster_program():
    said = compare(("a", "b"), side([10, 10.1, 9.9]), side([5, 5.1, 4.9]), margin=0.03)
    assert said.verdict == "faster"
    assert "less time" in said.sentence


def test_the_same_program():
    said = compare(
        ("a", "b"), side([10, 10.01, 9.99, 10]), side([10, 10.02, 9.98, 10.01]), margin=0.03
    )
    assert said.verdict == "same"
    assert "same within 3 %" in said.sentence


def test_noise_hides_a_difference_and_says_what_would_be_found():
    said = compare(("a", "b"), side([10, 14, 9]), side([12, 11, 13]), margin=0.03)
    assert said.verdict == "cannot tell"
    assert said.detectable > 0.2
    assert "would be detected" in said.sentence


def test_one_run_each_shows_the_difference_and_cannot_tell():
    said = compare(("a", "b"), side([10]), side([20]), margin=0.03)
    assert said.verdict == "cannot tell"
    assert (said.low, said.high, said.detectable) == (None, None, None)
    assert said.change == 1
    assert "2.0 times as long" in said.sentence


def test_a_pair_with_a_busy_run_does_not_count():
    busy = side([30], background=1.0)
    a, b = side([10, 10]) + busy, side([10, 10, 10])
    said = compare(("a", "b"), a, b, margin=0.03, wanted=3)
    assert said.pairs == 2
    assert said.quiet is False
    assert any("Void" in note for note in said.notes)
    assert said.a.step_ns == 10 * MS


def test_categories_sum_to_the_difference():
    a = side([10, 10], categories={"compute": 8 * MS, "python": 2 * MS})
    b = side([13, 13], categories={"compute": 8 * MS, "python": 2 * MS, "input_wait": 3 * MS})
    said = compare(("a", "b"), a, b, margin=0.03)
    assert said.categories[0].category == "input_wait"
    assert sum(c.difference_ns for c in said.categories) == 3 * MS
    assert said.categories[0].sure
    assert not said.categories[1].sure


def test_ops_added_removed_and_changed():
    a = side([10, 10], ops=[op("conv", 5 * MS), op("bn", 2 * MS), op("add", MS), op("tiny", 10)])
    b = side([10, 10], ops=[op("conv", 7 * MS), op("fused_bn", MS), op("add", MS), op("tiny", 20)])
    said = compare(("a", "b"), a, b, margin=0.03)
    assert {(o.name, o.change) for o in said.ops} == {
        ("conv", "changed"), ("bn", "removed"), ("fused_bn", "added"),
    }  # fmt: skip
    removed = next(o for o in said.ops if o.name == "bn")
    assert (removed.a_ns, removed.b_ns, removed.difference_ns) == (2 * MS, None, -2 * MS)


def test_an_op_on_two_devices_counts_once():
    a = side([10, 10], ops=[op("conv", 2 * MS, "gpu:0"), op("conv", 3 * MS, "gpu:1")])
    b = side([10, 10], ops=[op("conv", 1 * MS, "gpu:0")])
    said = compare(("a", "b"), a, b, margin=0.03)
    assert (said.ops[0].a_ns, said.ops[0].b_ns) == (5 * MS, MS)


def test_rare_long_steps_that_medians_hide_are_pointed_out():
    stalls = [sample(result([MS, *[10 * MS] * 18, 100 * MS, 100 * MS]), "r") for _ in range(2)]
    said = compare(("a", "b"), side([10, 10]), stalls, margin=0.03)
    assert any("rare long steps" in note for note in said.notes)


def test_identical_noisy_runs_are_rarely_told_apart():
    random = np.random.default_rng(0)
    wrong = 0
    for _ in range(200):
        a, b = (side(10 * np.exp(random.normal(0, 0.03, 5))) for _ in range(2))
        wrong += compare(("a", "b"), a, b, margin=0.03).verdict in ("faster", "slower")
    assert wrong <= 6
