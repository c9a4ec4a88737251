"""Device names, op types, name scopes and copies in the placement diagnoses."""

import pytest

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.program.placement import (
    Node,
    conflicts,
    copies_around,
    fields_of,
    placed_nodes,
    tower_of,
    type_of,
)
from stepwhy.trace.kinds import Dependence
from stepwhy.trace.notation import parse


@pytest.mark.parametrize(
    ("device", "fields"),
    [
        ("/job:worker/task:1 GPU:0", {"job": "worker", "task": "1", "type": "GPU", "index": "0"}),
        ("/job:ps", {"job": "ps"}),
        ("GPU:0", {"type": "GPU", "index": "0"}),
        ("GPU", {"type": "GPU"}),
        ("/gpu:1", {"type": "GPU", "index": "1"}),
        (
            "/job:a/replica:0/task:0/device:CPU:*",
            {"job": "a", "replica": "0", "task": "0", "type": "CPU"},
        ),
        ("", {}),
    ],
)
def test_fields(device, fields):
    assert fields_of(device) == fields


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("/job:worker/task:0", "/job:ps/task:0 CPU:0", True),
        ("/job:worker/task:0", "/job:worker/task:0 CPU:0", False),
        ("GPU:1", "GPU:0", True),
        ("GPU", "GPU:0", False),
        ("GPU:0", "CPU:0", True),
        ("", "CPU:0", False),
    ],
)
def test_conflicts(one, other, expected):
    assert conflicts(one, other) is conflicts(other, one) is expected


def test_type():
    assert (type_of("/job:a/task:0 GPU:1"), type_of("/job:a/task:0")) == ("GPU", "")


@pytest.mark.parametrize(
    ("name", "tower"),
    [
        ("tower_0/Conv2D", "tower_0"),
        ("gradients/tower_1/Conv2D_grad", "tower_1"),
        ("Tower0/x", "Tower0"),
        ("tower_0_1/x", "tower_0"),
        ("tower/x", "tower"),
        ("model/replica_2/x", "replica_2"),
        ("GPU_3/x", "GPU_3"),
        ("towers_of_hanoi/x", ""),
        ("gpu/x", ""),
        ("tower_0", ""),
    ],
)
def test_towers(name, tower):
    assert tower_of(name) == tower


def node(name, op, depends_on=Dependence.UNKNOWN):
    """A node without a device."""
    places = dict.fromkeys(("requested", "actual", "outer", "line", "source", "colocated"), "")
    return Node(row=0, depends_on=depends_on, name=name, op=op, **places)


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("w", "VariableV2"),
        ("w/read", "Identity"),
        ("w/Initializer/mul", "Mul"),
        ("w/Assign", "Assign"),
        ("opt/update_w", "ResourceApplyAdam"),
        ("batch", "QueueDequeueManyV2"),
        ("save/RestoreV2", "RestoreV2"),
    ],
)
def test_state_is_not_computation(name, op):
    assert not node(name, op).is_compute


def test_arithmetic_is_computation():
    assert node("loss/mul", "Mul").is_compute


@pytest.mark.parametrize(
    ("depends_on", "is_work"),
    [
        (Dependence.UNKNOWN, True),
        (Dependence.BOTH, True),
        (Dependence.DATA, False),  # prepares the input
        (Dependence.VARIABLES, False),  # a regulariser
    ],
)
def test_the_models_work_needs_variables_and_data(depends_on, is_work):
    assert node("layer/Sigmoid", "Sigmoid", depends_on).is_model_work is is_work


COPIES = """
unit: 1 ms
main  step   |{steps}|
CPU:0 kernel |aaaaaaaa|

nodes: name | op
a | MatMul
b | MatMul

copies: source | target | from_device | to_device | bytes | dur_ns
a | b | CPU:0 | GPU:0 | 1 KiB | 1 ms
a | b | CPU:0 | GPU:0 | 1 KiB | -
a | b | CPU:0 | CPU:0 | 9 KiB | 9 ms
b | - | CPU:0 | GPU:0 | 9 KiB | 9 ms
"""


@pytest.mark.parametrize(("steps", "runs"), [("[------]", 1), ("[--][--]", 2)])
def test_copies_between_devices_per_run(steps, runs):
    facts = Facts(parse(COPIES.format(steps=steps)))
    totals = copies_around(facts, placed_nodes(facts)[:1])
    assert totals.count == 2 / runs
    assert totals.bytes == 2048 // runs
    assert totals.dur_ns == 1_000_000 // runs


def test_unknown_sizes_are_not_zero():
    facts = Facts(parse(COPIES.replace("1 KiB", "-").replace("1 ms |", "- |").format(steps="-")))
    assert copies_around(facts, placed_nodes(facts)[:1]).bytes is None
