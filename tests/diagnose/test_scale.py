"""Recorded times on the time scale of the breakdown."""

from types import SimpleNamespace

import pytest

from stepwhy.diagnose.shared.measure import on_scale
from stepwhy.result import CATEGORIES


def facts(recorded, breakdown):
    """Facts whose mean recorded step, and whose step without a profiler, divide like this; ns."""
    zero = dict.fromkeys(CATEGORIES, 0)
    wall = sum(breakdown.values())
    return SimpleNamespace(recorded=zero | recorded, breakdown=zero | breakdown, wall_ns=wall)


@pytest.mark.parametrize(
    ("recorded", "breakdown", "scaled"),
    [
        ({"compute": 200}, {"compute": 100}, 20),  # the profiler takes as long as the step
        ({"compute": 100}, {"compute": 100}, 40),
        ({"compute": 100}, {"compute": 300}, 120),  # other programs had the cores meanwhile
        # What was unexplained is Python, as samples show: none of it was in the recorded time.
        ({"compute": 50, "unexplained": 50}, {"compute": 100}, 40),
        ({}, {"compute": 100}, 40),
    ],
)
def test_the_time_of_a_category_is_as_much_longer_as_the_step_at_most(recorded, breakdown, scaled):
    assert on_scale(facts(recorded, breakdown), 40, "compute") == scaled
