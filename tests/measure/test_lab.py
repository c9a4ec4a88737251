"""Results of lab pairs."""

from datetime import date

import pytest
from msgspec.structs import replace
from tests.measure.results import MS, result, steady

from stepwhy.measure import judge_pair, sample
from stepwhy.result import Finding, Saving


def finding(name, saving=None, verdict="found"):
    return Finding(name, verdict, "Do something", MS, saving)


def runs(steps_ms, findings=(), background=0.0):
    samples = []
    for ms in steps_ms:
        explained = replace(result(steady(int(ms * MS)), background=background), findings=findings)
        samples.append(sample(explained, "run"))
    return samples


def judged(faulty, fixed, requested=2):
    return judge_pair(
        "tf1/x",
        "What it is",
        "graph-growth",
        faulty,
        fixed,
        requested=requested,
        day=date(2026, 1, 2),
    )


SAVING = Saving(3 * MS, 6 * MS, "leave the op out")


def test_found_first_and_fixed():
    outcome = judged(runs([20, 21], (finding("graph-growth", SAVING),)), runs([15, 16]))
    assert outcome.passed is True
    assert (outcome.found_first, outcome.faulty_runs, outcome.false_alarms) == (2, 2, 0)
    assert (outcome.predicted_low_ns, outcome.predicted_high_ns) == (3 * MS, 6 * MS)
    assert outcome.edit == "leave the op out"
    assert outcome.measured_ns == 5 * MS
    assert outcome.measured_low_ns <= 5 * MS <= outcome.measured_high_ns
    assert outcome.date == "2026-01-02"


def test_gain_is_of_the_step_times_in_the_reports():
    """Where some steps save, the report's step is the mean one, not the median."""
    found = (finding("checkpoint-stall", SAVING),)
    faulty = [
        replace(s, breakdown={"compute": 15 * MS, "storage": 5 * MS}) for s in runs([15, 15], found)
    ]
    outcome = judged(faulty, runs([15, 15]))
    assert outcome.measured_ns == 5 * MS


def test_found_but_not_first():
    findings = (finding("input-bound"), finding("graph-growth"))
    outcome = judged(runs([20, 20], findings), runs([15, 15]))
    assert outcome.passed is False
    assert outcome.found_first == 0
    assert outcome.other_first == ("input-bound",)
    assert outcome.predicted_low_ns is None


@pytest.mark.parametrize("verdict", ["clear", "no_data"])
def test_other_verdicts_are_not_false_alarms(verdict):
    clear = (finding("graph-growth", verdict=verdict),)
    outcome = judged(runs([20, 20], (finding("graph-growth"),)), runs([15, 15], clear))
    assert outcome.false_alarms == 0
    assert judged(runs([20, 20], clear), runs([15, 15])).other_first == ("",)


def test_a_false_alarm_on_the_fixed_side():
    both = (finding("graph-growth"),)
    assert judged(runs([20, 20], both), runs([15, 15], both)).passed is False


def test_busy_machine_gives_no_result():
    outcome = judged(runs([20, 20], (finding("graph-growth"),), background=1.0), runs([15, 15]))
    assert outcome.passed is None


def test_interval_uses_only_valid_pairs():
    found = (finding("graph-growth"),)
    faulty = [*runs([90], found, background=1.0), *runs([20, 22, 24], found)]
    outcome = judged(faulty, runs([10, 15, 16, 17]))
    assert (outcome.faulty_runs, outcome.fixed_runs, outcome.comparison.pairs) == (3, 4, 3)
    assert outcome.measured_ns == 6 * MS
    assert outcome.measured_low_ns < 6 * MS < outcome.measured_high_ns
