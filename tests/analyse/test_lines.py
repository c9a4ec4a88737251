"""The breakdown of a step by line of the program."""

import random

import numpy as np
import pytest
from tests.analyse.timeline import Timeline

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.analyse.lines.driver_lines import matched
from stepwhy.result import CATEGORIES
from stepwhy.trace import NULL, Kind, Phase

FORWARD, OTHER, BACKWARD, STEP = (f"train.py({number}): main" for number in (10, 11, 20, 30))
HOOK = "train.py(5): hook"
ENGINE = "autograd::engine::evaluate_function: "


class Program(Timeline):
    """A recorded step of PyTorch, and the same step with the running line noted."""

    def note(self, *rows, step=50):
        """A noted step of (operation or None, line or None, time, is of the engine, module)."""
        for op, line, time, *more in rows:
            engine, module, *_ = [*more, None, None]
            self.builder.add(
                "line_times",
                step=step,
                op=NULL if op is None else self.builder.intern(op),
                line=NULL if line is None else self.builder.intern(line),
                dur_ns=time * self.unit_ns,
                engine=int(bool(engine)),
                module=NULL if module is None else self.builder.intern(module),
            )
        return self

    def op(self, start, end, name, **values):
        self.add(self.thread(), Kind.OP, start, end, name=name, **values)
        return self

    def node(self, start, end, name, sequence=NULL):
        """A node of the backward pass, in which the engine runs an operation of that name."""
        back = int(Phase.BACKWARD)
        self.op(start, end, f"{ENGINE}{name}Backward0", sequence=sequence, phase=back)
        self.op(start, end, f"{name}Backward0", sequence=sequence, phase=back)
        self.op(start, end, f"aten::{name}", phase=back)
        return self

    def lines(self):
        found = line_breakdown(Facts(self.trace(framework="pytorch")))
        assert sum(line.time_ns for line in found.lines) == found.wall_ns
        for line in found.lines:
            assert sum(line.categories.values()) == line.time_ns
        return found

    def times(self):
        return {line.line or line.kind: line.time_ns / self.unit_ns for line in self.lines().lines}


def test_operations_and_the_time_between_them_are_of_the_noted_line():
    run = Program().steps(0, 100)
    run.op(0, 60, "aten::mm").op(80, 100, "aten::add")
    run.note(
        ("aten::mm", FORWARD, 3), (None, FORWARD, 1), (None, OTHER, 3), ("aten::add", OTHER, 1)
    )
    assert run.times() == {FORWARD: 65, OTHER: 35}
    assert run.lines().source == "clock"


def test_an_operation_of_the_backward_pass_is_of_the_line_of_its_forward_operation():
    run = Program().steps(0, 100)
    run.op(0, 10, "aten::mm", sequence=7).op(10, 20, "aten::add", sequence=8)
    run.node(20, 50, "add", 8).node(50, 90, "mm", 7).node(90, 95, "accumulate")
    run.op(95, 100, "aten::add_")
    run.note(
        ("aten::mm", FORWARD, 1),
        ("aten::add", OTHER, 1),
        ("aten::add", BACKWARD, 1, True),
        ("aten::mm", BACKWARD, 1, True),
        ("aten::accumulate", BACKWARD, 1, True),
        ("aten::add_", STEP, 1),
    )
    # What accumulates a gradient follows the node that computed it.
    assert run.times() == {FORWARD: 10 + 40 + 5, OTHER: 10 + 30, STEP: 5}
    (line,) = (line for line in run.lines().lines if line.line == FORWARD)
    assert line.phases == {"forward": 10_000_000, "backward": 45_000_000}
    assert [(op.name, op.count) for op in line.operations][:2] == [("aten::mm", 1), ("aten::mm", 1)]


