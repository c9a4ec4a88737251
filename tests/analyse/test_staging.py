"""Time in which the host stages an array for a device that waits for it."""

import pytest
from tests.analyse.timeline import MS, Timeline

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.run.host_path import host_path_ns
from stepwhy.trace import Kind

SIGNALS = frozenset({"runtime-calls"})


def staged(*kernels, work=Kind.FRAMEWORK, device=True, unit_ns=MS):
    """A step of 100 ms whose thread is in one call, while another stages an array for 60 ms."""
    line = Timeline(unit_ns).steps(0, 100)
    line.add(line.thread(), work, 0, 90, name="PJRT_LoadedExecutable_Execute")
    line.add(line.thread("stager"), Kind.FRAMEWORK, 10, 70, name="H2D Dispatch")
    for start, end in kernels:
        line.add(line.stream() if device else line.executor(), Kind.KERNEL, start, end)
    return Facts(line.trace(signals=SIGNALS))


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        ([(72, 100)], 60),
        ([(0, 20), (72, 100)], 50),  # the first kernel did not wait
        ([(0, 1), (65, 80)], 0),  # neither did one that began before the array was ready
        ([(0, 1), (40, 41), (68, 100)], 0),
        ([(0, 1), (40, 41), (60, 61), (72, 100)], 9),
    ],
)
def test_a_device_waits_for_an_array_only_while_it_computes_nothing(kernels, expected):
    assert staged(*kernels).breakdown["transfer"] == expected * MS


def test_a_thread_that_waits_for_an_array_launches_nothing_and_does_no_work():
    facts = staged((72, 100))
    assert facts.breakdown["dispatch"] == 12 * MS
    assert host_path_ns(facts) == 30 * MS


def test_a_thread_that_runs_python_meanwhile_does_not_wait_for_the_array():
    facts = staged((72, 100), work=Kind.PYTHON)
    assert (facts.breakdown["transfer"], facts.breakdown["python"]) == (0, 72 * MS)


def test_a_cpu_needs_no_staging():
    assert staged((72, 100), device=False).breakdown["transfer"] == 0


def test_a_short_one_mostly_launches_the_copy():
    assert staged((72, 100), unit_ns=1_000).breakdown["transfer"] == 0
    assert staged((72, 100), unit_ns=4_000).breakdown["transfer"] == 60 * 4_000
