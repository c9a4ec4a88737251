"""The step with some of its work beside it."""

import pytest

from stepwhy.analyse.input.overlap import displaced_ns, overlapped_ns


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 600),  # the work of one worker takes longest
        ({"workers": 2}, 400),  # the rest of the step
        ({"workers": 2, "cpu_ns": 1000, "cores": 2}, 500),  # the cores
        ({"workers": 2, "cpu_ns": 9000, "cores": 2}, 1000),  # no longer than it is
        ({"workers": 2, "cpu_ns": 9000}, 400),
    ],
)
def test_the_longest_of_rest_workers_and_cores(fields, expected):
    assert overlapped_ns(1000, 600, 600, **{"workers": 1, **fields}) == expected


@pytest.mark.parametrize(
    ("cpu_ns", "expected"),
    [
        (800, 600),  # the rest runs on one core: the other one is free
        (1400, 800),  # on both cores: it waits for the work
        (1100, 700),  # on both cores half of the time
        (None, 600),
        (9000, 1000),  # no longer than it is
    ],
)
def test_work_beside_the_step_takes_cores_from_operations(cpu_ns, expected):
    assert displaced_ns(1000, 400, 200, 1, cpu_ns=cpu_ns, cores=2) == expected


def test_several_workers_take_cores_for_a_shorter_time():
    one, two = (displaced_ns(1000, 400, 300, n, cpu_ns=1500, cores=4) for n in (1, 2))
    assert one - 600 == pytest.approx(2 * (two - 600), abs=2)
    assert two > 600


def test_what_no_longer_runs_is_not_delayed():
    assert displaced_ns(1000, 800, 700, 1, cpu_ns=1100, cores=2) == 700
