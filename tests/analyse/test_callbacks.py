"""Callbacks into Python, told from what input pipelines call."""

from __future__ import annotations

import pytest

from stepwhy.analyse.activity.callbacks import callback_entries, callback_lines, callback_rows
from stepwhy.analyse.breakdown.preparation import find_preparation
from stepwhy.analyse.facts import Facts
from stepwhy.trace import Kind, Meta, Role, SampleRole, TraceBuilder
from stepwhy.trace.notation import parse

MS = 1_000_000

GRAPH = """
    unit: 1 ms
    framework: tensorflow
    main    step      |[------------------]|
    main    framework |rrrrrrrrrrrrrrrrrrrr|
    CPU:0   kernel    |kkkkkkkk            |  k=MatMul {scope: m}
    CPU:0/1 python    |    pppppppppppp    |  p=PyFunc {scope: PyFunc}
    MORE

    samples: role | line | package | entry | count
    driver | train.py(40): main | tensorflow | - | 40
    thread | data.py(9): update |            | py_func | 20
"""


def graph(more=""):
    """A graph whose step calls Python."""
    return parse(GRAPH.replace("MORE", more))


def test_python_called_by_operations_is_python_although_the_framework_runs_it():
    facts = Facts(graph())
    assert facts.breakdown["python"] == facts.callback_ns == 8 * MS
    assert facts.breakdown["dispatch"] == 4 * MS


def test_callbacks_prepare_no_batches():
    trace = graph()
    assert callback_entries(trace) == {"py_func"}
    assert callback_lines(trace) == {"data.py(9): update": 20}
    assert find_preparation(trace) is None


def test_a_graph_with_a_queue_that_calls_python_shows_no_line():
    nodes = "nodes: name | op\nPyFunc | PyFunc\nqueue/PyFunc | PyFunc"
    trace = graph(f"\n{nodes}")
    assert callback_entries(trace) == frozenset()
    assert len(callback_rows(trace)) == 1


@pytest.mark.parametrize(("role", "expected"), [(Role.WORKER, set()), (Role.EXECUTOR, {"py_func"})])
def test_python_in_a_pipeline_of_tf_data_is_no_callback(role, expected):
    builder = TraceBuilder()
    graph, loader = builder.track(Role.EXECUTOR, "a", thread=1), builder.track(role, "b", thread=2)
    builder.slice(graph, Kind.PYTHON, "PyFunc", 0, 10)
    builder.slice(loader, Kind.OP, "PyFunc", 0, 10)
    entry = builder.intern("py_func")
    builder.add("samples", role=int(SampleRole.THREAD), line=0, package=0, count=1, entry=entry)
    assert callback_entries(builder.finish(Meta("x"))) == expected


def test_a_wait_for_a_callback_is_no_synchronisation():
    facts = Facts(
        parse("""
            unit: 1 ms
            framework: jax
            main  step      |[--------]|
            main  sync      |ssssssssss|
            CPU:0 python    |  pppppp  |  p=pure_callback.1
        """)
    )
    assert (facts.breakdown["python"], facts.breakdown["sync"]) == (6 * MS, 4 * MS)


def test_operations_of_an_autograd_function_are_no_callback():
    facts = Facts(
        parse("""
            unit: 1 ms
            framework: pytorch
            main  step   |[--------]|
            main  python |pppppppp  |  p=Rank
            main  op     |  mm      |  m=aten::mm

            samples: role | line | package | entry | count
            driver | a.py(9): f | numpy | autograd.Function Rank | 60
        """)
    )
    assert facts.callback_ns == 6 * MS
