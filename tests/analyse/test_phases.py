"""Forward, backward, optimizer: how the importer's marks spread."""

from tests.analyse.timeline import Timeline

from stepwhy.analyse.facts import Facts
from stepwhy.trace import Kind, Phase


def phases_of(line):
    facts = Facts(line.trace())
    names = [facts.trace.string(n) for n in facts.trace.slices.name]
    return {name: Phase(p) for name, p in zip(names, facts.phases, strict=True)}


def test_marks_spread_down_the_call_tree_and_to_the_device():
    line = Timeline().steps(0, 100)
    main = line.thread()
    line.add(main, Kind.ANNOTATION, 0, 20, name="fwd", phase=int(Phase.FORWARD))
    line.add(main, Kind.OP, 1, 5, name="mm")
    line.launch((2, 3), (5, 9), 1)
    line.add(main, Kind.FRAMEWORK, 50, 70, name="opt", phase=int(Phase.OPTIMIZER))
    line.add(main, Kind.OP, 51, 69, name="add_")
    line.add(main, Kind.LAUNCH, 52, 53, name="launch add_", correlation=2)
    line.add(line.stream(), Kind.KERNEL, 60, 61, name="add_kernel", correlation=2)
    line.add(line.stream(), Kind.KERNEL, 80, 81, name="nobody's kernel")
    phases = phases_of(line)
    assert phases["mm"] is phases["LAUNCH"] is phases["KERNEL"] is Phase.FORWARD
    assert phases["add_"] is phases["launch add_"] is phases["add_kernel"] is Phase.OPTIMIZER
    assert phases["nobody's kernel"] is Phase.UNKNOWN


def test_autograd_threads_run_the_backward_phase_and_the_rest_is_forward():
    line = Timeline().steps(0, 100)
    autograd = line.thread("autograd")
    line.add(autograd, Kind.OP, 0, 5, name="MmBackward0", phase=int(Phase.BACKWARD))
    line.add(autograd, Kind.OP, 10, 15, name="AccumulateGrad")
    line.add(line.thread(), Kind.OP, 0, 5, name="mm")
    line.add(line.thread(), Kind.PYTHON, 20, 25, name="train.py(3): main")
    phases = phases_of(line)
    assert phases["AccumulateGrad"] is Phase.BACKWARD
    assert phases["mm"] is Phase.FORWARD
    assert phases["train.py(3): main"] is Phase.UNKNOWN


def test_without_any_backward_operation_nothing_is_called_forward():
    line = Timeline().steps(0, 100)
    line.add(line.thread(), Kind.OP, 0, 5, name="mm")
    assert phases_of(line)["mm"] is Phase.UNKNOWN


def test_collectives_are_communication_whoever_launched_them():
    line = Timeline().steps(0, 100)
    autograd = line.thread("autograd")
    line.add(autograd, Kind.OP, 0, 5, phase=int(Phase.BACKWARD))
    line.launch((1, 2), (3, 9), 1, kind=Kind.COLLECTIVE, track=autograd)
    assert phases_of(line)["COLLECTIVE"] is Phase.COMMUNICATION


def test_a_phase_that_the_importer_knows_stays():
    line = Timeline().steps(0, 100)
    line.launch((1, 2), (3, 9), 1, phase=int(Phase.OPTIMIZER))
    line.add(line.thread(), Kind.OP, 0, 5, phase=int(Phase.BACKWARD))
    assert phases_of(line)["KERNEL"] is Phase.OPTIMIZER


def test_a_closure_is_no_part_of_the_update():
    line = Timeline().steps(0, 100)
    main = line.thread()
    line.add(main, Kind.FRAMEWORK, 10, 90, name="step", phase=int(Phase.OPTIMIZER))
    line.add(main, Kind.FRAMEWORK, 11, 14, name="zero_grad", phase=int(Phase.OPTIMIZER))
    line.add(main, Kind.OP, 15, 30, name="mm")
    line.launch((16, 17), (20, 40), 1)
    line.add(main, Kind.OP, 31, 50, name="node", phase=int(Phase.BACKWARD))
    line.add(main, Kind.OP, 32, 49, name="mm in node")
    line.add(main, Kind.OP, 60, 70, name="sqrt")
    phases = phases_of(line)
    assert phases["mm"] is phases["KERNEL"] is Phase.FORWARD
    assert phases["mm in node"] is Phase.BACKWARD
    assert phases["zero_grad"] is phases["sqrt"] is phases["step"] is Phase.OPTIMIZER


def test_nothing_has_no_phase():
    assert phases_of(Timeline()) == {}
