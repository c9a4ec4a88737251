"""The comparison of two programs, and the source of their difference."""

import numpy as np
import pytest
from msgspec.structs import replace
from tests.measure.results import MS, op, result, steady

from stepwhy.measure import compare, sample
from stepwhy.result import Device, Op


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


def test_what_only_some_steps_do_counts_in_every_step():
    """The report's step takes 15 ms: 5 ms more than the median, as garbage is collected in some."""
    report = result(steady(10 * MS), categories={"compute": 10 * MS, "python": 5 * MS})
    run = sample(replace(report, breakdown=replace(report.breakdown, wall_ns=15 * MS)), "run")
    assert (run.summary.median_ns, run.summary.mean_ns) == (15 * MS, 10 * MS)
    comparison = compare(("a", "b"), [run] * 3, side([10, 10.1, 9.9]), margin=0.03)
    assert comparison.a.step_ns == 15 * MS
    assert comparison.change == pytest.approx(-1 / 3, abs=0.01)


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


def test_one_run_each_shows_a_difference_with_a_caveat():
    comparison = compare(("a", "b"), side([10]), side([20]), margin=0.03)
    assert comparison.verdict == "slower"
    assert comparison.change == pytest.approx(1)
    assert comparison.low <= comparison.change <= comparison.high
    assert (comparison.detectable, comparison.pairs) == (None, 1)
    assert "2.0 times as long" in comparison.sentence
    assert "drift of the machine is not excluded" in comparison.sentence


def test_one_run_each_with_a_usual_difference_gives_no_verdict():
    comparison = compare(("a", "b"), side([10]), side([11]), margin=0.03)
    assert comparison.verdict == "cannot tell"
    assert "two runs of one program can differ by 16 %" in comparison.sentence


def test_several_runs_against_one_are_counted_in_words():
    comparison = compare(("a", "b"), side([10] * 5), side([20]), margin=0.03)
    assert "5 and 1 runs" in comparison.sentence
    assert "one run each" not in comparison.sentence
    assert comparison.notes == ()


def test_interval_of_single_runs_includes_the_usual_change_between_runs():
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(100):
        a, b = (side(10 * np.exp(random.normal(0, 0.03, 1))) for _ in range(2))
        comparison = compare(("a", "b"), a, b, margin=0.03)
        covered += comparison.low <= 0 <= comparison.high
    assert covered >= 98


def test_runs_that_did_not_alternate_may_differ_by_a_drift_of_the_machine():
    a, b = side([10, 10.1, 9.9, 10, 10]), side([11, 11.1, 10.9, 11, 11])
    assert compare(("a", "b"), a, b, margin=0.03).verdict == "slower"
    stored = compare(("a", "b"), a, b, margin=0.03, alternated=False)
    assert stored.verdict == "cannot tell"
    assert stored.low < 0 < stored.high
    assert "did not alternate" in stored.notes[-1]
    assert not any(c.sure for c in stored.categories)
    clear = compare(("a", "b"), a, side([13, 13.1, 12.9, 13, 13]), margin=0.03, alternated=False)
    assert clear.verdict == "slower"


def test_runs_that_did_not_alternate_rarely_differ_on_a_machine_that_drifts():
    random = np.random.default_rng(0)
    wrong = 0
    for _ in range(100):
        drift = 10 * np.exp(np.cumsum(random.normal(0, 0.02, 10)))
        said = compare(("a", "b"), side(drift[:5]), side(drift[5:]), margin=0.03, alternated=False)
        wrong += said.verdict in ("faster", "slower")
    assert wrong <= 2


def test_one_step_each_gives_no_interval():
    a, b = ([sample(result([MS, ms * MS]), "r")] for ms in (10, 20))
    comparison = compare(("a", "b"), a, b, margin=0.03)
    assert comparison.verdict == "cannot tell"
    assert (comparison.low, comparison.high) == (None, None)
    assert "too few steps" in comparison.sentence


def test_pair_with_a_busy_run_is_not_valid():
    busy = side([30], background=1.0)
    a, b = side([10, 10]) + busy, side([10, 10, 10])
    comparison = compare(("a", "b"), a, b, margin=0.03, requested=3)
    assert comparison.pairs == 2
    assert comparison.quiet is False
    assert comparison.sentence.startswith("Void, the machine was busy: ")
    assert any("busy during 1 of 6 runs" in note for note in comparison.notes)
    assert comparison.a.step_ns == 10 * MS


def test_categories_sum_to_the_difference():
    a = side([10, 10], categories={"compute": 8 * MS, "python": 2 * MS})
    b = side([13, 13], categories={"compute": 8 * MS, "python": 2 * MS, "input_wait": 3 * MS})
    comparison = compare(("a", "b"), a, b, margin=0.03)
    assert comparison.categories[0].category == "input_wait"
    assert sum(c.difference_ns for c in comparison.categories) == 3 * MS
    assert comparison.categories[0].sure
    assert not comparison.categories[1].sure


def test_interval_of_a_category_contains_its_difference():
    a, b = side([10] * 8), side([10.1] * 6 + [21.0, 21.1])
    found = compare(("a", "b"), a, b, margin=0.03).categories[0]
    assert found.difference_ns == pytest.approx(2.8375 * MS)
    assert found.low_ns < 0 < found.difference_ns < found.high_ns
    assert not found.sure


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


