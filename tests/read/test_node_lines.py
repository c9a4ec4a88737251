"""Lines of the program behind the nodes that TensorFlow's runtime ran."""

import pytest

from stepwhy.read.shared.tensorflow.node_lines import NodeLines

DENSE, LOSS, TRAIN, LOOP = "net.py(3): dense", "net.py(9): loss", "train.py(5)", "train.py(2)"
LINES = {
    "dense/MatMul": DENSE,
    "dense/MatMul_1": "net.py(4): dense",
    "loss/mul": LOSS,
    "while/MatMul": LOOP,
    "while": "train.py(3)",
    "gradients/dense/MatMul_grad/MatMul": TRAIN,
    "gradients/AddN": TRAIN,
    "gradients/Fill": TRAIN,
    "train/Adam/update_w/ResourceApplyAdam": TRAIN,
    "gradient_tape/TanhGrad": "net.py(7): tanh",
}


@pytest.mark.parametrize(
    ("node", "line"),
    [
        ("dense/MatMul", DENSE),
        # Gradients are of the forward operation's line.
        ("gradients/dense/MatMul_grad/MatMul", DENSE),
        ("train/gradients_1/dense/MatMul_grad/MatMul_1", DENSE),
        ("gradients_1/gradients/dense/MatMul_grad/MatMul_grad/MatMul", DENSE),
        ("gradients/while/while_grad/body/_88/gradients/while/MatMul_grad/MatMul", LOOP),
        ("StatefulPartitionedCall/gradient_tape/TanhGrad", "net.py(7): tanh"),
        # The rest of the backward pass, and the optimizer, are of their own.
        ("gradients/Fill", TRAIN),
        ("train/Adam/update_w/ResourceApplyAdam", TRAIN),
        ("gradients/AddN", DENSE),
        # What the runtime puts in the place of a call or a node.
        ("StatefulPartitionedCall/dense/MatMul", DENSE),
        ("while/body/_5/while/MatMul", LOOP),
        ("while/enter/_3", "train.py(3)"),
        ("dense/MatMul-0-TransposeNHWCToNCHW-LayoutOptimizer", DENSE),
        ("ConstantFolding/loss/mul_recip", LOSS),
        ("loss/mul/_2__cf__2", LOSS),
        ("loss/ArithmeticOptimizer/AddOpsRewrite_Leaf_1_mul", LOSS),
        ("_retval_loss/mul_0_1", LOSS),
        ("unknown/MatMul", ""),
        ("", ""),
    ],
)
def test_nodes(node, line):
    follows = {"gradients/AddN": "gradients/dense/MatMul_grad/MatMul"}
    assert NodeLines(LINES, follows).of(node) == line


def test_nodes_bound_to_each_other():
    assert (
        NodeLines(LINES, {"gradients/a": "gradients/b", "gradients/b": "gradients/a"}).of(
            "gradients/a"
        )
        == ""
    )


def test_without_lines():
    assert NodeLines({}).of("dense/MatMul") == ""
