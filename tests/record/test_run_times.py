"""When repeated work counts as warmed up."""

from __future__ import annotations

import pytest

from stepwhy.record.steps.run_times import RunTimes, leading


def after(*durations_ns: int) -> RunTimes:
    times = RunTimes()
    for duration_ns in durations_ns:
        times.add(duration_ns)
    return times


def test_first_run_counts_without_its_time() -> None:
    times = after(1000, 10, 12)
    assert (times.count, times.total_ns) == (3, 22)


@pytest.mark.parametrize(
    ("durations_ns", "settled"),
    [
        ((), False),
        ((100, 100), False),
        ((900, 100, 110), True),
        ((900, 100, 200), False),
        ((900, 100, 200, 100, 200, 100, 200), False),
        ((900, 100, 200, 100, 200, 100, 200, 100), True),
    ],
)
def test_two_equal_runs_or_many_runs_end_the_warm_up(
    durations_ns: tuple[int, ...], settled: bool
) -> None:
    assert after(*durations_ns).settled() is settled


def test_no_work_has_no_leader() -> None:
    assert leading([]) is None
    assert leading([after(100)]) is None


def test_the_longest_work_of_every_step_leads() -> None:
    train, summary = after(*[10] * 20), after(*[40] * 20)
    assert leading([after(500), train, summary]) is summary


def test_long_work_of_few_steps_does_not_lead() -> None:
    train, checkpoint = after(*[10] * 40), after(*[500] * 4)
    assert leading([train, checkpoint]) is train


def test_cheap_work_does_not_lead_however_often_it_runs() -> None:
    train, poll = after(*[1000] * 20), after(*[1] * 200)
    assert leading([train, poll]) is train
