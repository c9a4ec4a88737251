"""Pacing: light steps, growing sampling intervals, lasting changes."""

from itertools import groupby, pairwise

import pytest

from stepwhy.record.core.pacing import ChangeDetector, SamplingPace, StepPace, WritePace

MS = 1_000_000


def blocks(step_ns, steps):
    """Lengths of the alternating blocks of observed and light steps, by a clock of equal steps."""
    pace = StepPace()
    light = [False, *(pace.next_step(n * step_ns) for n in range(1, steps))]
    return [len(list(block)) for _, block in groupby(light)]


def test_a_quarter_of_the_later_long_steps_is_light():
    assert blocks(10 * MS, 256) == [32, 8, *[24, 8] * 6, 24]
    assert blocks(2000 * MS, 64)[:2] == [32, 8]


@pytest.mark.parametrize(("step_us", "light"), [(5000, 40), (1000, 1976), (200, 9976)])
def test_shorter_steps_are_observed_more_thinly_in_longer_runs(step_us, light):
    found = blocks(step_us * 1000, 8_000_000 // step_us)
    assert found[:2] == [32, 8]
    dense = found[: found.index(light)]
    assert set(dense[2:]) == {24, 8}
    assert 1_000_000 <= sum(dense) * step_us < 1_000_000 + 64 * step_us
    assert found[len(dense) : len(dense) + 4] == [light, 24, light, 24]


def test_steps_that_become_long_are_observed_again_soon():
    pace = StepPace()
    now_ns = light = 0
    while light < 10:
        now_ns += MS
        light = light + 1 if pace.next_step(now_ns) else 0
    later = [pace.next_step(now_ns + n * 100 * MS) for n in range(1, 26)]
    assert later == [True] * 19 + [False] * 6


def test_the_steps_after_a_pause_are_observed():
    pace = StepPace()
    while not pace.next_step(MS):
        pass
    pace.observe()
    assert not pace.light
    assert [pace.next_step(2 * MS) for _ in range(24)] == [False] * 23 + [True]


def test_sampling_interval_grows_with_the_run():
    pace = SamplingPace()
    taken = [t for t in range(0, 100_000 * MS, 10 * MS) if pace.due(t)]
    assert taken[1] - taken[0] == 20 * MS
    assert taken[-1] - taken[-2] >= 40 * MS
    hour = SamplingPace()
    count = sum(hour.due(t) for t in range(1, 3_600_000 * MS, 100 * MS))
    assert count < 9000  # of 36,000 that would have been possible


def feed(change, duration_ns, count):
    return [n for n in range(count) if change.add(duration_ns)]


def test_a_steady_run_never_changes():
    assert feed(ChangeDetector(), 10 * MS, 5000) == []


def test_pause_and_slow_block_are_not_changes():
    change = ChangeDetector()
    assert feed(change, 10 * MS, 200) == []
    assert feed(change, 5000 * MS, 1) == []
    assert feed(change, 10 * MS, 200) == []
    assert feed(change, 20 * MS, 48) == []
    assert feed(change, 10 * MS, 200) == []


@pytest.mark.parametrize("later", [6 * MS, 14 * MS, 100 * MS])
def test_a_lasting_change_is_noticed_once(later):
    change = ChangeDetector()
    feed(change, 10 * MS, 400)
    assert len(feed(change, later, 2000)) == 1


@pytest.mark.parametrize(("first_ms", "count"), [(0.5, 98), (60, 8)])
def test_a_loop_that_follows_a_short_one_is_a_change(first_ms, count):
    """As one that trains a new layer before the whole model: it may end within a block."""
    change = ChangeDetector()
    assert feed(change, round(first_ms * MS), count) == []
    assert len(feed(change, 20 * MS, 400)) == 1


def test_the_first_steps_are_those_after_a_restart():
    change = ChangeDetector()
    assert feed(change, MS, 50) == []
    change.restart()
    assert feed(change, 20 * MS, 400) == []


def test_slow_first_steps_are_no_other_loop():
    change = ChangeDetector()
    assert feed(change, 9000 * MS, 3) == []
    assert feed(change, 20 * MS, 400) == []


def test_a_change_of_a_fifth_may_be_noise():
    change = ChangeDetector()
    feed(change, 10 * MS, 400)
    assert feed(change, 12 * MS, 2000) == []


def test_each_change_is_noticed():
    change = ChangeDetector()
    found = [len(feed(change, d * MS, 1000)) for d in (10, 20, 10, 20)]
    assert found == [0, 1, 1, 1]


def test_records_are_pending_for_a_share_of_the_run():
    pace, time_ns, times = WritePace(), 5_000_000, []
    while time_ns < 100_000_000_000:
        times.append(time_ns)
        time_ns = pace.next_ns(time_ns)
    gaps = [b - a for a, b in pairwise(times)]
    assert (min(gaps), max(gaps)) == (10_000_000, 400_000_000)
    assert all(b - a <= max(10_000_000, (a - times[0]) // 32) for a, b in pairwise(times))
    # Each write takes up to 0.1 ms.
    assert len([time for time in times if time < 1_000_000_000]) < 80
    assert len(times) < 450


def test_blocks_of_many_steps_are_compared_like_single_ones():
    change = ChangeDetector(0.1)
    times = [*[(400 * MS, 20)] * 10, *[(460 * MS, 20)] * 10]
    assert [n for n, (time_ns, steps) in enumerate(times) if change.add(time_ns, steps)] == [17]


def test_the_reference_is_known_after_four_blocks():
    change = ChangeDetector()
    assert [change.reference_ns for _ in range(4) if not change.add(200 * MS, 10)] == [0] * 3 + [
        20 * MS
    ]
    change.add(20 * MS)
    assert change.pending_steps == 1
