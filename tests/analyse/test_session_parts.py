"""What a step of `Session.run`s consists of."""

import pytest
from tests.analyse.timeline import MS, Timeline

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.program.session_parts import RUN, find_session_parts
from stepwhy.trace import Kind, Phase
from stepwhy.trace.kinds import HAND_OVER


def session(*bounds):
    """Steps that are one run each."""
    line = Timeline()
    for start, end in bounds:
        line.add(line.thread(), Kind.STEP, start, end, name=RUN)
    return line


def op(line, start, end, *about, device="CPU:1", kind=Kind.KERNEL):
    """An operation: its type, node and phase."""
    name, scope, phase = about or ("Conv2D", "conv", Phase.FORWARD)
    line.add(line.executor(device), kind, start, end, name=name, scope=scope, phase=int(phase))


def parts_of(line):
    return find_session_parts(Facts(line.trace(framework="tensorflow")))


def sum_of(parts):
    around = parts.outside_ns + parts.preparing_ns + parts.gap_ns + parts.silent_ns
    return around + parts.unexplained_ns + sum(parts.bursts_ns.values())


def training(at=0):
    """A step of 40 ms: variables, forward, backward, optimizer."""
    line = session((at, at + 40))
    op(line, at + 2, at + 3, "VariableV2", "weights", Phase.FORWARD, device="CPU:0")
    op(line, at + 3, at + 4, "Identity", "weights/read", Phase.FORWARD, device="CPU:0")
    op(line, at + 4, at + 14)
    op(line, at + 14, at + 34, "Conv2DBackpropInput", "gradients/conv", Phase.BACKWARD)
    op(line, at + 34.5, at + 37, "ApplyRMSProp", "RMSProp/update", Phase.OPTIMIZER, device="CPU:0")
    return line


def test_the_parts_of_a_run_sum_to_its_wall_time():
    parts = parts_of(training())
    assert parts.bursts_ns == {
        "backward": 20 * MS,
        "forward": 10 * MS,
        "optimizer": 2.5 * MS,
        "variables": 2 * MS,
    }
    assert (parts.before_ns, parts.scheduling_ns, parts.after_ns) == (2 * MS, 0.5 * MS, 3 * MS)
    assert (parts.unexplained_ns, parts.slower) == (0, None)
    assert sum_of(parts) == parts.wall_ns == 40 * MS


