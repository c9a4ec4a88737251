"""Which line slow steps run and others do not."""

import numpy as np
import pytest
from tests.analyse.timeline import Timeline

from stepwhy.analyse.lines.extra_lines import ExtraLine, extra_line

MS = 1_000_000
MAIN, STEP, SAVE = "train.py(9): main", "train.py(3): step", "train.py(5): save"


def spans(*steps):
    """Starts and ends of steps given in ms."""
    return np.asarray(steps, dtype=np.int64).reshape(-1, 2).T * MS


SLOW = spans((10, 210), (220, 420))
OTHERS = spans((0, 10), (210, 220), (420, 430))


def found(*visits, slow=SLOW, others=OTHERS):
    timeline = Timeline()
    for start, end, *lines in visits:
        text = timeline.builder.intern("; ".join(lines))
        timeline.builder.add("visits", start_ns=start * MS, end_ns=end * MS, lines=text)
    return extra_line(timeline.trace(), slow, others, 0.5)


def test_the_outermost_line_that_only_slow_steps_run():
    inner = "io.py(2): write"
    line = found(
        (0, 12, MAIN, STEP),
        (12, 208, MAIN, SAVE, inner),
        (208, 222, MAIN, STEP),
        (222, 418, MAIN, SAVE, inner),
        (418, 430, MAIN, STEP),
    )
    assert line == ExtraLine(SAVE, 1.0, inner, 1.0)


@pytest.mark.parametrize("late_ms", [-4, 0, 4])
def test_samples_may_be_a_little_late(late_ms):
    line = found(
        (0, 10 + late_ms, MAIN, STEP),
        (10 + late_ms, 210 + late_ms, MAIN, SAVE),
        (210 + late_ms, 220 + late_ms, MAIN, STEP),
        (220 + late_ms, 420 + late_ms, MAIN, SAVE),
        (420 + late_ms, 430, MAIN, STEP),
    )
    assert line.line == line.hottest == SAVE
    assert line.share > 0.9


def test_a_line_of_all_steps_explains_nothing():
    assert found((0, 430, MAIN, STEP)) is None


def test_little_of_the_difference_is_no_explanation():
    assert found((0, 50, MAIN, STEP), (50, 90, MAIN, SAVE), (90, 430, MAIN, STEP)) is None


def test_too_few_sampled_steps_show_nothing():
    assert found((10, 210, MAIN, SAVE), (210, 220, MAIN, STEP)) is None
    assert found() is None


def test_a_difference_that_is_shorter_than_samples_shows_nothing():
    slow, others = spans((10, 40), (50, 80)), spans((0, 10), (40, 50), (80, 90))
    visits = [(0, 10, MAIN), (10, 40, SAVE), (40, 50, MAIN), (50, 80, SAVE), (80, 90, MAIN)]
    assert found(*visits, slow=slow, others=others) is None


def test_nested_steps_without_samples_of_the_program_show_nothing():
    assert found((0, 430)) is None
