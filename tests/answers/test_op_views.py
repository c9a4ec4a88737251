"""What operations cost, from four sides."""

from itertools import pairwise

import pytest
from tests.analyse.timeline import Timeline

from stepwhy.analyse.answers.op_costs import MEASURES, op_costs
from stepwhy.analyse.answers.op_views import NO_LINE, view, why_not
from stepwhy.analyse.facts import Facts
from stepwhy.result.reasons import NoView
from stepwhy.trace import NULL, FlowKind, Kind

TIME = MEASURES.index("device_ns")
MEMORY = MEASURES.index("requested_bytes")


def session():
    """A graph run: b and c read a; d reads b and c; b's line is known, and memory of b and d."""
    drawn = Timeline(unit_ns=1)
    lane, other = drawn.executor(), drawn.executor(lane=1)
    a = drawn.add(lane, Kind.KERNEL, 0, 10, name="Const", scope="net/a")
    b = drawn.add(lane, Kind.KERNEL, 10, 40, name="MatMul", scope="net/layer/b", bytes=8)
    c = drawn.add(other, Kind.KERNEL, 10, 30, name="MatMul", scope="net/c")
    d = drawn.add(lane, Kind.KERNEL, 40, 45, name="Add", scope="d")
    drawn.add(lane, Kind.KERNEL, 45, 46, name="NoOp", scope="_SOURCE")
    for source, target in ((a, b), (a, c), (b, d), (c, d)):
        drawn.builder.add("flows", source=source, target=target, kind=int(FlowKind.DATA))
    intern = drawn.builder.intern
    drawn.builder.add(
        "nodes", name=intern("net/layer/b"), op=0, source=intern("train.py(7): layer")
    )
    drawn.builder.add("executions", slice=b, op_ns=28, requested_bytes=100)
    drawn.builder.add("executions", slice=d, requested_bytes=5)
    return drawn.trace(framework="tensorflow", signals=frozenset({"whole-step"}))


def seen(costs, kind):
    rows = view(costs, kind, lambda sums: int(sums[TIME]))
    return [(row.depth, row.name, int(row.own[TIME]), int(row.total[TIME])) for row in rows]


def test_by_scope():
    assert seen(op_costs(Facts(session())), "scope") == [
        (0, "net", 0, 58),
        (1, "net/layer", 0, 28),
        (2, "net/layer/b", 28, 28),
        (1, "net/c", 20, 20),
        (1, "net/a", 10, 10),
        (0, "d", 5, 5),
    ]


def test_along_the_graph_each_operation_counts_once():
    assert seen(op_costs(Facts(session())), "graph") == [
        (0, "d", 5, 63),
        (1, "net/layer/b", 28, 38),
        (2, "net/a", 10, 10),
        (1, "net/c", 20, 20),
    ]


def test_by_op():
    assert seen(op_costs(Facts(session())), "op") == [
        (0, "MatMul", 48, 48),
        (0, "Const", 10, 10),
        (0, "Add", 5, 5),
    ]


def test_by_line_of_the_program():
    assert seen(op_costs(Facts(session())), "code") == [
        (0, NO_LINE, 35, 35),
        (0, "train.py", 0, 28),
        (1, "train.py(7): layer", 28, 28),
    ]


def test_memory_that_is_not_recorded_is_not_zero():
    rows = view(op_costs(Facts(session())), "op", lambda sums: int(sums[MEMORY]))
    memory = {row.name: int(row.total[MEMORY]) for row in rows}
    assert memory == {"MatMul": 100, "Add": 5, "Const": NULL}
    assert [row.name for row in rows] == ["MatMul", "Add", "Const"]


def eager():
    """Two steps of a module, with a kernel that outlasts its launch, and one of unknown origin."""
    drawn = Timeline(unit_ns=1000)
    main = drawn.thread()
    drawn.steps(0, 100, 200)
    for at in (0, 100):
        drawn.add(main, Kind.PYTHON, at + 1, at + 60, name="f", source="train.py(3): f")
        drawn.add(main, Kind.FRAMEWORK, at + 5, at + 50, name="nn.Module: Linear_0")
        drawn.add(main, Kind.OP, at + 10, at + 40, name="aten::linear")
        drawn.add(main, Kind.OP, at + 20, at + 30, name="aten::mm")
        drawn.launch((at + 22, at + 26), (at + 25, at + 75), at + 7, name="gemm")
        drawn.add(drawn.stream(), Kind.KERNEL, at + 80, at + 84, name="stray")
    return drawn.trace(framework="pytorch")


def test_a_kernel_belongs_to_the_innermost_operation_that_launched_it():
    costs = op_costs(Facts(eager()))
    by_op = {row.name: row.own.tolist()[:3] for row in view(costs, "op", lambda s: int(s[TIME]))}
    count = Facts(eager()).steady_count
    assert by_op == {
        # runs, time of the host without that of operations inside, time of the device
        "aten::mm": [count, count * 6_000, count * 50_000],
        "aten::linear": [count, count * 20_000, 0],
        "stray": [count, 0, count * 4_000],
    }


def test_modules_and_functions_hold_their_operations():
    costs = op_costs(Facts(eager()))
    scopes = [name for _, name, _, _ in seen(costs, "scope")]
    assert scopes == ["Linear_0", "Linear_0/aten::mm", "Linear_0/aten::linear", "stray"]
    assert [name for _, name, _, _ in seen(costs, "code")] == [
        "train.py",
        "train.py(3): f",
        NO_LINE,
    ]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("op", None),
        ("scope", NoView.NO_SCOPES),
        ("code", NoView.NO_LINES),
        ("graph", NoView.NO_READS),
    ],
)
def test_a_view_that_the_trace_cannot_show_says_why(kind, reason):
    drawn = Timeline()
    drawn.add(drawn.stream(), Kind.KERNEL, 0, 5, name="k")
    assert why_not(op_costs(Facts(drawn.trace())), kind) is reason


def test_a_trace_without_operations_has_no_view():
    drawn = Timeline().steps(0, 5, 10)
    assert why_not(op_costs(Facts(drawn.trace())), "op") is NoView.NO_OPERATIONS


def test_a_long_chain_is_no_trouble():
    drawn = Timeline(unit_ns=1)
    lane = drawn.executor()
    rows = [drawn.add(lane, Kind.KERNEL, i, i + 1, name="Op", scope=f"n{i}") for i in range(3000)]
    for source, target in pairwise(rows):
        drawn.builder.add("flows", source=source, target=target, kind=int(FlowKind.DATA))
    assert seen(op_costs(Facts(drawn.trace())), "graph")[-1][:2] == (2999, "n0")


def test_a_loop_is_walked_once():
    drawn = Timeline(unit_ns=1)
    lane = drawn.executor()
    a, b = (drawn.add(lane, Kind.KERNEL, i, i + 1, name="Op", scope=f"n{i}") for i in range(2))
    for source, target in ((a, b), (b, a)):
        drawn.builder.add("flows", source=source, target=target, kind=int(FlowKind.DATA))
    assert [row[1] for row in seen(op_costs(Facts(drawn.trace())), "graph")] == ["n0", "n1"]
