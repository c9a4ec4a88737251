"""The placement of a graph as a table."""

from __future__ import annotations

import pytest
from tests.diagnose.test_literate import CASES, facts_of

from stepwhy.analyse.answers.placement import bounded, differences, placement_of, select
from stepwhy.analyse.facts import Facts
from stepwhy.base.errors import NoPlacementError
from stepwhy.diagnose.placement import misplaced_op
from stepwhy.diagnose.shared.rule import examine
from stepwhy.engine.explain import read_placement
from stepwhy.engine.rank_sets import Opened
from stepwhy.trace.notation import parse

DRAWING = """
unit: 1 ms
main   step   |[--------]|
GPU:0  kernel |mmmm      |  m=MatMul {scope: net/MatMul}

nodes: name | op | requested | actual | outer | scope_line | source
net/MatMul   | MatMul     | GPU:0 | GPU:0 | -     | a.py(3) | a.py(4)
net/Conv3D   | Conv3D     | GPU:0 | CPU:0 | -     | a.py(3) | a.py(5)
net/in/Relu  | Relu       | CPU:0 | CPU:0 | GPU:0 | a.py(9) | a.py(6)
net/pruned   | Mul        | GPU:0 | -     | -     | a.py(3) | a.py(7)
weights      | VariableV2 |       | CPU:0 | -     | -       | a.py(1)
rewritten    | MatMul     | -     | GPU:0 | -     | -       | -

copies: source | target | from_device | to_device | bytes
weights    | net/MatMul | CPU:0 | GPU:0 | 2 MiB
net/Conv3D | net/MatMul | CPU:0 | GPU:0 | 1 MiB
net/Conv3D | net/MatMul | CPU:0 | GPU:0 | 1 MiB
"""


def placement(drawing=DRAWING):
    return placement_of(Facts(parse(drawing)))


def by_name(table):
    return {op.name: op for op in table.ops}


def test_each_operation_says_where_it_was_asked_to_run_and_ran():
    ops = by_name(placement())
    assert {name: op.placed for name, op in ops.items()} == {
        "net/MatMul": "as-asked",
        "net/Conv3D": "moved",
        "net/in/Relu": "overruled",
        "net/pruned": "never-ran",
        "weights": "unasked",
        "rewritten": "unasked",
    }
    assert ops["weights"].requested == ""
    assert ops["rewritten"].requested is None
    assert ops["net/in/Relu"].outer == "GPU:0"


def test_copies_count_per_run_of_the_graph():
    ops = by_name(placement())
    assert (ops["net/Conv3D"].copies, ops["net/Conv3D"].copied_bytes) == (2, 2 << 20)
    assert (ops["net/MatMul"].copies, ops["net/MatMul"].copied_bytes) == (0, None)


def test_scopes_sum_up_what_lies_in_them():
    scopes = {s.scope: s for s in placement().scopes}
    assert list(scopes) == ["", "net", "net/in"]
    assert (scopes[""].ops, scopes[""].elsewhere, scopes[""].never_ran) == (6, 2, 1)
    assert scopes["net"].devices == {"CPU:0": 2, "GPU:0": 1}
    assert scopes["net"].copies == 2


def test_a_node_of_several_traced_runs_is_one_row_and_ran():
    twice = DRAWING.replace(
        "weights      |", "net/MatMul | MatMul | GPU:0 | - | - | - | -\nweights |"
    )
    assert len(placement(twice).ops) == 6
    assert by_name(placement(twice))["net/MatMul"].actual == "GPU:0"


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({"scope": "net/in"}, ["net/in/Relu"]),
        ({"scope": "net/MatMul"}, ["net/MatMul"]),
        ({"scope": "ne"}, []),
        ({"device": "GPU:0"}, ["net/MatMul", "rewritten"]),
        ({"device": "gpu"}, ["net/MatMul", "rewritten"]),
        ({"elsewhere": True}, ["net/Conv3D", "net/in/Relu"]),
        ({"scope": "net", "device": "CPU:0", "elsewhere": True}, ["net/Conv3D", "net/in/Relu"]),
    ],
)
def test_select(wanted, names):
    assert [op.name for op in select(placement(), **wanted).ops] == names


