"""Op views of traces with very many operations, ranges or levels."""

from tests.analyse.timeline import Timeline

from stepwhy.analyse.answers import op_costs, op_views
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lines import op_paths
from stepwhy.engine.profile import profile
from stepwhy.result.wording.notes import operations_added_up
from stepwhy.trace import Kind


def costs_of(*slices):
    """The op costs of slices of one thread: kind, start, end and name."""
    drawn = Timeline()
    main = drawn.thread()
    for what, start, end, name in slices:
        drawn.add(main, what, start, end, name=name)
    return op_costs.op_costs(Facts(drawn.trace()))


def nested(count, kind, name):
    return [(kind, n, 4 * count - n, name.format(n)) for n in range(count)]


def test_operations_beyond_the_most_are_added_up(monkeypatch):
    monkeypatch.setattr(op_costs, "MOST_OPERATIONS", 3, raising=False)
    drawn = Timeline(unit_ns=1)
    main = drawn.thread()
    for n in range(10):
        drawn.add(main, Kind.OP, 100 * n, 100 * n + n + 1, name=f"op{n}")
    result = profile(drawn.trace(), "x", "op")
    assert [(node.name, node.own.host_ns) for node in result.nodes] == [
        *(("(other operations)", 28), ("op9", 10), ("op8", 9), ("op7", 8)),
    ]
    assert result.notes == (operations_added_up(3, 7, op_costs.OTHERS),)


def test_paths_end_where_ranges_are_nested_too_deep(monkeypatch):
    monkeypatch.setattr(op_paths, "DEEPEST", 3, raising=False)
    ranges = nested(10, Kind.ANNOTATION, "r{}")
    (cost,) = costs_of(*ranges, (Kind.OP, 15, 16, "mm")).ops
    assert cost.node == "r0/r1/r2/mm"


def test_paths_end_where_they_get_too_long(monkeypatch):
    monkeypatch.setattr(op_paths, "LONGEST", 7, raising=False)
    ranges = nested(10, Kind.ANNOTATION, "r{}")
    (cost,) = costs_of(*ranges, (Kind.OP, 15, 16, "mm")).ops
    assert cost.node == "r0/r1/mm"


def test_ranges_beyond_the_most_add_no_name(monkeypatch):
    monkeypatch.setattr(op_paths, "MOST_PATHS", 2, raising=False)
    slices = [(Kind.ANNOTATION, 10 * n, 10 * n + 9, f"r{n}") for n in range(4)]
    slices += [(Kind.OP, 10 * n + 1, 10 * n + 2, "mm") for n in range(4)]
    nodes = [cost.node for cost in costs_of(*slices).ops]
    assert nodes == ["r0/mm", "r1/mm", "mm"]


def test_slashes_in_names_make_only_so_many_levels():
    (*_, last) = op_views.view(
        costs_of((Kind.OP, 0, 5, "a/" * 1000)), "scope", lambda sums: int(sums[1])
    )
    assert last.depth == 256
