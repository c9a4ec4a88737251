"""When a repeating piece of work counts as warmed up."""

from __future__ import annotations

import pytest

from stepwhy.capture.rhythm import Rhythm


def after(*durations_ns: int) -> Rhythm:
    rhythm = Rhythm()
    for duration_ns in durations_ns:
        rhythm.add(duration_ns)
    return rhythm


def test_the_first_run_is_counted_but_not_weighed() -> None:
    rhythm = after(1000, 10, 12)
    assert (rhythm.count, rhythm.total_ns) == (3, 22)


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
def test_two_equal_runs_or_patience_end_the_warm_up(
    durations_ns: tuple[int, ...], settled: bool
) -> None:
    assert after(*durations_ns).settled() is settled