def test_the_last_forward_operation_with_a_number_made_the_node():
    run = Program().steps(0, 100)
    run.op(0, 20, "aten::detach", sequence=7).op(20, 40, "aten::mm", sequence=7)
    run.node(40, 100, "mm", 7)
    run.note(("aten::detach", OTHER, 1), ("aten::mm", FORWARD, 1), ("aten::mm", BACKWARD, 1, True))
    assert run.times() == {OTHER: 20, FORWARD: 80}


def test_code_that_the_backward_pass_calls_is_of_its_own_line():
    run = Program().steps(0, 100)
    run.op(0, 40, "aten::mm", sequence=7).node(40, 100, "mm", 7)
    run.note(("aten::mm", FORWARD, 1), ("aten::mm", HOOK, 1))
    assert run.times() == {FORWARD: 40, HOOK: 60}


def test_what_the_backward_pass_runs_but_no_noted_step_has_is_of_the_line_of_its_node():
    """As the reducer of DistributedDataParallel, which scales gradients while they accumulate."""
    run = Program().steps(0, 100)
    run.op(0, 20, "aten::mm", sequence=7).node(20, 50, "mm", 7)
    back = int(Phase.BACKWARD)
    run.op(50, 100, f"{ENGINE}torch::autograd::AccumulateGrad", phase=back)
    run.op(50, 100, "aten::mul", phase=back)
    run.note(("aten::mm", FORWARD, 1), ("aten::mm", BACKWARD, 1, True))
    assert run.times() == {FORWARD: 100}


def test_an_operation_that_was_not_noted_is_credited_to_nobody():
    run = Program().steps(0, 100)
    run.op(0, 30, "aten::mm").op(30, 70, "aten::sort").op(70, 100, "aten::add")
    run.note(("aten::mm", FORWARD, 1), ("aten::add", OTHER, 1))
    assert run.times() == {FORWARD: 30, "uncredited": 40, OTHER: 30}


def test_of_several_noted_steps_the_one_with_the_same_operations_counts():
    run = Program().steps(0, 100)
    run.op(0, 30, "aten::mm").op(30, 100, "aten::add")
    run.note(("aten::mm", OTHER, 1), ("aten::sort", OTHER, 1), step=50)
    run.note(("aten::mm", FORWARD, 1), ("aten::add", FORWARD, 1), step=51)
    assert run.times() == {FORWARD: 100}


def test_a_noted_step_that_takes_another_branch_is_not_like_the_recorded_one():
    run = Program().steps(0, 100)
    run.op(60, 80, "aten::mm").op(80, 100, "aten::add")
    acting = ("aten::mm", OTHER, 1), ("aten::add", OTHER, 1)
    run.note((None, OTHER, 1), *acting, (None, FORWARD, 9), *acting, step=50)
    run.note((None, FORWARD, 9), ("aten::mm", OTHER, 1), ("aten::add", OTHER, 1), step=51)
    assert run.times() == {FORWARD: 60, OTHER: 40}


def test_what_a_noted_step_does_first_is_not_what_the_recorded_one_begins_with():
    run = Program().steps(0, 100).op(60, 80, "aten::mm").op(80, 100, "aten::add")
    acting = ("aten::mm", OTHER, 1), ("aten::item", OTHER, 1)
    rest = ("aten::mm", OTHER, 1), ("aten::add", OTHER, 1)
    run.note((None, OTHER, 1), *acting, (None, FORWARD, 9), *rest)
    assert run.times() == {FORWARD: 60, OTHER: 40}


def test_a_kernel_is_of_the_line_that_launched_it_or_made_its_node():
    run = Program().steps(0, 100)
    run.op(0, 10, "aten::mm", sequence=7)
    run.launch((1, 2), (10, 40), 1)
    autograd = run.thread("autograd")
    back = int(Phase.BACKWARD)
    run.add(autograd, Kind.OP, 10, 20, name=f"{ENGINE}Mm", sequence=7, phase=back)
    run.launch((11, 12), (40, 100), 2, track=autograd)
    run.note(("aten::mm", FORWARD, 1), (None, BACKWARD, 9))
    assert run.times() == {FORWARD: 100}


