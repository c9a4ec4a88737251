"""Nodes of a graph that compute the same in every run."""

import pytest
from tests.read.tf_samples import PS, graph

from stepwhy.read.shared.tensorflow.constant_nodes import constant_nodes
from stepwhy.read.shared.tensorflow.graphs import nodes_of


def constant(*nodes, device=""):
    definition = graph(*((name, op, device, inputs, {}) for name, op, inputs in nodes))
    return constant_nodes({node.name: node for node in nodes_of([definition])})


REFERENCE = (
    ("v", "VariableV2", []),
    ("first", "Const", []),
    ("v/Assign", "Assign", ["v", "first"]),
    ("v/read", "Identity", ["v"]),
    ("sums", "Sum", ["v/read", "first"]),
)
RESOURCE = (
    ("v", "VarHandleOp", []),
    ("first", "RandomUniform", []),
    ("v/Assign", "AssignVariableOp", ["v", "first"]),
    ("v/read", "ReadVariableOp", ["v"]),
    ("sums", "Sum", ["v/read"]),
)
RESTORED = (("path", "Placeholder", []), ("save", "RestoreV2", ["path"]))


@pytest.mark.parametrize("variable", [REFERENCE, RESOURCE])
def test_a_variable_that_only_its_initialisation_assigns_is_constant(variable):
    found = constant(*variable)
    assert {"v", "v/read", "sums"} <= found
    assert "v/Assign" not in found


@pytest.mark.parametrize("variable", [REFERENCE, RESOURCE])
def test_a_checkpoint_leaves_it_constant(variable):
    again = "AssignVariableOp" if variable is RESOURCE else "Assign"
    restored = ("save/Assign", again, ["v", "passed"])
    found = constant(*variable, *RESTORED, ("passed", "Identity", ["save"]), restored)
    assert "sums" in found


@pytest.mark.parametrize(
    ("variable", "change"),
    [
        (REFERENCE, ("update", "Assign", ["v", "first"])),
        (REFERENCE, ("update", "AssignAdd", ["v", "first"])),
        (REFERENCE, ("update", "ApplyAdam", ["v", "first"])),
        (REFERENCE, ("update", "ScatterSub", ["v", "first"])),
        (REFERENCE, ("update", "RefSwitch", ["v", "first"])),
        (RESOURCE, ("update", "AssignVariableOp", ["v", "first"])),
        (RESOURCE, ("update", "ResourceApplyGradientDescent", ["v", "first"])),
        (RESOURCE, ("update", "StatefulPartitionedCall", ["v"])),
        (RESOURCE, ("other/Assign", "AssignVariableOp", ["v", "first"])),
    ],
)
def test_a_variable_that_something_may_change_is_not_constant(variable, change):
    assert not {"v", "v/read", "sums"} & constant(*variable, change)


@pytest.mark.parametrize(
    "op",
    [
        "RandomUniform", "TruncatedNormal", "Multinomial", "QueueDequeueV2", "PyFunc",
        "PlaceholderWithDefault", "IteratorGetNext", "LookupTableFindV2", "RandomShuffle", "Switch",
        "Merge", "Enter", "While", "PartitionedCall", "TensorArrayReadV3",
    ],
)  # fmt: skip
def test_what_may_differ_between_runs_is_not_constant(op):
    found = constant(("c", "Const", []), ("x", op, ["c"]), ("y", "Mul", ["x", "c"]))
    assert found == {"c"}


def test_what_needs_data_as_well_is_not_constant():
    found = constant(*REFERENCE, ("data", "Placeholder", []), ("y", "MatMul", ["sums", "data"]))
    assert {"data", "y"}.isdisjoint(found)


def test_a_node_without_inputs_is_constant_only_if_it_holds_a_value():
    assert constant(("q", "FIFOQueueV2", []), ("n", "NoOp", []), ("c", "Const", [])) == {"c"}


def test_inputs_that_the_graph_lacks_are_not_constant():
    assert constant(("y", "Neg", ["missing"])) == frozenset()


def test_another_process_may_assign_the_variables_of_a_parameter_server():
    assert constant(*REFERENCE, device=PS) == {"first"}
    assert "sums" in constant(*REFERENCE, device="/job:localhost/replica:0/task:0/device:CPU:0")
