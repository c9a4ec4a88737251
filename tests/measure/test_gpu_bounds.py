"""What a session of the GPU lab should show at least: met, not met, or not measured."""

from datetime import date

from tests.measure.test_grade import run

from stepwhy.measure import grade_pair
from stepwhy.measure.gpu_bounds import bounds
from stepwhy.result.gpu import GpuPair, LivePoint

DAY = date(2026, 1, 2)


def pair(*, is_first=True, alarm=False, kept="yes", diagnosis="gc-pause"):
    faulty = run(*["gc-pause"] * is_first)
    graded = grade_pair("casts", diagnosis, [faulty], [run(*["gc-pause"] * alarm)], day=DAY)
    return GpuPair(graded, kept=kept)


def answers(pairs, points=(), *, is_gpu=True):
    found = bounds(pairs, points, planned=24, faults=22, is_gpu=is_gpu)
    return [bound.answer for bound in found]


def points(answer):
    names = ("device-time", "after-window", "abandoned-window")
    return [LivePoint(name, "", answer, "evidence") for name in names]


def test_a_complete_session_meets_all_bounds():
    pairs = [pair()] * 16 + [pair(is_first=False, kept="no")] * 4 + [pair(is_first=False)] * 4
    assert answers(pairs, points("passed")) == ["met"] * 6
    assert answers(pairs, points("passed"), is_gpu=False) == ["not measured"] * 6


def test_bounds_that_can_no_longer_be_met_are_not_met():
    pairs = [pair(is_first=False, kept="overlap", alarm=True)] * 10
    assert answers(pairs, points("failed")) == ["not met"] * 6


def test_a_short_session_leaves_bounds_open():
    assert answers([pair()] * 9, points("cannot tell")) == ["not measured"] * 6
    assert answers([]) == ["not measured"] * 6
    # Enough faults are found first, whatever the others show.
    assert answers([pair()] * 16)[:3] == ["met", "not measured", "met"]


def test_a_finding_in_a_pair_without_a_fault_is_a_false_alarm():
    assert answers([pair(diagnosis="", kept="")])[1] == "not met"
    assert answers([pair(diagnosis="", kept="", is_first=False)])[1] == "not measured"