def gpu(self_ns, count, name="gemm"):
    return Op(name, "GPU:0", "other", count, self_ns, self_ns, None)


def on_gpu(model, ops, cores=2):
    made = result(steady(10 * MS), ops=ops)
    device = Device("GPU:0", "gpu", 0, 0.0, 0, 0, 0, 0, None, None, model=model)
    return [sample(replace(made, devices=(device,), host=replace(made.host, cores=cores)), "r")]


def test_an_operation_that_is_gone_is_certain():
    a = on_gpu("V100", [op("loader", 5 * MS), gpu(MS, 300), op("rare", MS)])
    a = [replace(a[0], calls=a[0].calls | {"rare": 0.1})]
    b = on_gpu("V100", [gpu(MS, 240), op("copy", MS)])
    assert compare(("a", "b"), a, b, margin=0.03).certain == (
        "Gone from B: loader.", "New in B: copy.", "Kernels per step: 300 in A, 240 in B.",
    )  # fmt: skip


def test_an_operation_that_may_be_cut_off_is_not_called_gone():
    many = [op(f"op{n}", MS) for n in range(100)]
    a, b = on_gpu("", [op("short", MS // 2)]), on_gpu("", many)
    assert not any("Gone" in line for line in compare(("a", "b"), a, b, margin=0.03).certain)


def test_each_device_has_a_table_that_may_be_cut_off():
    full = [gpu(50_000, 1, f"k{n}") for n in range(100)]
    a = on_gpu("", [gpu(51_000, 1, "gone"), gpu(50_000, 1, "cut off"), *full[:98]])
    b = on_gpu("", [*full, op("loader", 1000)])
    certain = compare(("a", "b"), a, b, margin=0.03).certain
    assert certain[0] == "Gone from B: gone."


def test_parts_of_an_operation_that_may_be_cut_off_on_each_device():
    full = [gpu(50_000, 1, f"k{n}") for n in range(100)]
    parts = [op("copy", 30_000, device) for device in ("GPU:0", "GPU:1")]
    certain = compare(
        ("a", "b"), on_gpu("", [*full[:90], *parts]), on_gpu("", full), margin=0.03
    ).certain
    assert not any("Gone" in line for line in certain)


def test_the_same_program_has_no_certain_difference():
    ops = [op("loader", 5 * MS), gpu(MS, 300)]
    assert compare(("a", "b"), on_gpu("", ops), on_gpu("", ops), margin=0.03).certain == ()


def test_unlike_machines_get_a_warning():
    a, b = on_gpu("V100", []), on_gpu("H100", [], cores=8)
    stored = compare(("a", "b"), a, b, margin=0.03, alternated=False)
    assert stored.notes[0] == (
        "Unlike environments, so the step times do not compare: cores 2 in A, 8 in B; device V100 "
        "in A, H100 in B."
    )
    assert not stored.comparable
    unknown = compare(("a", "b"), a, on_gpu("", [], cores=None), margin=0.03, alternated=False)
    assert (unknown.notes, unknown.comparable) == ((), True)


def in_environment(**changes):
    return [replace(s, machine=replace(s.machine, **changes)) for s in side([10, 10, 10])]


def test_unlike_software_is_a_difference_of_programs_that_alternated():
    a, b = in_environment(framework="torch 2.8"), in_environment(framework="torch 2.9")
    found = compare(("a", "b"), a, b, margin=0.03)
    assert found.comparable
    assert found.notes[0] == (
        "Unlike environments, which are part of the difference: framework torch 2.8 in A, torch "
        "2.9 in B."
    )


def test_processor_and_python_are_compared_without_patch_versions():
    a, b = in_environment(cpu="EPYC", python="3.12.1"), in_environment(cpu="EPYC", python="3.12.9")
    assert compare(("a", "b"), a, b, margin=0.03, alternated=False).comparable
    c = in_environment(cpu="Xeon", python="3.13.0")
    note = compare(("a", "b"), a, c, margin=0.03, alternated=False).notes[0]
    assert "processor EPYC in A, Xeon in B; Python 3.12 in A, 3.13 in B" in note


def test_environments_of_all_runs_are_listed_once():
    (a,) = in_environment(cpu="EPYC")[:1]
    (b,) = in_environment(cpu="Xeon")[:1]
    found = compare(("a", "b"), [a, a, b], [a], margin=0.03)
    assert [m.cpu for m in found.a.machines] == ["EPYC", "Xeon"]


def test_busy_pairs_count_if_no_others_were_made_but_are_not_quiet():
    a, b = side([10, 10, 10], background=1.0), side([20, 20, 20], background=1.0)
    comparison = compare(("a", "b"), a, b, margin=0.03, requested=2)
    assert (comparison.verdict, comparison.pairs, comparison.quiet) == ("slower", 3, False)
    assert "6 of 6 runs" in comparison.notes[0]


def test_busy_pairs_that_count_with_a_valid_one_are_not_quiet():
    a, b = ([*side([ms]), *side([ms] * 7, background=1.0)] for ms in (10, 20))
    comparison = compare(("a", "b"), a, b, margin=0.03, requested=1)
    assert (comparison.pairs, comparison.quiet) == (8, False)
    assert comparison.sentence.startswith("Void")
