"""Ranks open their windows at the same steps, without asking each other."""

import pytest

from stepwhy.record.torch.window_limits import ACTIVE_STEPS
from stepwhy.record.windows import common_windows
from stepwhy.record.windows.common_windows import RequestedStep, may_open


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


def opened(request, steps):
    """The steps at which a requested window would open."""
    found = []
    for step in steps:
        if request.may_open(step):
            found.append(step)
            request.met()
    return found


def test_a_requested_window_opens_at_the_step_that_all_were_told():
    request = RequestedStep()
    assert request.accept(100)
    assert opened(request, range(40, 200)) == [100]
    assert not request.is_open


def test_a_rank_that_reads_the_request_late_opens_where_others_do_that_have():
    found = []
    for first in (101, 107, 116):
        request = RequestedStep()
        request.accept(100)
        found += opened(request, range(first, 200))
    assert found == [116, 116, 132]


def test_steps_with_several_lines_open_at_the_first_line_after_the_named_one():
    request = RequestedStep()
    request.accept(100)
    assert opened(request, range(2, 200, 5)) == [102]


def test_a_request_lapses_if_no_window_can_open():
    request = RequestedStep()
    request.accept(100)
    assert [step for step in range(90, 300) if request.may_open(step)] == [100, 116, 132, 148]
    assert not request.is_open


def test_a_process_opens_three_windows_on_request():
    request = RequestedStep()
    accepted = []
    for step in range(100, 600, 100):
        accepted.append(request.accept(step))
        assert not request.is_open or not request.accept(step)
        opened(request, [step - 1, step])
    assert accepted == [True, True, True, False, False]


def test_after_a_failure_no_request_is_accepted():
    request = RequestedStep()
    request.refuse()
    assert not request.accept(100)
