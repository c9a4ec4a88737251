"""Replays of a GPU's work are calibrated with the gains that the GPU lab measured."""

import pytest
from msgspec.structs import replace

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.run.host_path import least_step_ns
from stepwhy.cli.lab_accuracy import stored_gpu_grade
from stepwhy.predict import price
from stepwhy.predict.calibration import GpuGain, Record
from stepwhy.predict.gpu_gains import gains_of, reach
from stepwhy.result.edits import parse_edit
from stepwhy.trace.notation import parse
from tests.predict.test_replay import EXCHANGING, LAUNCHING, LOADING, WAITING

NOTHING = Record()


def measured(*ratios):
    return tuple(GpuGain(f"p{n}", ratio) for n, ratio in enumerate(ratios))


def test_four_gains_are_the_fewest_that_widen_and_nothing_narrows():
    assert reach(measured(2.0, 2.0, 2.0)) == 1.0
    assert reach(measured(1.1, 1.4, 1.2, 1.3)) == 1.4
    assert reach(measured(*[0.5] * 9)) == 1.0


def test_the_quantile_leaves_out_one_in_five():
    # The new one is at infinity: 8 of 10 are up to the eighth.
    assert (
        reach(measured(*[1.0 + n / 100 for n in range(1, 10)])) == 1.08
    )  # 8 of 9, and the new one


def test_the_lab_without_each_pair_holds_80_percent_of_them():
    gains = gains_of(stored_gpu_grade())
    others = [(one, [gain for gain in gains if gain is not one]) for one in gains]
    held = sum(one.ratio <= reach(rest) for one, rest in others)
    assert (held, len(gains)) == (12, 15)
    assert sum(gain.ratio <= 1 for gain in gains) == 6


def test_no_gain_of_the_lab_is_below_its_prediction_so_only_the_high_end_is_calibrated():
    known = [p for p in stored_gpu_grade().pairs if p.gain_ns is not None and p.predicted_high_ns]
    assert all(pair.gain_ns >= pair.predicted_low_ns for pair in known)


def test_predictions_that_were_widened_before_are_not_widened_twice():
    grade = stored_gpu_grade()
    once, twice = gains_of(grade), gains_of(replace(grade, reach=1.5))
    assert [gain.ratio for gain in twice] == pytest.approx(
        [1.5 * gain.ratio for gain in once], rel=1e-3
    )


def gain_ns(drawing, edit, factor):
    record = Record(on_gpu=measured(*[factor] * 9))
    return price(Facts(parse(drawing)), [parse_edit(edit)], record).gain_ns


def test_only_the_high_end_of_the_gain_is_multiplied():
    low, high = gain_ns(WAITING, "kernels=2x", 1.0)
    assert gain_ns(WAITING, "kernels=2x", 1.5) == (low, pytest.approx(1.5 * high, abs=2))


def test_a_gain_stops_at_the_work_that_the_host_keeps():
    facts = Facts(parse(WAITING))
    edit = parse_edit("kernels=2x")
    most_ns = facts.wall_ns - least_step_ns(facts, [edit])
    assert gain_ns(WAITING, "kernels=2x", 50.0)[1] == most_ns < facts.wall_ns


def test_launches_save_nothing_of_the_work_of_the_device():
    facts = Facts(parse(LAUNCHING))
    low, high = gain_ns(LAUNCHING, "dispatch=2x", 50.0)
    assert low < high == facts.wall_ns - facts.breakdown["compute"]


@pytest.mark.parametrize(
    ("drawing", "edit"), [(LOADING, "input=free"), (EXCHANGING, "communication=gone")]
)
def test_what_the_lab_did_not_measure_on_a_gpu_is_not_widened(drawing, edit):
    assert gain_ns(drawing, edit, 1.5) == gain_ns(drawing, edit, 1.0)


def test_the_note_says_which_gains_the_high_end_rests_on():
    facts, edit = Facts(parse(WAITING)), parse_edit("kernels=2x")
    found = price(facts, [edit], Record(on_gpu=measured(*[1.2] * 8, 1.4)))
    assert found.notes[-1].startswith("The high end is up to 20 % above that of the replay")
    assert "8 of 9 gains" in found.notes[-1]
    plain = price(facts, [edit], NOTHING)
    assert plain.notes == found.notes[:-1]
