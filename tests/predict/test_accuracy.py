"""The record of predictions: each pair without itself, and the package's copy of it."""

from pathlib import Path

import pytest

from stepwhy.cli.lab_accuracy import calibration, stored_accuracy, stored_gpu_grade
from stepwhy.predict import calibration as shipped
from stepwhy.predict.accuracy import recomputed, record_of
from stepwhy.predict.calibration import Record
from stepwhy.predict.cpu import predict
from stepwhy.result import Accuracy, PairAccuracy, PricingInputs

INPUTS = PricingInputs(1_000_000, 400_000, "removed")  # 600,000 remain, 450,000 to 680,000


def pair(name, fixed_ns, **fields):
    about = {"inputs": INPUTS, "quiet": True, "fixed_steps_ns": (fixed_ns,) * 3}
    return PairAccuracy(name, "graph-growth", **{**about, "fixed_reach_ns": 5_000, **fields})


def test_each_interval_is_calibrated_without_its_own_pair():
    far = [pair(f"p{n:02}", 600_000) for n in range(13)] + [pair("q", 900_000)]
    pairs = {one.name: one for one in recomputed(Accuracy(tuple(far))).pairs}
    assert not pairs["q"].is_inside
    assert pairs["q"].high_ns < 900_000
    others = Record(tuple(fix for fix in record_of(Accuracy(tuple(far))).fixes if fix.name != "q"))
    assert pairs["q"].high_ns == predict(INPUTS, others).high_ns
    assert pairs["p00"].is_inside
    assert pairs["p00"].naive_ns == 600_000


@pytest.mark.parametrize(
    "fields",
    [
        {"quiet": False},
        {"fixed_reach_ns": 60_000},
        {"fixed_reach_ns": None},
        {"inputs": None},
        {"error": "no"},
    ],
)
def test_uncertain_and_failed_pairs_do_not_calibrate(fields):
    accuracy = recomputed(Accuracy((pair("p", 600_000, **fields),)))
    assert record_of(accuracy).fixes == ()


def test_the_more_certain_measurement_counts():
    one = pair("p", 700_000, gain_ns=310_000, gain_low_ns=309_000, gain_high_ns=311_000)
    assert one.measured_ns == 690_000
    assert one.noise == 0.001
    assert pair("p", 700_000).measured_ns == 700_000


def test_the_packages_calibration_is_that_of_the_lab():
    accuracy = stored_accuracy()
    assert recomputed(accuracy) == accuracy, "run 'stepwhy lab grade --recompute'"
    file = Path(shipped.__file__).parent / shipped.CALIBRATION_FILE
    assert file.exists() == bool(accuracy.pairs)
    if accuracy.pairs:
        grade = stored_gpu_grade()
        assert file.read_bytes() == calibration(accuracy, grade)
        assert shipped.shipped_record() == record_of(accuracy, grade)
