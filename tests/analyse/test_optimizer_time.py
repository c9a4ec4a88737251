"""The steps of optimizers, which take a smaller share of unprofiled steps."""

import pytest
from tests.analyse.timeline import Timeline

from stepwhy.analyse.answers.breakdown import breakdown_of
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.analyse.lines.optimizer_time import optimizer_time
from stepwhy.trace import Kind, Phase

MODEL, STEP = "train.py(10): main", "train.py(30): main"
ADAM = "Optimizer.step#Adam.step"


def run(*, unprofiled, optimizer, count=20, every=1, on_gpu=False, name=ADAM):
    """Two recorded steps of 100 units, 60 in an optimizer, beside unprofiled ones."""
    time = Timeline().steps(0, 100, 200)
    main = time.thread()
    for start in (0, 100):
        time.mark(start, start + 100, profiled=1)
        time.add(main, Kind.OP, start, start + 40, name="aten::mm", phase=int(Phase.FORWARD))
        time.add(main, Kind.FRAMEWORK, start + 40, start + 100, name=name)
        time.add(
            main, Kind.OP, start + 40, start + 100, name="aten::sqrt", phase=int(Phase.OPTIMIZER)
        )
    if on_gpu:
        time.launch((0, 1), (1, 90), 1)
    for number in range(count):
        start = 200 + number * unprofiled
        time.mark(start, start + unprofiled, optimizer=None if number % every else optimizer)
    for op, line in (("aten::mm", MODEL), ("aten::sqrt", STEP)):
        row = {"step": 1, "dur_ns": time.unit_ns, "engine": 0}
        time.builder.add(
            "line_times", op=time.builder.intern(op), line=time.builder.intern(line), **row
        )
    return Facts(time.trace(framework="pytorch"))


def test_lines_and_phases_have_their_usual_shares():
    facts = run(unprofiled=80, optimizer=30)
    times = {line.line: line.time_ns / facts.wall_ns for line in line_breakdown(facts).lines}
    assert times == pytest.approx({MODEL: 0.625, STEP: 0.375})
    found = optimizer_time(facts)
    assert found.usual_ns == 0.375 * facts.wall_ns
    assert found.recorded_ns == 60_000_000
    phases = breakdown_of(facts).phases
    assert phases["optimizer"] / phases["forward"] == pytest.approx(0.6)


@pytest.mark.parametrize(
    "other",
    [
        {"optimizer": None},
        {"count": 7},
        {"optimizer": 80},  # all of the step
        {"optimizer": 1},  # a tenth of what was recorded has another reason
        {"count": 40, "every": 2},  # gradients of two steps are accumulated
        {"on_gpu": True},
        {"name": "DistributedDataParallel.forward"},
    ],
)
def test_recorded_shares_stay_where_the_usual_ones_are_unknown(other):
    assert optimizer_time(run(**{"unprofiled": 80, "optimizer": 30} | other)) is None