def test_operations_in_a_function_of_the_program_are_of_its_lines():
    run = Program().steps(0, 100)
    run.op(0, 60, "CheckpointFunction").op(10, 30, "aten::mm").op(60, 100, "aten::add")
    run.note((None, OTHER, 1), ("aten::mm", FORWARD, 1), (None, OTHER, 1), ("aten::add", OTHER, 1))
    assert run.times() == {FORWARD: 20, OTHER: 80}


def test_the_backward_pass_of_a_function_of_the_program_is_of_its_lines_without_operations():
    run = Program().steps(0, 100)
    back = int(Phase.BACKWARD)
    run.op(0, 40, "aten::mm").op(40, 90, f"{ENGINE}SlowBackward", phase=back)
    run.add(run.thread(), Kind.PYTHON, 40, 90, name="SlowBackward")
    run.op(90, 100, "aten::add")
    run.note(("aten::mm", FORWARD, 4), (None, BACKWARD, 5), ("aten::add", OTHER, 1))
    assert run.times() == {FORWARD: 40, BACKWARD: 50, OTHER: 10}


def test_an_operation_of_a_hook_is_one_although_the_engine_calls_it():
    run = Program().steps(0, 100)
    back = int(Phase.BACKWARD)
    run.op(0, 10, "aten::mm", sequence=7)
    run.op(10, 100, f"{ENGINE}MmBackward0", sequence=7, phase=back)
    run.op(10, 40, "aten::norm", phase=back).op(10, 30, "aten::copy_", phase=back)
    run.op(40, 100, "MmBackward0", sequence=7, phase=back)
    run.op(40, 100, "aten::mm", phase=back)
    run.note(("aten::mm", FORWARD, 1), ("aten::norm", HOOK, 1), ("aten::mm", BACKWARD, 1, True))
    assert run.times() == {FORWARD: 70, HOOK: 30}


def test_collectives_have_a_row_of_their_own():
    run = Program().steps(0, 100)
    run.op(0, 60, "aten::mm")
    run.launch((1, 2), (0, 60), 1)
    run.launch((3, 4), (60, 100), 2, kind=Kind.COLLECTIVE)
    run.note(("aten::mm", FORWARD, 1), (None, BACKWARD, 9))
    assert run.times() == {FORWARD: 60, "communication": 40}


def test_copies_beside_an_operation_of_another_device_have_no_part_of_compute_time():
    run = Timeline().steps(0, 100)
    for device, kind, line in (
        ("CPU:0", Kind.KERNEL, FORWARD),
        ("CPU:1", Kind.COLLECTIVE, OTHER),
        ("CPU:2", Kind.MEMCPY, OTHER),
    ):
        run.add(run.executor(device), kind, 0, 100, name=line, source=line)
    (line,) = line_breakdown(Facts(run.trace(framework="tensorflow"))).lines
    assert (line.line, line.categories) == (FORWARD, {"compute": 100 * run.unit_ns})


def test_a_trace_with_python_functions_names_the_lines_itself():
    run = Timeline().steps(0, 100)
    main = run.thread()
    run.add(main, Kind.PYTHON, 0, 70, name="tower", source=FORWARD)
    run.add(main, Kind.OP, 10, 60, name="aten::mm")
    run.add(main, Kind.PYTHON, 70, 100, name="main", source=OTHER)
    found = line_breakdown(Facts(run.trace(framework="pytorch")))
    assert {line.line: line.time_ns / run.unit_ns for line in found.lines} == {
        FORWARD: 70,
        OTHER: 30,
    }
    assert found.source == "record"


