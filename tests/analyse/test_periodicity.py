"""Loops that are told by what repeats in them."""

import pytest
from tests.analyse.timeline import Timeline

from stepwhy.analyse.facts import Facts
from stepwhy.engine.assemble import assemble
from stepwhy.result.reasons import Cut
from stepwhy.show.json import render
from stepwhy.trace import Kind, Phase


def test_a_loop_told_by_what_repeats_can_be_written_as_json():
    timeline = Timeline()
    for at in range(0, 50, 10):
        timeline.add(timeline.thread(), Kind.OP, at, at + 4, name="load")
        timeline.add(timeline.thread(), Kind.OP, at + 4, at + 9, name="train")
    facts = Facts(timeline.trace())
    assert facts.steps.source == "periodicity"
    assert type(facts.steps.confidence) is float
    assert '"source":"periodicity"' in render(assemble(facts, "x", "test"))


FORWARD = ["aten::linear", "aten::relu", "aten::linear", "aten::relu", "aten::linear", "aten::sum"]


def passes(count, forward=lambda _: FORWARD, *, engine="main", line=None, pause=lambda _: 0):
    """Forward and backward passes without a pause, set-up before them, and no optimizer."""
    line, at = line or Timeline(), 40
    for _ in range(10):
        line.add(line.thread(), Kind.OP, 0, 1, name="aten::randn")
    for i in range(count):
        names, at = forward(i), at + pause(i)
        for name in names:
            line.add(line.thread(), Kind.OP, at, at + 1, name=name)
            at += 1
        for name in reversed(names):
            backward = {"name": f"evaluate_function: {name}", "phase": int(Phase.BACKWARD)}
            line.add(line.thread(engine), Kind.OP, at, at + 2, **backward)
            at += 2
    return line


@pytest.mark.parametrize("engine", ["main", "autograd"])
@pytest.mark.parametrize("count", [3, 100])
def test_forward_and_backward_passes_are_steps(count, engine):
    steps = Facts(passes(count, engine=engine).trace()).steps
    assert (len(steps.starts), steps.source) == (count, "periodicity")
    assert set(steps.durations_ns.tolist()) == {18_000_000}
    assert Cut.BY_PASSES in steps.notes


def test_equal_passes_are_steps_however_long_each_takes():
    steps = Facts(passes(40, pause=lambda i: (0, 40, 9, 160)[i % 4]).trace()).steps
    assert len(steps.starts) == 40


def test_passes_that_differ_are_steps_only_if_they_take_about_equally_long():
    def forward(i):
        return FORWARD[:4] if i in {5, 17, 18, 30} else FORWARD

    for pause, source in ((lambda _: 0, "periodicity"), (lambda i: 70 * (i % 3), "whole-trace")):
        assert Facts(passes(41, forward, pause=pause).trace()).steps.source == source


def test_two_passes_are_no_loop():
    assert Facts(passes(2).trace()).steps.source == "whole-trace"


def test_passes_of_two_models_that_take_turns_make_one_step():
    steps = Facts(passes(40, lambda i: FORWARD[: 3 + 3 * (i % 2)]).trace()).steps
    assert set(steps.durations_ns.tolist()) == {27_000_000}
    assert len(steps.starts) == 20


def test_a_trace_with_an_optimizer_has_the_steps_of_the_optimizer_or_none():
    line = passes(8)
    optimizer = {"name": "Optimizer.step#SGD.step", "phase": int(Phase.OPTIMIZER)}
    line.add(line.thread(), Kind.FRAMEWORK, 900, 901, **optimizer)
    assert Facts(line.trace()).steps.source == "whole-trace"
