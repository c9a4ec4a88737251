"""What recording operations adds to the wait for input, by line."""

import numpy as np
import pytest
from tests.analyse.timeline import Timeline

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lines.profiled_input import unprofiled_input
from stepwhy.trace import Kind

DECODE, LOOP, MODEL = 0, 1, 2


def input_times(*, wait, ops=10, is_measured=True):
    """Times of the lines in the input of two recorded steps, µs; each decodes and loops for 200.

    Args:
        wait: Wait for a batch in an unprofiled step, µs.
        ops: Number of operations that the line of the loop calls in a recorded step.
        is_measured: Whether the wait was measured.
    """
    time = Timeline(unit_ns=1000).steps(0, 1000, 2000)
    main = time.thread()
    for start in (0, 1000):
        time.mark(start, start + 1000, profiled=1)
        time.add(main, Kind.INPUT, start, start + 400, name="DataLoader.__next__")
        for number in range(ops):
            begin = start + 200 + number * 200 / ops
            time.add(main, Kind.OP, begin, begin + 100 / ops, name="aten::detach")
        time.add(main, Kind.OP, start + 400, start + 1000, name="aten::mm")
    for number in range(20):
        start = 2000 + number * (600 + wait)
        time.mark(start, start + 600 + wait, wait=wait if is_measured else None)
    facts = Facts(time.trace(framework="pytorch"))
    starts = np.array([0, 200, 400, 1000, 1200, 1400]) * 1000
    line = np.array([DECODE, LOOP, MODEL] * 2)
    times = np.array([200, 200, 0] * 2) * 1000.0
    found = unprofiled_input(facts, starts, line, times) / 1000
    assert found[:3].tolist() == found[3:].tolist()
    return found[:3].tolist()


def test_what_is_added_belongs_to_the_line_whose_operations_were_recorded():
    assert input_times(wait=360) == pytest.approx([200, 160, 0])


def test_recording_an_operation_takes_microseconds_at_most():
    assert input_times(wait=200) == pytest.approx([200, 150, 0])


@pytest.mark.parametrize(
    "other",
    [{"wait": 400}, {"wait": 500}, {"wait": 360, "ops": 0}, {"wait": 360, "is_measured": False}],
)
def test_times_stay_where_nothing_is_known_to_be_added_by_operations(other):
    assert input_times(**other) == [200, 200, 0]