def test_samples_tell_the_lines_of_the_host_where_nothing_else_does():
    run = Timeline().steps(0, 100)
    run.add(run.thread(), Kind.OP, 0, 100, name="aten::mm")
    text = run.builder.intern
    for line, package, count in ((FORWARD, "torch", 30), (OTHER, "torch", 10), (STEP, "", 60)):
        run.builder.add("samples", line=text(line), package=text(package), count=count)
    found = line_breakdown(Facts(run.trace(framework="pytorch")))
    assert {line.line: line.time_ns / run.unit_ns for line in found.lines} == {
        FORWARD: 75,
        OTHER: 25,
    }
    assert found.source == "samples"


def test_the_time_of_a_generator_is_of_its_lines_whatever_category_it_counts_as():
    run = Program().steps(0, 100)
    run.op(60, 80, "aten::mm").op(95, 100, "aten::add")
    run.note((None, OTHER, 60), ("aten::mm", FORWARD, 20), (None, STEP, 15), ("aten::add", STEP, 5))
    text = run.builder.intern
    for line, entry, count in ((OTHER, "generator", 60), (FORWARD, "", 40)):
        texts = {"line": text(line), "package": text("torch"), "entry": text(entry)}
        run.builder.add("samples", **texts, count=count)
    for step in range(20):  # all but the first one without a profiler
        span = {"start_ns": step * 100 * run.unit_ns, "dur_ns": 100 * run.unit_ns}
        run.builder.add("marks", **span, profiled=int(step == 0))
    assert run.times() == {OTHER: 60, FORWARD: 20, STEP: 20}
    generated = next(line for line in run.lines().lines if line.line == OTHER)
    assert generated.categories == {"input_wait": 60 * run.unit_ns}


def test_without_any_line_there_is_no_breakdown():
    run = Timeline().steps(0, 100)
    run.add(run.thread(), Kind.OP, 0, 100, name="aten::mm")
    assert line_breakdown(Facts(run.trace(framework="pytorch"))) is None


@pytest.mark.parametrize("seed", range(20))
def test_lines_and_categories_share_one_total(seed):
    chance = random.Random(seed)  # noqa: S311 - no secret
    run = Program(unit_ns=7).steps(0, 1000, 2000, 3000)
    names = [f"aten::op{number}" for number in range(5)]
    for step in range(3):
        at = 1000 * step
        while at < 1000 * step + 900:
            start, end = at + chance.randrange(9), at + 10 + chance.randrange(90)
            name = chance.choice(names)
            (run.op if chance.random() < 0.7 else run.node)(start, end, name)
            at = end
    for step in range(2):
        for _ in range(20):
            op = chance.choice([None, *names])
            line = chance.choice([FORWARD, OTHER, BACKWARD, None])
            run.note((op, line, chance.randrange(50), chance.random() < 0.3), step=step)
    facts = Facts(run.trace(framework="pytorch"))
    found = line_breakdown(facts)
    sums = {c: sum(line.categories.get(c, 0) for line in found.lines) for c in CATEGORIES}
    assert sums == facts.breakdown


def test_nodes_of_a_recomputed_forward_pass_are_of_its_lines():
    run = Program().steps(0, 100)
    back = int(Phase.BACKWARD)
    run.op(0, 20, "aten::mm", sequence=7)
    run.op(20, 100, f"{ENGINE}CheckpointBackward", sequence=6, phase=back)
    run.op(20, 100, "CheckpointBackward", sequence=6, phase=back)
    run.op(20, 50, "aten::relu", sequence=9).node(60, 100, "relu", 9)
    run.note(
        ("aten::mm", OTHER, 1),
        ("aten::relu", FORWARD, 1),
        (None, BACKWARD, 1, True),
        ("aten::relu", BACKWARD, 1, True),
    )
    # What happens between is of the line that made the outer node, if that was recorded.
    assert run.times() == {OTHER: 20, FORWARD: 70, BACKWARD: 10}


