"""Pacing: light steps, growing sampling intervals, lasting changes."""

import pytest

from stepwhy.capture.pacing import ChangeDetector, SamplingPace, is_light

MS = 1_000_000


def test_a_quarter_of_the_later_steps_is_light():
    later = [is_light(step) for step in range(32, 32 + 320)]
    assert sum(later) == 80
    assert not any(is_light(step) for step in range(16))


def test_light_steps_come_in_blocks_that_alternate_with_observed_ones():
    changes = sum(is_light(step) != is_light(step + 1) for step in range(64, 128))
    assert changes == 4


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


def test_a_change_of_a_fifth_may_be_noise():
    change = ChangeDetector()
    feed(change, 10 * MS, 400)
    assert feed(change, 12 * MS, 2000) == []


def test_each_change_is_noticed():
    change = ChangeDetector()
    found = [len(feed(change, d * MS, 1000)) for d in (10, 20, 10, 20)]
    assert found == [0, 1, 1, 1]
