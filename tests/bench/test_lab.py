"""What a pair of the lab shows."""

from datetime import date

import pytest
from msgspec.structs import replace
from tests.bench.results import MS, result, steady

from stepwhy.bench import judge_pair, sample
from stepwhy.findings import Finding, Saving


def finding(name, saving=None, verdict="found"):
    return Finding(name, verdict, "Do something", MS, saving)


def runs(steps_ms, findings=(), background=0.0):
    made = []
    for ms in steps_ms:
        explained = replace(result(steady(int(ms * MS)), background=background), findings=findings)
        made.append(sample(explained, "run"))
    return made


def judged(faulty, fixed, wanted=2):
    return judge_pair(
        "tf1/x", "What it is", "graph-growth", faulty, fixed, wanted=wanted, day=date(2026, 1, 2)
    )


SAVING = Saving(3 * MS, 6 * MS, "leave the op out")


def test_found_first_and_fixed():
    said = judged(runs([20, 21], (finding("graph-growth", SAVING),)), runs([15, 16]))
    assert said.passed is True
    assert (said.found_first, said.faulty_runs, said.false_alarms) == (2, 2, 0)
    assert (said.predicted_low_ns, said.predicted_high_ns) == (3 * MS, 6 * MS)
    assert said.edit == "leave the op out"
    assert said.measured_ns == 5 * MS
    assert said.measured_low_ns <= 5 * MS <= said.measured_high_ns
    assert said.date == "2026-01-02"


def test_found_but_not_first():
    findings = (finding("input-bound"), finding("graph-growth"))
    said = judged(runs([20, 20], findings), runs([15, 15]))
    assert said.passed is False
    assert said.found_first == 0
    assert said.other_first == ("input-bound",)
    assert said.predicted_low_ns is None


@pytest.mark.parametrize("verdict", ["clear", "no_data"])
def test_looked_and_not_found_is_no_alarm(verdict):
    clear = (finding("graph-growth", verdict=verdict),)
    said = judged(runs([20, 20], (finding("graph-growth"),)), runs([15, 15], clear))
    assert said.false_alarms == 0
    assert judged(runs([20, 20], clear), runs([15, 15])).other_first == ("",)


def test_a_false_alarm_on_the_fixed_side():
    both = (finding("graph-growth"),)
    assert judged(runs([20, 20], both), runs([15, 15], both)).passed is False


def test_a_busy_machine_tells_nothing():
    said = judged(runs([20, 20], (finding("graph-growth"),), background=1.0), runs([15, 15]))
    assert said.passed is None


def test_the_interval_is_over_the_pairs_that_count():
    found = (finding("graph-growth"),)
    faulty = [*runs([90], found, background=1.0), *runs([20, 22, 24], found)]
    said = judged(faulty, runs([10, 15, 16, 17]))
    assert (said.faulty_runs, said.cured_runs, said.comparison.pairs) == (3, 4, 3)
    assert said.measured_ns == 6 * MS
    assert said.measured_low_ns < 6 * MS < said.measured_high_ns