def test_the_time_in_a_node_beside_its_operations_is_of_the_same_line():
    run = Program().steps(0, 100)
    back = int(Phase.BACKWARD)
    run.op(0, 20, "aten::mm", sequence=7)
    run.op(20, 90, f"{ENGINE}MmBackward0", sequence=7, phase=back)
    run.op(30, 60, "aten::mm", phase=back)
    run.note(
        ("aten::mm", FORWARD, 1),
        (None, BACKWARD, 1, True),
        ("aten::mm", BACKWARD, 1, True),
        (None, BACKWARD, 3, True),
        (None, STEP, 1),
    )
    assert run.times() == {FORWARD: 90, STEP: 10}


def test_a_line_with_most_of_the_step_is_divided_by_module():
    run = Program().steps(0, 100)
    for start, end, name in ((0, 40, "Encoder_0"), (0, 20, "Linear_0")):
        run.add(run.thread(), Kind.PYTHON, start, end, name=f"nn.Module: {name}")
    run.op(0, 20, "aten::linear", sequence=7).op(20, 40, "aten::relu", sequence=8)
    run.node(40, 60, "relu", 8).node(60, 90, "linear", 7).op(90, 100, "aten::sum")
    run.note(
        ("aten::linear", FORWARD, 1),
        ("aten::relu", FORWARD, 1),
        ("aten::relu", BACKWARD, 1, True),
        ("aten::linear", BACKWARD, 1, True),
        ("aten::sum", FORWARD, 1),
    )
    (line,) = run.lines().lines
    assert {one.module: one.time_ns / run.unit_ns for one in line.modules} == {
        "Encoder_0/Linear_0": 50,
        "Encoder_0": 40,
        "": 10,
    }
    longest = line.modules[0].operations
    assert [(one.name, one.phase, one.count) for one in longest] == [
        ("aten::linear", "backward", 1),
        ("aten::linear", "forward", 1),
    ]


def test_a_line_with_most_of_the_step_is_divided_by_the_modules_that_were_noted():
    run = Program().steps(0, 100)
    run.op(0, 20, "aten::linear", sequence=7).op(30, 40, "aten::relu", sequence=8)
    run.node(40, 60, "relu", 8).node(60, 90, "linear", 7).op(95, 100, "aten::sum")
    run.note(
        ("aten::linear", FORWARD, 1, False, "encoder.0"),
        (None, FORWARD, 3, False, "encoder"),
        (None, FORWARD, 2, False, "encoder.1"),
        ("aten::relu", FORWARD, 1, False, "encoder.1"),
        ("aten::relu", BACKWARD, 1, True),
        ("aten::linear", BACKWARD, 1, True),
        (None, FORWARD, 1),
        ("aten::sum", FORWARD, 1),
    )
    (line,) = run.lines().lines
    assert {one.module: one.time_ns / run.unit_ns for one in line.modules} == {
        "encoder.0": 20 + 30,
        "encoder.1": 4 + 10 + 20,
        "encoder": 6,
        "": 10,
    }
    for one in line.modules:
        assert sum(one.categories.values()) == pytest.approx(one.time_ns, abs=5)


def test_scopes_of_a_graph_are_modules_and_gradients_belong_to_them():
    run = Timeline().steps(0, 100)
    nodes = (
        "net/dense/MatMul",
        "net/Relu",
        "gradients/net/dense/MatMul_grad/MatMul_1",
        "loss",
    )
    for number, (node, time) in enumerate(zip(nodes, (30, 10, 50, 10), strict=True)):
        start = (0, 30, 40, 90)[number]
        run.add(
            run.thread(),
            Kind.OP,
            start,
            start + time,
            name=node.rpartition("/")[2],
            scope=node,
            source=FORWARD,
        )
    (line,) = line_breakdown(Facts(run.trace(framework="tensorflow"))).lines
    assert [(one.module, one.time_ns / run.unit_ns) for one in line.modules] == [
        ("net/dense", 80),
        ("", 10),
        ("net", 10),
    ]


