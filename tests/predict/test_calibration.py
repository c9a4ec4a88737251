"""Calibrated intervals: weights by hand, and coverage on synthetic fixes."""

import math

import numpy as np
import pytest

from stepwhy.predict.calibration import (
    Measured,
    Record,
    Structure,
    calibrated,
    score,
    weighted_quantile,
)

MODEL = Structure(1000, 800, 1250)


def fixes(scores, family="removed", **fields):
    return tuple(Measured(f"p{n}", family, s, 0.01, **fields) for n, s in enumerate(scores))


@pytest.mark.parametrize(
    ("measured", "expected"), [(1000, 0), (800, -1), (1250, 1), (1250**2 / 1000, 2)]
)
def test_the_ends_of_the_models_interval_score_one(measured, expected):
    assert score(MODEL, measured) == pytest.approx(expected)


def test_without_measured_fixes_the_interval_is_that_of_the_model():
    assert calibrated(MODEL, "removed", Record()) == (800, 1250)


@pytest.mark.parametrize(
    ("level", "expected"),
    [(0.5, 2), (0.6, 3), (0.75, 3), (0.76, None)],  # weights 1, 1, 1, and 1 at infinity
)
def test_the_new_fix_counts_as_one_at_infinity(level, expected):
    assert weighted_quantile([3, 1, 2], [1, 1, 1], level) == expected


def test_thirteen_fixes_of_a_kind_are_enough():
    low, high = calibrated(MODEL, "removed", Record(fixes([0.5] * 13)))
    # All lie halfway to the upper end, so the upper end moves there.
    assert high == math.ceil(1000 * 1.25**0.5)
    twelve = calibrated(MODEL, "removed", Record(fixes([0.5] * 12)))
    assert twelve == (800, 1250)
    assert low < 1000


def test_few_fixes_only_widen():
    assert calibrated(MODEL, "removed", Record(fixes([2.0])))[1] == math.ceil(1000 * 1.25**2)


def test_other_kinds_count_less():
    own, others = fixes([0.5] * 13), fixes([3.0] * 2, "overlapped")
    assert calibrated(MODEL, "removed", Record((*own, *others)))[1] > 1250
    many = Record((*fixes([0.5] * 60), *others))
    assert calibrated(MODEL, "removed", many)[1] == math.ceil(1000 * 1.25**0.5)


def test_fixes_of_this_machine_count_three_times_and_so_does_the_new_one():
    lab, local = fixes([0.5] * 30), fixes([2.0] * 2, on_this_machine=True)
    # 3 of 39 units are the new fix and 6 the local ones, which hold the quantile of 92.5 %.
    assert calibrated(MODEL, "removed", Record((*lab, *local)))[1] > 1250
    few = fixes([0.5] * 5, on_this_machine=True)
    assert calibrated(MODEL, "removed", Record(few)) == (800, 1250)


@pytest.mark.parametrize(("known", "local"), [(20, False), (13, False), (13, True)])
def test_85_of_100_new_fixes_are_inside(known, local):
    draw = np.random.default_rng(17)
    held = total = 0
    for _ in range(400):
        scores = [draw.normal(-0.4, 0.8) for _ in range(known + 1)]
        record = Record(fixes(scores[1:], on_this_machine=local))
        low, high = calibrated(MODEL, "removed", record)
        below, above = math.log(1000 / 800), math.log(1250 / 1000)
        new = 1000 * math.exp(scores[0] * (below if scores[0] < 0 else above))
        held += low <= new <= high
        total += 1
    assert 0.83 <= held / total <= 0.97


def test_one_program_is_left_out():
    record = Record(fixes([1, 2]))
    assert [fix.name for fix in record.without("p0").fixes] == ["p1"]


def test_a_prediction_cites_the_record_of_its_kind():
    record = Record(fixes([0.1, 0.2, 0.3], inside=True) + fixes([5], "overlapped"))
    (sentence,) = record.sentences("removed")
    assert sentence.startswith("3 fixes that remove work, of various causes, were measured: the ")
    assert sentence.endswith("1 % of the step, and 3 of 3 gains were within the predicted range.")
    (sentence,) = record.sentences("overlapped")
    assert sentence.startswith("One fix that moves work beside the step was measured: the error")
    assert record.sentences("replaced") == ()
