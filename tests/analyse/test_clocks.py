"""Device work on another clock than the calls that launched it."""

import pytest
from tests.analyse.timeline import Timeline

from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.facts import Facts
from stepwhy.result.reasons import Gap, Lack


def loop(offset):
    """Five steps of 10 whose device work is shifted by an offset."""
    line = Timeline().steps(0, 10, 20, 30, 40, 50)
    for i in range(20):
        at = 2.5 * i
        line.launch((at, at + 1), (at + 1 + offset, at + 2 + offset), i + 1)
    return decide(Facts(line.trace()))


@pytest.mark.parametrize("offset", [-1000, -3, 1000])
def test_work_before_its_launch_or_far_from_it_is_on_another_clock(offset):
    assert loop(offset).reason == Gap(Lack.COMMON_CLOCK)


@pytest.mark.parametrize("offset", [0, 0.5, 6])
def test_work_that_trails_its_launch_is_not(offset):
    assert loop(offset).bound_by == "host"


def test_one_stray_is_no_other_clock():
    line = Timeline().steps(0, 10, 20, 30)
    for i in range(12):
        at = 2.5 * i
        line.launch((at, at + 1), (at + 1, at + 2), i + 1)
    line.launch((29.5, 29.6), (29.2, 29.3), 99)
    assert decide(Facts(line.trace())).bound_by == "host"