def test_scopes_of_compiled_instructions_are_modules_without_transformations():
    run = Timeline().steps(0, 100)
    text = run.builder.intern
    scopes = {
        "dot.1": (60, "jit(step)/jit(main)/jvp(Net)/Dense_0/dot_general"),
        "dot.2": (30, "jit(step)/jit(main)/transpose(jvp(Net))/Dense_0/dot_general"),
        "add.3": (10, "jit(step)/jit(main)/add"),
    }
    start = 0
    for name, (time, scope) in scopes.items():
        run.add(run.thread(), Kind.OP, start, start + time, name=name, source=FORWARD)
        run.builder.add(
            "instruction_scopes", name=text(name), source=text(FORWARD), scope=text(scope)
        )
        start += time
    (line,) = line_breakdown(Facts(run.trace(framework="jax"))).lines
    assert [(one.module, one.time_ns / run.unit_ns) for one in line.modules] == [
        ("Net/Dense_0", 90),
        ("", 10),
    ]


def test_many_alike_modules_are_added_up():
    run = Program().steps(0, 130)
    for number in range(13):
        span = 10 * number, 10 * number + 10
        run.add(run.thread(), Kind.PYTHON, *span, name=f"nn.Module: Block_{number}")
        run.op(*span, "aten::mm")
    run.note(*([("aten::mm", FORWARD, 1)] * 13))
    (line,) = run.lines().lines
    assert [(one.module, one.time_ns / run.unit_ns) for one in line.modules] == [("Block_*", 130)]


def test_what_the_engine_runs_between_two_nodes_is_of_the_line_of_the_first():
    run = Program().steps(0, 100)
    run.op(0, 10, "aten::mm", sequence=7)
    autograd, back = run.thread("autograd"), int(Phase.BACKWARD)
    run.add(autograd, Kind.OP, 2, 4, name="aten::zeros")
    run.launch((3, 4), (5, 10), 1, track=autograd)
    run.add(autograd, Kind.OP, 10, 20, name=f"{ENGINE}Mm", sequence=7, phase=back)
    run.launch((11, 12), (10, 70), 2, track=autograd)
    run.add(autograd, Kind.OP, 22, 26, name="aten::add")
    run.launch((23, 24), (70, 100), 3, track=autograd)
    run.note(("aten::mm", FORWARD, 1), (None, BACKWARD, 9))
    assert run.times() == {FORWARD: 5 + 60 + 30, "uncredited": 5}


def test_the_time_between_two_nodes_is_of_the_next():
    run = Program().steps(0, 100)
    run.op(0, 10, "aten::mm", sequence=7).op(10, 20, "aten::add", sequence=8)
    run.node(30, 50, "add", 8).node(70, 90, "mm", 7)
    run.note(
        ("aten::mm", FORWARD, 1),
        ("aten::add", OTHER, 1),
        (None, BACKWARD, 1),
        ("aten::add", BACKWARD, 1, True),
        (None, BACKWARD, 1),
        ("aten::mm", BACKWARD, 1, True),
        (None, BACKWARD, 1),
    )
    # It begins and ends on its own line.
    assert run.times() == {FORWARD: 50, OTHER: 30, BACKWARD: 20}


@pytest.mark.parametrize(
    ("names", "others", "places"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], [0, 1, 2, 3]),
        ([1, 2, 3, 1, 2, 3, 4], [1, 2, 3, 4], [0, 1, 2, 0, 1, 2, 3]),  # one more call of the model
        ([1, 2, 3, 4], [1, 2, 3, 1, 2, 3, 4], [3, 4, 5, 6]),
        ([1, 5, 4], [1, 4], [0, NULL, 1]),
        ([1, 2, 9, 9], [1, 2, 9], [0, 1, 2, NULL]),
    ],
)
def test_operations_that_a_step_has_more_of_are_like_others_of_the_noted_step(
    names, others, places
):
    found = matched(np.array(names, dtype=np.int64), np.array(others, dtype=np.int64))
    assert found.tolist() == places
