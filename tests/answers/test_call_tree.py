"""The tree of the program: which node each time belongs to, and that all of it adds up."""

import os
from pathlib import Path

import pytest
from tests import recorded
from tests.analyse.timeline import Timeline

from stepwhy.analyse.answers.call_tree import call_tree
from stepwhy.analyse.answers.tree_rows import tree_rows
from stepwhy.analyse.facts import Facts
from stepwhy.engine.profile import profile
from stepwhy.trace import Kind

TRACES = os.environ.get("STEPWHY_TRACES")
MAIN, FORWARD, STEP = "train.py(3): main", "model.py(7): forward", "train.py(9): step"
MS = 1_000_000


def tree_of(trace, most=1000):
    """Path of each node, with its own milliseconds on the host and the device."""
    names, found = {}, {}
    rows = tree_rows(call_tree(Facts(trace)), most)
    for place, row in enumerate(rows):
        names[place] = (*names.get(row.node.parent, ()), row.node.name)
        found[names[place]] = tuple(ns // MS for ns in row.own.tolist()[1:])
    return found


def test_device_work_is_below_the_operation_of_its_line_and_module():
    line = Timeline().steps(0, 100)
    main = line.thread()
    line.add(main, Kind.PYTHON, 0, 90, name=MAIN, source=MAIN)
    line.add(main, Kind.PYTHON, 10, 80, name=FORWARD, source=FORWARD)
    line.add(main, Kind.FRAMEWORK, 20, 70, name="nn.Module: Linear_0")
    line.add(main, Kind.OP, 20, 60, name="aten::linear")
    line.add(main, Kind.OP, 30, 50, name="aten::mm")
    line.launch((35, 40), (60, 95), 1)
    below = (MAIN, FORWARD, "Linear_0")
    assert tree_of(line.trace()) == {
        ("(line not known)",): (10, 0),
        (MAIN,): (20, 0),
        (MAIN, FORWARD): (20, 0),
        below: (10, 0),
        (*below, "aten::linear"): (20, 0),
        (*below, "aten::linear", "aten::mm"): (15, 0),
        (*below, "aten::linear", "aten::mm", "LAUNCH"): (5, 0),
        (*below, "aten::linear", "aten::mm", "KERNEL"): (0, 35),
    }


def test_the_same_operation_of_two_lines_is_two_nodes():
    line = Timeline().steps(0, 100)
    for start, source in ((0, FORWARD), (40, STEP), (60, FORWARD)):
        line.add(line.thread(), Kind.OP, start, start + 20, name="aten::mm", source=source)
    assert tree_of(line.trace()) == {
        ("(line not known)",): (40, 0),
        (FORWARD,): (0, 0),
        (FORWARD, "aten::mm"): (40, 0),
        (STEP,): (0, 0),
        (STEP, "aten::mm"): (20, 0),
    }


def test_code_of_the_program_inside_an_operation_has_a_line_of_its_own():
    line = Timeline().steps(0, 100)
    main = line.thread()
    line.add(main, Kind.OP, 0, 100, name="CheckpointFunction", source=STEP)
    line.add(main, Kind.PYTHON, 10, 90, name=FORWARD, source=FORWARD)
    line.add(main, Kind.OP, 20, 80, name="aten::mm")
    assert tree_of(line.trace()) == {
        (FORWARD,): (20, 0),
        (FORWARD, "aten::mm"): (60, 0),
        (STEP,): (0, 0),
        (STEP, "CheckpointFunction"): (20, 0),
    }


def test_without_lines_the_tree_begins_with_operations():
    line = Timeline().steps(0, 100)
    line.add(line.thread(), Kind.OP, 0, 60, name="aten::mm")
    line.add(line.stream(), Kind.KERNEL, 20, 50, name="gemm")
    trace = line.trace()
    expected = {("aten::mm",): (60, 0), ("(between operations)",): (40, 0), ("gemm",): (0, 30)}
    assert tree_of(trace) == expected
    notes = profile(trace, "trace.json", "tree").notes
    assert any("names no line of the program" in note for note in notes)


def test_what_other_threads_do_outside_of_operations_does_not_count():
    line = Timeline().steps(0, 100)
    line.add(line.thread(), Kind.OP, 0, 100, name="aten::mm")
    other = line.thread("loader")
    line.add(other, Kind.PYTHON, 0, 100, name="wait", source="threading.py(320): wait")
    line.add(other, Kind.OP, 10, 30, name="aten::stack")
    assert tree_of(line.trace()) == {("aten::mm",): (100, 0), ("aten::stack",): (20, 0)}


def test_time_in_no_known_line_is_named_with_its_share():
    line = Timeline().steps(0, 100)
    line.add(line.thread(), Kind.OP, 0, 75, name="aten::mm", source=STEP)
    notes = profile(line.trace(), "trace.json", "tree").notes
    assert "No line of the program is credited with 25 % of the host's time." in notes


def test_the_smallest_are_added_up_and_counted():
    line = Timeline().steps(0, 100)
    for start in range(10):
        end = 10 * start + start + 1
        line.add(line.thread(), Kind.OP, 10 * start, end, name=f"op {start}", source=STEP)
    found = tree_of(line.trace(), most=3)
    assert sum(host for host, _ in found.values()) == 100
    assert found[STEP, "(9 others)"] == (1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9, 0)
    assert len(found) == 4


def test_a_leaf_that_is_left_out_alone_is_listed_instead():
    line = Timeline().steps(0, 100)
    line.add(line.thread(), Kind.OP, 0, 90, name="aten::mm", source=STEP)
    line.add(line.thread(), Kind.OP, 90, 100, name="aten::add", source=STEP)
    expected = {(STEP,): (0, 0), (STEP, "aten::mm"): (90, 0), (STEP, "aten::add"): (10, 0)}
    assert tree_of(line.trace(), most=2) == expected


def test_a_mean_of_steps_that_do_not_divide_evenly_still_adds_up():
    line = Timeline(unit_ns=1).steps(0, 100, 200, 300)
    for at, length in ((0, 10), (100, 11), (200, 11), (20, 7), (150, 13)):
        line.add(line.thread(), Kind.OP, at, at + length, name=f"op {length}", source=STEP)
    result = profile(line.trace(), "trace.json", "tree")
    assert result.steps == 3
    assert_closed(result)
    assert result.total.host_ns == 100


def test_chains_deeper_than_the_limit_keep_all_time():
    line = Timeline(unit_ns=1000).steps(0, 1000)
    for depth in range(200):
        line.add(line.thread(), Kind.OP, depth, 1000 - depth, name=f"op {depth}")
    result = profile(line.trace(), "trace.json", "tree")
    assert result.total.host_ns == 1_000_000
    assert max(node.depth for node in result.nodes) < 100
    assert_closed(result)


def assert_closed(result):
    """Each time of a node is exactly the sum of its own and of those below it."""
    below = [[0, 0] for _ in result.nodes]
    top = [0, 0]
    for place, node in enumerate(result.nodes):
        assert node.parent is None or node.parent < place
        into = top if node.parent is None else below[node.parent]
        for which, ns in enumerate((node.total.host_ns, node.total.device_ns)):
            into[which] += ns
    for node, (host_ns, device_ns) in zip(result.nodes, below, strict=True):
        assert min(node.own.host_ns, node.own.device_ns) >= 0
        assert node.own.host_ns + host_ns == node.total.host_ns
        assert node.own.device_ns + device_ns == node.total.device_ns
    assert top == [result.total.host_ns, result.total.device_ns]


FILES = [
    "kineto/h100_tiny_transformer_a.json", "kineto/h100_bertsmall.json.gz",
    "kineto/r50_v100_nw4_2021.json.gz", "kineto/a100_recsys_rank0of16.json.gz",
    "kineto/cpu_only_rank34_small.json.gz", "kineto/mi300_vllm_piecewise.json.gz",
    "kineto/mi210_gpu_only.json.gz", "generated_cpu/run_metadata_step1.pb",
    "tf_timeline/ikh_gpu_mnist_step1.json", "tf_timeline/anna_cpu_train.json",
    "xplane/jax_mi300_gemm.xplane.pb", "xplane/jax_mi300_conv_8gpu.xplane.pb",
    "xplane/tf2_bert_8xV100_worker.xplane.pb", "nsys/rtx3080_tiny.sqlite",
]  # fmt: skip


@recorded.TOGETHER
@pytest.mark.traces
@pytest.mark.skipif(not TRACES, reason="STEPWHY_TRACES names no folder of traces")
@pytest.mark.parametrize("name", FILES)
def test_recorded_traces_add_up(name):
    facts = recorded.facts_of(Path(TRACES, name))
    result = profile(facts.trace, name, "tree")
    assert_closed(result)
    # All work of devices that the table of operations has is in the tree, at most rounded.
    table = profile(facts.trace, name, "op")
    assert abs(result.total.device_ns - table.total.device_ns) <= 1


def test_a_module_is_the_level_between_its_line_and_its_operations():
    line = Timeline().steps(0, 100)
    line.add(line.executor(), Kind.OP, 0, 100, name="MatMul", scope="net/dense/MatMul", source=STEP)
    result = profile(line.trace(), "trace.json", "tree")
    assert [(node.name, node.kind) for node in result.nodes if node.total.device_ns] == [
        (STEP, "line"), ("net", "module"), ("dense", "module"), ("MatMul", "operation"),
    ]  # fmt: skip
