"""Which of the recorded operations of steps with noted lines are kept."""

import pytest

from stepwhy.record.torch import line_window


class Recorded:
    """An event of Kineto on the thread that drives the loop."""

    def __init__(self, name, start):
        values = (name, start, 1)
        self.name, self.start_ns, self.duration_ns = (lambda v=v: v for v in values)

    def start_thread_id(self):
        return 1

    def is_async(self):
        return False

    def is_user_annotation(self):
        return False


class Results:
    """Marks of the thread, and two steps of ten operations, from 100 ns and from 200 ns on."""

    def events(self):
        here = [Recorded(line_window._HERE, start) for start in (10, 20)]
        steps = [Recorded("aten::add", first + op) for first in (100, 200) for op in range(10)]
        return here + steps


READINGS = [(9, 11), (19, 21)]


@pytest.mark.parametrize(
    ("most", "from_ns", "kept"), [(50, 0, 22), (15, 0, None), (15, 200, 10), (5, 200, None)]
)
def test_of_too_many_operations_those_of_the_last_step_are_kept(monkeypatch, most, from_ns, kept):
    monkeypatch.setattr(line_window, "_MOST_EVENTS", most)
    events = line_window._events(Results(), READINGS, from_ns)
    assert (events and len(events)) == kept
