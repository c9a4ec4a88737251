"""Timeline labels."""

import pytest

from stepwhy.read.shared.tensorflow.labels import (
    edge_node,
    parse_activity_label,
    parse_inputs,
    parse_op_label,
    parse_size,
    parse_transfer_label,
)
from stepwhy.trace import NULL


@pytest.mark.parametrize(
    ("label", "op"),
    [
        ("x = NoOp()", "NoOp"),
        ("[mklcpu 2.0MB 2.0MB] x = _MklMatMul(a, b)", "_MklMatMul"),
        ("a = b = Relu(c)", "Relu"),
        ("nothing", ""),
        ("", ""),
    ],
)
def test_ops(label, op):
    assert parse_op_label(label) == op


@pytest.mark.parametrize(
    ("label", "inputs"),
    [
        ("x = NoOp()", ()),
        ("[mklcpu 2.0MB 2.0MB] x = MatMul(a, b:1, ^c)", ("a", "b:1")),
        ("x = NoOp(^c)", ()),
        ("nothing", ()),
    ],
)
def test_inputs(label, inputs):
    assert parse_inputs(label) == inputs


@pytest.mark.parametrize(
    ("label", "name", "activity"),
    [
        ("gemm regs:3@@a/b:MatMul#id=1#", "ignored", ("a/b", "MatMul")),
        ("", "a/b:MatMul", ("a/b", "MatMul")),
        ("", "a/b:MatMul:MEMCPYDtoD", ("a/b", "MEMCPYDtoD")),
        ("", "edge_5_x", ("edge_5_x", "")),
        ("", "void ns::kernel<int>(int*)", ("", "void ns::kernel<int>(int*)")),
    ],
)
def test_device_activities(label, name, activity):
    assert parse_activity_label(label, name) == activity


def test_sizes():
    assert parse_size("edge_5_x bytes:4096 aync to device:1") == 4096
    assert parse_size("MEMCPYHtoD 401408 bytes (Pageable to Device)") == 401408
    assert parse_size("MEMCPYHtoD") == NULL


def test_transfers():
    label = (
        "[4B] [0.05Mb/s] edge_27_t/Mean from /job:w/replica:0/task:1/device:CPU:0 to /job:ps/cpu:0"
    )
    assert parse_transfer_label(label) == (
        "edge_27_t/Mean",
        "/job:w/replica:0/task:1/device:CPU:0",
        "/job:ps/cpu:0",
    )
    assert parse_transfer_label("[4B] x") is None


def test_edges_name_their_producer():
    assert edge_node("edge_27_t/Mean") == "t/Mean"
    assert edge_node("loss:0") == "loss:0"
