"""What stands above the verdict."""

import pytest

from stepwhy.analyse.answers.verdict import Decision
from stepwhy.analyse.facts import Facts
from stepwhy.diagnose.shared.rule import SHARE_OF_TRAINING
from stepwhy.engine.assemble import assemble, verdict_of
from stepwhy.result import Evidence, Finding
from stepwhy.result.reasons import Gap, Lack
from stepwhy.trace import Kind
from tests.analyse.timeline import Timeline


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


def marked(setup):
    """Four marked steps of 10 ms on a device, after some time of compilation."""
    line = Timeline()
    line.add(line.thread(), Kind.COMPILE, 0, setup)
    line.steps(*range(setup, setup + 50, 10))
    line.add(line.stream(), Kind.KERNEL, setup, setup + 40)
    return assemble(Facts(line.trace(framework="pytorch")), "run", "kineto").verdict


def test_set_up_that_takes_most_of_the_record_stands_above_the_verdict():
    assert marked(160).bound_by == marked(20).bound_by == "compute"
    assert marked(160).caveat == (
        "Set-up takes 80 % of the recorded time; the report covers the rest."
    )
    assert marked(20).caveat == ""


@pytest.mark.parametrize(("share", "is_named"), [(0.6, True), (0.4, False)])
def test_what_interrupts_the_steps_for_most_of_the_training_is_fixed_first(share, is_named):
    evidence = (Evidence(SHARE_OF_TRAINING, share, "fraction"),)
    finding = Finding("frequent-evaluation", "found", "Evaluate less often", evidence=evidence)
    decision = Decision("unknown", 0.0, Gap(Lack.EVENTS))
    assert verdict_of(decision, [finding]).sentence.startswith("Evaluate") is is_named
