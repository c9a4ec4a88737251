"""Graphs: nodes, and the tensors that cross devices."""

from tests.read.tf_samples import PS, WORKER, graph, rendezvous

from stepwhy.read.shared.tensorflow.graphs import Edge, Node, dependences, edges_of, nodes_of
from stepwhy.read.shared.tensorflow.messages import message_class
from stepwhy.trace import NULL, Dependence

EDGE = rendezvous("edge_3_split", PS, WORKER, T=1)


def test_nodes_have_canonical_devices_and_data_inputs():
    (node,) = nodes_of([graph(("y", "Add", WORKER, ["x:1", "w", "^init"], {"_class": ["loc:@y"]}))])
    assert node == Node("y", "Add", "/job:worker/task:1 CPU:0", ("x", "w"), "")


def test_a_static_shape_gives_the_size():
    definition = graph(("split", "Split", PS, [], {}), ("s", "_Send", PS, ["split:1"], EDGE))
    shapes = definition.node[0].attr.add(key=b"_output_shapes").value.list.shape
    for size in (7, 5):
        dims = shapes.add().dim
        dims.add(size=size)
        dims.add(size=3)
    (edge,) = edges_of([definition])
    assert edge == Edge(
        "edge_3_split", "split", 1, "", "", "/job:ps/task:0 CPU:0", "/job:worker/task:1 CPU:0", 60
    )


def test_an_unknown_dimension_leaves_the_size_open():
    definition = graph(("split", "Split", PS, [], {}), ("s", "_Send", PS, ["split"], EDGE))
    shape = message_class("TensorShape")()
    shape.dim.add(size=-1)
    definition.node[0].attr.add(key=b"_output_shapes").value.list.shape.append(shape)
    assert [e.bytes for e in edges_of([definition])] == [NULL]


def test_what_stays_on_a_device_or_goes_to_the_client_is_no_copy():
    sends = graph(
        ("a", "_Send", PS, ["x"], rendezvous("edge_1_x", PS, PS)),
        ("b", "_Send", PS, ["x"], rendezvous("x:0", PS, WORKER, client_terminated=True)),
    )
    assert edges_of([sends]) == []


def dependence_of(*nodes):
    definition = graph(*((name, op, PS, inputs, {}) for name, op, inputs in nodes))
    return dependences({node.name: node for node in nodes_of([definition])})


def test_variables_and_data_are_followed_through_the_graph():
    found = dependence_of(
        ("w", "VariableV2", []),
        ("w/read", "Identity", ["w"]),
        ("decay", "L2Loss", ["w/read"]),
        ("next", "IteratorGetNext", []),
        ("images", "Cast", ["next:1"]),
        ("product", "MatMul", ["images", "w/read"]),
        ("again", "Enter", ["product", "loop"]),
        ("loop", "NextIteration", ["again"]),
        ("ordered", "Tanh", ["images", "^product"]),
        ("shape", "Shape", ["product"]),
        ("cut", "StridedSlice", ["shape"]),
    )
    assert found["w/read"] is found["decay"] is Dependence.VARIABLES
    assert found["images"] is found["ordered"] is Dependence.DATA
    assert found["product"] is found["again"] is found["loop"] is Dependence.BOTH
    assert found["cut"] is Dependence.SHAPES


def test_without_variables_nothing_is_known():
    assert dependence_of(("x", "Placeholder", []), ("y", "Tanh", ["x"])) == {}
