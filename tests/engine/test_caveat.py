"""What stands above the verdict."""

from stepwhy.engine.assemble import assemble
from stepwhy.passes.facts import Facts
from stepwhy.trace import Kind
from tests.passes.timeline import Timeline


def result_of(*durations):
    line = Timeline().steps(0, 10)
    line.add(line.executor(), Kind.KERNEL, 0, 10)
    at = 100
    for duration in durations:
        line.mark(at, at + duration)
        at += duration
    return assemble(Facts(line.trace(framework="pytorch")), "run", "kineto")


def test_long_steps_that_take_most_of_the_time_stand_above_the_verdict():
    result = result_of(*[10] * 20, 500, *[10] * 20, 500)
    assert result.verdict.caveat.startswith("Some steps take much longer: the mean is 33.3 ms, so ")
    assert "Some steps" not in result.steps.note


def test_a_few_long_steps_are_a_note():
    result = result_of(*[10] * 20, 100, *[10] * 20, 100)
    assert result.verdict.caveat == ""
    assert "Some steps take much longer" in result.steps.note
