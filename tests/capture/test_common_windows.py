"""Ranks open their windows at the same steps, without asking each other."""

import pytest

from stepwhy.capture import common_windows
from stepwhy.capture.common_windows import may_open
from stepwhy.capture.torch.window_limits import ACTIVE_STEPS


@pytest.fixture
def ranks(monkeypatch):
    """Sets the number of ranks of the job."""
    return lambda count: monkeypatch.setattr(common_windows, "place_in_job", lambda: (0, count))


@pytest.mark.parametrize("count", [None, 1])
def test_a_single_rank_opens_its_window_when_it_is_ready(count, ranks):
    ranks(count)
    assert all(map(may_open, range(200)))


def test_several_ranks_open_at_the_same_few_steps(ranks):
    ranks(2)
    assert [step for step in range(260) if may_open(step)] == [12, 22, 52, 102, 152, 202, 252]


def test_no_window_holds_what_happens_every_tenth_step(ranks):
    ranks(2)
    for step in filter(may_open, range(300)):
        # The first logged step is the second one of the program; one warms up, one writes.
        ours = {number + 1 for number in range(step, step + ACTIVE_STEPS + 2)}
        assert not any(number % 10 in (0, 9) for number in ours)
