"""Device functions: what they choose for others is what a scope inside them overrules."""

from stepwhy.read.shared.tensorflow.graphs import Node
from stepwhy.read.shared.tensorflow.placement import Observed, Placed, Requested, add_placement
from stepwhy.read.shared.tensorflow.sidecars import OpSource, Scope
from stepwhy.trace import NULL, Meta, TraceBuilder

PS = "/job:ps/task:0"
SETTER, INNER = Scope("device_function()", "train.py(8)"), Scope(PS, "train.py(12)")


def program(workers):
    """A variable, and in each tower a layer where the setter puts it and one that is pinned."""
    nodes = {"w": Node("w", "VariableV2", PS, (), "")}
    ops = {"w": OpSource("train.py(9)", PS, (SETTER,))}
    for tower, worker in workers.items():
        for name, device, scopes in (
            (f"{tower}/free", worker, (SETTER,)),
            (f"{tower}/pinned", PS, (SETTER, INNER)),
        ):
            nodes[f"{name}/x"] = Node(f"{name}/x", "Placeholder", device, (), "")
            nodes[name] = Node(name, "Tanh", device, ("w", f"{name}/x"), "")
            ops[name] = OpSource("train.py(13)", device, scopes)
    return Requested(nodes, ops)


def outer_devices(requested):
    builder = TraceBuilder()
    add_placement(builder, Placed(), requested, Observed())
    trace = builder.finish(Meta("tf-run-metadata"))
    names, outer = trace.nodes.name.tolist(), trace.nodes.outer.tolist()
    return {
        trace.string(name): trace.string(device)
        for name, device in zip(names, outer, strict=True)
        if device != NULL
    }


def test_each_tower_has_the_worker_of_its_other_layers():
    workers = {f"tower_{i}": f"/job:worker/task:{i}" for i in (0, 1)}
    assert outer_devices(program(workers)) == {
        "tower_0/pinned": "/job:worker/task:0",
        "tower_1/pinned": "/job:worker/task:1",
    }


def test_a_function_that_chooses_several_devices_is_unknown():
    requested = program({"tower_0": "/job:worker/task:0"})
    requested.sources["tower_0/other"] = OpSource("", "/job:worker/task:1", (SETTER,))
    requested.graph["tower_0/other"] = requested.graph["tower_0/free"]
    assert outer_devices(requested) == {}
