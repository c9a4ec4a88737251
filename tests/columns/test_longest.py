"""Longest paths: against a model, compiled and not, and with circles refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.base.columns import compiled
from stepwhy.base.columns.longest import critical_path, longest_paths, network

FEW = settings(max_examples=100, deadline=None, derandomize=True)


@st.composite
def graphs(draw):
    """A graph whose edges lead from lower to higher numbers of a random order of its nodes."""
    nodes = draw(st.integers(1, 12))
    pairs = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1))
    edges = [(a, b) for a, b in draw(st.lists(pairs, max_size=30)) if a != b]
    place = draw(st.permutations(range(nodes)))
    source = np.array([place[min(e)] for e in edges], dtype=np.int64)
    target = np.array([place[max(e)] for e in edges], dtype=np.int64)
    return nodes, source, target


def starts_by_model(net, *, from_end, lag, duration, delay, earliest):
    """The same by repeating until nothing changes."""
    start = (earliest + delay).tolist()
    for _ in range(net.nodes + 1):
        for edge in range(len(net.source)):
            before, node = net.source[edge], net.target[edge]
            reached = start[before] + lag[edge] + from_end[edge] * duration[before] + delay[node]
            start[node] = max(start[node], reached)
    return start


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("is_compiled", [True, False])
@FEW
@given(graph=graphs(), seed=st.integers(0, 2**32 - 1))
def test_every_node_starts_when_the_last_edge_lets_it(is_compiled, graph, seed):
    random = np.random.default_rng(seed)
    nodes, source, target = graph
    by_target = np.argsort(target, kind="stable")
    net = network(nodes, source[by_target], target[by_target])
    edges = len(net.source)
    columns = {
        "from_end": random.integers(0, 2, edges).astype(bool),
        "lag": random.integers(-3, 9, edges),
        "duration": random.integers(0, 9, nodes),
        "delay": random.integers(0, 4, nodes),
        "earliest": random.integers(-5, 5, nodes),
    }
    with pytest.MonkeyPatch.context() as patch:
        load = compiled.load if is_compiled else lambda _: None
        patch.setattr(compiled, "for_rows", lambda _, module: load(module))
        paths = longest_paths(net, **columns)
        path = critical_path(net, paths.binding, nodes - 1)
    assert paths.start.tolist() == starts_by_model(net, **columns)
    assert path[-1] == nodes - 1
    assert paths.binding[path[0]] == -1
    assert (net.source[paths.binding[path[1:]]] == path[:-1]).all()


def test_edges_without_a_length_do_not_get_lost():
    net = network(3, np.array([1, 2]), np.array([0, 1]))
    zero = np.zeros(3, dtype=np.int64)
    paths = longest_paths(
        net,
        from_end=np.ones(2, dtype=bool),
        lag=zero[:2],
        duration=zero,
        delay=zero,
        earliest=np.array([0, 0, 7]),
    )
    assert paths.start.tolist() == [7, 7, 7]


def test_a_circle_is_refused():
    with pytest.raises(ValueError, match="2 of 3 nodes lie on a circle or behind one"):
        network(3, np.array([1, 0]), np.array([0, 1]))