def test_each_device_has_its_bursts_in_the_order_of_their_start():
    found = [
        (b.device, b.name, b.start_ns // MS, b.end_ns // MS) for b in parts_of(training()).bursts
    ]
    assert found == [
        ("CPU:0", "variables", 2, 4),
        ("CPU:1", "forward", 4, 14),
        ("CPU:1", "backward", 14, 34),
        ("CPU:0", "optimizer", 34, 37),
    ]


def test_what_runs_at_once_counts_once():
    line = session((0, 20))
    op(line, 0, 20, device="CPU:1")
    op(line, 10, 20, "Conv2DBackpropInput", "gradients/conv", Phase.BACKWARD, device="CPU:2")
    assert parts_of(line).bursts_ns == {"backward": 10 * MS, "forward": 10 * MS}


def test_kinds_that_no_phase_tells():
    line = session((0, 50))
    op(line, 0, 10, "QueueDequeueManyV2", "dequeue", Phase.INPUT, kind=Kind.INPUT)
    op(line, 10, 20, "AssignSub", "AssignMovingAvg", Phase.FORWARD)
    op(line, 20, 30, "AssignAdd", "RMSProp/value", Phase.OPTIMIZER)
    op(line, 30, 40, "NoOp", "_SOURCE", Phase.OTHER)
    op(line, 40, 50, "RecvTensor", "weights/read", Phase.COMMUNICATION, kind=Kind.MEMCPY)
    assert parts_of(line).bursts_ns == {
        "variables": 20 * MS,
        "input": 10 * MS,
        "optimizer": 10 * MS,
        "other operations": 10 * MS,
    }


def test_long_silence_between_operations_is_not_scheduling():
    line = session((0, 20))
    op(line, 0, 5)
    op(line, 6, 10)
    op(line, 15, 20)
    parts = parts_of(line)
    assert (parts.scheduling_ns, parts.silent_ns, parts.unexplained_ns) == (1 * MS, 5 * MS, 0)


def test_untraced_runs_give_the_time_and_traced_ones_the_parts():
    # Traced 40 ms, untraced 20 ms and 1 ms of Python behind it.
    line = training()
    for i in range(3):
        line.mark(100 + 21 * i, 121 + 21 * i, graph=20)
    parts = parts_of(line)
    assert (parts.wall_ns, parts.outside_ns) == (21 * MS, MS)
    assert parts.bursts_ns["backward"] == 10 * MS
    assert parts.before_ns == MS
    assert parts.slower == pytest.approx(1.0)
    assert sum_of(parts) == parts.wall_ns


def test_what_untraced_runs_take_much_longer_is_unexplained():
    line = training()
    for i in range(3):
        line.mark(100 + 60 * i, 160 + 60 * i, graph=60)
    facts = Facts(line.trace(framework="tensorflow"))
    parts = find_session_parts(facts)
    assert parts.unexplained_ns == facts.breakdown["unexplained"] == 10 * MS
    assert parts.bursts_ns["backward"] == 25 * MS
    assert sum_of(parts) == 60 * MS


@pytest.mark.parametrize(("waited", "unexplained"), [(None, 30), (0, 30), (20, 10), (40, 0)])
def test_waiting_for_a_core_between_two_runs_is_python_and_sleeping_is_not(waited, unexplained):
    line = training()
    for i in range(3):
        line.mark(100 + 80 * i, 180 + 80 * i, graph=40, cpu=10, delay=waited)
    facts = Facts(line.trace(framework="tensorflow"))
    parts = find_session_parts(facts)
    assert parts.unexplained_ns == facts.breakdown["unexplained"] == unexplained * MS
    assert parts.outside_ns == facts.breakdown["python"] == (40 - unexplained) * MS
    assert sum_of(parts) == parts.wall_ns == 80 * MS


def test_runs_of_one_step_each_have_a_before_and_an_after():
    line = session((0, 40))
    line.add(line.thread(), Kind.ANNOTATION, 20, 40, name=RUN)
    op(line, 1, 17)
    op(line, 22, 39)
    parts = parts_of(line)
    assert (parts.before_ns, parts.after_ns) == (3 * MS, 4 * MS)
    assert parts.scheduling_ns + parts.unexplained_ns == 0


def test_preparation_and_handing_over_are_told_apart():
    line = session((0, 20))
    line.add(line.thread(), Kind.COMPILE, 0, 6, name="prepare the graph")
    line.add(line.thread(), Kind.PROFILER, 20, 29, name=HAND_OVER)
    op(line, 8, 20)
    parts = parts_of(line)
    assert (parts.preparing_ns, parts.before_ns, parts.handing_over_ns) == (6 * MS, 2 * MS, 9 * MS)
    assert sum_of(parts) == 20 * MS


def test_handing_over_is_a_cost_of_profiling():
    line = session((0, 10), (20, 30), (40, 50))
    for at in (0, 20, 40):
        op(line, at, at + 10)
        line.add(line.thread(), Kind.PROFILER, at + 10, at + 15, name=HAND_OVER)
        line.mark(100 + at, 110 + at, graph=10)
    facts = Facts(line.trace(framework="tensorflow"))
    assert facts.observed.profiler_cost == 0.5
    assert facts.recorded["compute"] == 10 * MS


def test_other_steps_have_no_such_parts():
    assert parts_of(Timeline().steps(0, 10)) is None
    assert parts_of(session((0, 10))) is None
