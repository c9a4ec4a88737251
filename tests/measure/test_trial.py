"""The analysis of trials, with fake runs."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from stepwhy.diagnose import TABLE
from stepwhy.measure.fixes import FIXES, first_fix, fix_for, fix_for_edit, fix_named
from stepwhy.measure.stats.switched import arm_of_block
from stepwhy.measure.trial import Budget, TrialRun, compare_losses, conduct, fitted
from stepwhy.measure.trial_report import report, tried
from stepwhy.result import Finding, Saving, parse_edit

MS = 1_000_000
PLAIN = fix_named("loader-workers")
SWITCHED = fix_named("anomaly-detection-off")


class FakeRunner:
    """Runs of a program that takes 10 ms per step, and `gain` less with the fix."""

    def __init__(self, gain=0.0, noise=0.01, steps=200, run_s=5.0, *, is_timed=True, applies=True):
        self.gain, self.noise, self.steps, self.run_s = gain, noise, steps, run_s
        self.is_timed, self.applies = is_timed, applies
        self.random = np.random.default_rng(7)
        self.order, self.now_s = [], 0.0

    def elapsed_s(self):
        return self.now_s

    def _durations(self, factors):
        drift = np.exp(self.random.normal(0, self.noise))
        noise = np.exp(self.random.normal(0, self.noise, len(factors)))
        return tuple(int(d) for d in 10 * MS * drift * noise * factors)

    def _made(self, fix, factors, blocks=()):
        self.now_s += self.run_s
        self.order.append(fix)
        changed = ("a change",) if fix != "off" and self.applies else ()
        left = () if self.applies else ("something",)
        return TrialRun(f"{len(self.order)}", fix, self._durations(factors), blocks, changed, left)

    def run(self, *, fix):
        factor = 1 - self.gain if fix else 1.0
        return self._made("on" if fix else "off", np.full(self.steps, factor))

    def run_switched(self, block_steps, warm_up):
        blocks = tuple(int(b) for b in np.arange(self.steps - warm_up) // block_steps)
        factors = np.array([1 - self.gain * arm_of_block(b) for b in blocks])
        return self._made("switched", factors, blocks)


def outcome(about, runner, seconds=180.0):
    found = conduct(about, runner.run(fix=False), runner, Budget(seconds))
    return report("python train.py", about, tried(about, "", None), found, None)


@pytest.mark.parametrize("about", [PLAIN, SWITCHED])
def test_a_gain_is_found(about):
    runner = FakeRunner(gain=0.3)
    found = outcome(about, runner)
    assert found.verdict == "gain"
    assert found.low_ns <= 3 * MS <= found.high_ns
    assert found.low_ns <= found.gain_ns <= found.high_ns
    assert found.step_ns == pytest.approx(10 * MS, rel=0.05)
    assert found.changed == ("a change",)


@pytest.mark.parametrize("about", [PLAIN, SWITCHED])
def test_no_gain_is_told_from_not_knowing(about):
    assert outcome(about, FakeRunner(noise=0.002)).verdict == "no gain"
    assert outcome(about, FakeRunner(noise=0.5), seconds=20).verdict == "cannot tell"


def test_a_slower_step_is_no_gain():
    found = outcome(SWITCHED, FakeRunner(gain=-0.5))
    assert found.verdict == "no gain"
    assert found.gain_ns < 0
    assert "longer" in found.sentence


def test_unobserved_runs_are_compared_with_each_other_only():
    runner = FakeRunner(gain=0.3)
    outcome(PLAIN, runner)
    assert runner.order[:5] == ["off", "on", "off", "off", "on"]


def test_observed_runs_count_the_first_one():
    runner = FakeRunner(gain=0.3, is_timed=False)
    outcome(PLAIN, runner)
    assert runner.order[:4] == ["off", "on", "on", "off"]


def test_a_switchable_fix_needs_few_runs():
    runner = FakeRunner(gain=0.3)
    assert outcome(SWITCHED, runner).method == "blocks"
    assert runner.order.count("switched") <= 3


@pytest.mark.parametrize("changes", [{"is_timed": False}, {"steps": 20}])
def test_whole_runs_are_compared_where_steps_cannot_be_switched(changes):
    assert outcome(SWITCHED, FakeRunner(gain=0.3, **changes)).method == "runs"


def test_the_budget_ends_the_experiment():
    runner = FakeRunner(noise=0.3, run_s=40.0)
    outcome(PLAIN, runner, seconds=100)
    assert len(runner.order) <= 5


@pytest.mark.parametrize("about", [PLAIN, SWITCHED])
def test_a_fix_that_changes_nothing_is_refused(about):
    found = outcome(about, FakeRunner(applies=False))
    assert found.verdict == "refused"
    assert about.missing in found.reason
    assert "something" in found.reason
    assert found.todo


def test_a_result_that_is_of_no_use_is_refused():
    class Diverging(FakeRunner):
        def _made(self, fix, factors, blocks=()):
            made = super()._made(fix, factors, blocks)
            return replace(made, refused=("the replicas differ",) if fix != "off" else ())

    for about in (PLAIN, SWITCHED):
        runner = Diverging(gain=0.3)
        found = outcome(about, runner)
        assert (found.verdict, found.reason) == ("refused", "the replicas differ")
        assert len(runner.order) == 2


def test_rare_long_steps_are_compared_in_whole_runs_by_their_mean():
    rarely = fix_named("summaries-rarely")
    runner = FakeRunner(noise=0.001)
    durations = runner._durations
    # Each 50th step of a run without the fix takes six times as long.
    runner._durations = lambda factors: tuple(
        d * (6 if runner.order[-1] == "off" and i % 50 == 0 else 1)
        for i, d in enumerate(durations(factors))
    )
    found = outcome(rarely, runner)
    assert (found.method, found.statistic) == ("runs", "mean")
    assert found.gain_ns == pytest.approx(1 * MS, rel=0.1)
    assert not any(fix.switchable for fix in FIXES if fix.statistic == "mean")


@pytest.mark.parametrize(
    ("durations", "statistic"),
    [
        # Five steps are launched, and the sixth waits for the device.
        ([2, 2, 3, 2, 2, 49] * 20, "mean"),
        ([10] * 119 + [60], "median"),
        ([9, 10, 11] * 40, "median"),
    ],
)
def test_steps_of_a_host_that_runs_ahead_are_compared_by_their_mean(durations, statistic):
    first = TrialRun("000", "off", tuple(d * MS for d in durations))
    found = fitted(SWITCHED, first)
    assert (found.statistic, found.switchable) == (statistic, statistic == "median")


def test_the_false_positive_rate_is_held():
    verdicts = []
    for seed in range(40):
        runner = FakeRunner(noise=0.03)
        runner.random = np.random.default_rng(seed)
        verdicts.append(outcome(SWITCHED if seed % 2 else PLAIN, runner).verdict)
    assert verdicts.count("gain") <= 2


def test_the_prediction_stands_beside_the_measurement():
    runner = FakeRunner(gain=0.3)
    finding = Finding("serial-input", "found", "", saving=Saving(2 * MS, 4 * MS, "input=free"))
    found = conduct(PLAIN, runner.run(fix=False), runner, Budget(180))
    result = report("python train.py", PLAIN, tried(PLAIN, "2", finding), found, finding)
    assert (result.predicted_low_ns, result.predicted_high_ns) == (2 * MS, 4 * MS)
    assert result.fix.diagnosis == "serial-input"
    assert result.sentence.startswith("loader-workers=2 gains ")


def runs(*sides):
    return [TrialRun("", fix, (1,), losses=tuple(losses)) for fix, losses in sides]


@pytest.mark.parametrize(
    ("sides", "expected"),
    [
        ([("off", [1, 0.5]), ("on", [1.001, 0.5])], "agree"),
        ([("off", [1, 0.5]), ("on", [1, 0.7])], "differ"),
        ([("off", [1, None]), ("on", [1, None])], "agree"),
        ([("off", [1, 0.5]), ("on", [1, 0.7]), ("off", [1, 0.8])], "not compared"),
        ([("off", [1]), ("switched", [1])], "not compared"),
        ([("off", []), ("on", [])], "not seen"),
    ],
)
def test_losses(sides, expected):
    assert compare_losses(runs(*sides)) == expected


def test_every_fix_names_diagnoses_that_exist():
    for about in FIXES:
        for diagnosis in about.diagnoses:
            assert diagnosis.replace("-", "_") in TABLE


def test_a_fix_is_chosen_by_framework():
    assert fix_for("serial-input", "pytorch").name == "loader-workers"
    assert fix_for("serial-input", "tensorflow").name == "parallel-map"
    assert fix_for("serial-input", "jax") is None
    assert fix_for("serial-input", "tensorflow", parse_edit("input=prefetch")).name == (
        "data-prefetch"
    )
    assert fix_for("gc-pause", "jax").name == "gc-rarely"
    assert fix_for("repeated-preprocessing", "tensorflow").name == "data-cache"
    assert fix_for("repeated-preprocessing", "tensorflow", parse_edit("ops=gone")) is None


def test_the_first_finding_with_a_fix_is_tried():
    findings = [
        Finding("gc-pause", "clear", ""),
        Finding("dominant-op", "found", ""),
        Finding("worker-respawn", "found", ""),
        Finding("serial-input", "found", ""),
    ]
    assert first_fix(findings, "pytorch")[0].name == "persistent-workers"
    assert first_fix(findings, "pytorch", "serial-input")[0].name == "loader-workers"
    assert first_fix(findings, "pytorch", "gc-pause") is None


@pytest.mark.parametrize(
    ("edit", "name", "value"),
    [
        ("input=free", "constant-batch", ""),
        ("input=workers:3", "loader-workers", "3"),
        ("input=prefetch", "loader-workers", "1"),
    ],
)
def test_edits_have_fixes(edit, name, value):
    about, argument = fix_for_edit(parse_edit(edit), "pytorch")
    assert (about.name, argument) == (name, value)
    assert fix_for_edit(parse_edit("kernels=2x"), "pytorch") is None


@pytest.mark.parametrize(
    ("name", "edit", "argument"),
    [
        ("loader-workers", "input=workers:7", "7"),
        ("loader-workers", "input=gone", None),
        ("loader-workers", None, None),
        ("parallel-map", "input=workers:7", ""),
        ("torch-threads", "threads=2", "2"),
        ("summaries-rarely", "storage=gone", None),
        ("fused-optimizer", "ops:SGD*=fused", ""),
    ],
)
def test_a_fix_knows_which_edit_it_makes_real(name, edit, argument):
    assert fix_named(name).argument_for(edit and parse_edit(edit)) == argument


@pytest.mark.parametrize(
    ("name", "value", "takes"),
    [
        ("loader-workers", "4", True),
        ("loader-workers", "four", False),
        ("loader-workers", "0", False),
        ("autocast", "bfloat16", True),
        ("autocast", "float64", False),
        ("jax-jit", "sums:loss_of", True),
    ],
)
def test_arguments_that_make_no_sense_are_not_taken(name, value, takes):
    assert fix_named(name).takes(value) is takes