def test_a_result_keeps_what_ran_elsewhere_and_says_how_much_it_leaves_out():
    small = bounded(placement(), most=3)
    assert [op.name for op in small.ops] == ["net/Conv3D", "net/MatMul", "net/in/Relu"]
    assert small.left_out == 3
    assert small.scopes[0].ops == 6


def test_scopes_of_a_result_are_bounded_from_the_inside():
    rows = "".join(f"s{i}/a/b/c/d/op | Mul | GPU:0 | GPU:0 | - | - | -\n" for i in range(500))
    scopes = bounded(placement(DRAWING.replace("\ncopies:", f"{rows}\ncopies:"))).scopes
    assert len(scopes) == 400
    assert scopes[0].scope == ""
    assert max(s.scope.count("/") for s in scopes) <= 2


def test_differences_are_of_device_presence_and_copies():
    fixed = (
        DRAWING.replace("| Conv3D     | GPU:0 | CPU:0", "| Conv3D | GPU:0 | GPU:0")
        .replace("net/pruned   | Mul        | GPU:0 | -  ", "net/pruned | Mul | GPU:0 | GPU:0")
        .replace("rewritten    |", "renamed |")
        .replace("net/Conv3D | net/MatMul | CPU:0 | GPU:0 | 1 MiB\n", "")
        .replace("a.py(1)", "a.py(100)")
    )  # fmt: skip
    found = differences(("a", placement()), ("b", placement(fixed)))
    changed = {c.name: (c.a and c.a.actual, c.b and c.b.actual) for c in found.changes}
    assert changed == {
        "net/Conv3D": ("CPU:0", "GPU:0"),
        "net/pruned": ("", "GPU:0"),
        "renamed": (None, "GPU:0"),
        "rewritten": ("GPU:0", None),
    }
    assert found.same == 3


def test_a_run_does_not_differ_from_itself():
    assert differences(("a", placement()), ("a", placement())).changes == ()


def test_no_record_of_the_placement():
    trace = parse("main step |[----]|\nGPU:0 kernel |mmmm  |  m=gemm")
    assert placement_of(Facts(trace)) is None
    assert bounded(None) is None


def test_reading_a_run_without_placement_is_a_typed_error(monkeypatch):
    trace = parse("main step |[----]|\nGPU:0 kernel |mmmm  |  m=gemm")
    opened = [Opened("here", "kineto", trace)]
    monkeypatch.setitem(read_placement.__globals__, "open_run", lambda *_, **__: (opened, []))
    with pytest.raises(NoPlacementError, match="does not record where operations ran"):
        read_placement("here")


def test_reading_a_run_returns_every_operation(monkeypatch):
    opened = [Opened("here", "tf-run-metadata", parse(DRAWING))]
    monkeypatch.setitem(read_placement.__globals__, "open_run", lambda *_, **__: (opened, []))
    assert read_placement("here") == placement()


MISPLACED = [c for c in CASES if c.diagnosis == "misplaced-op"]


@pytest.mark.parametrize("case", MISPLACED, ids=lambda c: c.title)
def test_the_placement_lists_what_the_diagnosis_counts(case):
    facts = facts_of(case)
    finding = examine(misplaced_op, facts)
    counted = {e.what: e.value for e in finding.evidence}
    table = placement_of(facts)
    moved = [op for op in table.ops if op.placed == "overruled"] if table else []
    assert counted.get("operations on a different device than requested", 0) == len(moved)
    lines = ", ".join(dict.fromkeys(op.line for op in moved if op.line))
    assert counted.get("responsible device scope", lines) == lines
