"""Which of the recorded operations of steps with noted lines are kept."""

import pytest

from stepwhy.record.torch import line_window
from stepwhy.record.torch.line_rows import Operations


class Recorded:
    """An event of Kineto on the thread that drives the loop."""

    def __init__(self, name, start, duration=1, *, annotates=False):
        values = (name, start, duration)
        self.is_user_annotation = lambda: annotates
        self.name, self.start_ns, self.duration_ns = (lambda v=v: v for v in values)

    def start_thread_id(self):
        return 1

    def is_async(self):
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


class Nested:
    """Marks of the thread, and a step in which operations call others, which call others."""

    def events(self):
        here = [Recorded(line_window._HERE, start) for start in (10, 20)]
        inner = [Recorded("aten::as_strided", 201), Recorded("aten::select", 200, 3)]
        outer = [Recorded("aten::unbind", 200, 4), Recorded("aten::add", 204)]
        around = [Recorded("Optimizer.step#SGD.step", 205, 9), Recorded("aten::mul", 206)]
        engine = [
            Recorded("autograd::engine::evaluate_function: MulBackward0", 220, 5),
            Recorded("MulBackward0", 221, 3),
            Recorded("aten::mul", 222),
        ]
        annotated = [Recorded("my::layer", 230, 4, annotates=True), Recorded("aten::add", 231)]
        return here + inner + outer + around + engine + annotated


def test_of_too_many_operations_those_that_others_call_are_left_out(monkeypatch):
    every = line_window._events(Nested(), READINGS)
    monkeypatch.setattr(line_window, "_MOST_EVENTS", 10)
    kept = line_window._events(Nested(), READINGS, 200)
    assert [event.name for event in kept] == [
        "aten::unbind", "aten::add", "Optimizer.step#SGD.step", "aten::mul",
        "autograd::engine::evaluate_function: MulBackward0", "MulBackward0", "aten::mul",
        "my::layer", "aten::add",
    ]  # fmt: skip
    assert len(every) == 13
    whole, short = Operations(every), Operations(kept)
    assert [unit for unit in whole.units if unit[0] >= 200] == short.units
    assert whole.calls == short.calls
