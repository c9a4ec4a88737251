"""What fixing a loop of small operations may save."""

import pytest
from tests.passes.timeline import MS, Timeline

from stepwhy.diagnoses.eager_loop import diagnose
from stepwhy.passes.facts import Facts
from stepwhy.trace import Kind, Phase

# 100 operations of 20 us at one line, 20 us apart, of which Python is at no known line; then their
# backward pass, and another line.
LOOP_MS, OTHER_MS = 4, 1


@pytest.mark.parametrize(("backward_ms", "most_ms"), [(0, 4), (3, 5), (7, 6)])
def test_the_time_of_the_line_may_be_saved_up_to_half_more_than_the_cost(backward_ms, most_ms):
    drawn, end = Timeline(), LOOP_MS + backward_ms + OTHER_MS
    drawn.steps(0, end)
    thread = drawn.thread()
    for at in range(100):
        span = thread, Kind.OP, at * 0.04, at * 0.04 + 0.02
        drawn.add(*span, name="aten::mul", source="train.py(9): cell")
    if backward_ms:
        span = thread, Kind.OP, LOOP_MS, LOOP_MS + backward_ms
        drawn.add(*span, name="aten::bmm", source="train.py(9): cell", phase=Phase.BACKWARD)
    drawn.add(thread, Kind.OP, end - OTHER_MS, end, name="aten::mm", source="train.py(20): head")
    saving = diagnose(Facts(drawn.trace(framework="pytorch"))).saving
    assert saving.high_ns == pytest.approx(most_ms * MS, rel=0.1)


@pytest.mark.parametrize(("repeats", "verdict"), [(4, "clear"), (10, "found")])
def test_a_small_model_that_is_called_a_few_times_is_no_loop(repeats, verdict):
    drawn = Timeline().steps(0, 5)
    for at in range(100):
        span = drawn.thread(), Kind.OP, at * 0.04, at * 0.04 + 0.02
        drawn.add(*span, name=f"aten::op{at % (100 // repeats)}")
    assert diagnose(Facts(drawn.trace(framework="pytorch"))).verdict == verdict
