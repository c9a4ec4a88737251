"""Autograd functions that run Python, by stack samples."""

from __future__ import annotations

import pytest

from stepwhy.read.formats.run_directory.reader import mark_functions
from stepwhy.trace import Kind
from stepwhy.trace.notation import parse

ENTRY = "autograd.Function Rank"


def names_in_python(samples, more=""):
    """Names of the slices that become Python."""
    trace = mark_functions(
        parse(f"""
            unit: 1 ms
            framework: pytorch
            main  step |[----------]|
            main  op   |rrr mm bbb a|  r=Rank  m=aten::mm  b=RankBackward  a=Rank2
            {more}

            samples: role | line | package | entry | count
            driver | train.py(4): main | torch | - | 40
            {samples}
        """)
    )
    return [trace.string(int(n)) for n in trace.slices.name[trace.rows(Kind.PYTHON)]]


def test_functions_in_numpy_are_python():
    found = names_in_python(f"driver | a.py(9): Rank.forward | numpy | {ENTRY} | 30")
    assert found == ["Rank", "RankBackward"]


def test_several_lines_are_python():
    lines = f"driver | a.py(9): f | | {ENTRY} | 15\ndriver | a.py(10): f | | {ENTRY} | 15"
    assert names_in_python(lines) == ["Rank", "RankBackward"]


@pytest.mark.parametrize(
    ("samples", "more"),
    [
        pytest.param(f"driver | a.py(9): f | | {ENTRY} | 30", "", id="a kernel in one line"),
        pytest.param(f"driver | a.py(9): f | numpy | {ENTRY} | 3", "", id="too few"),
        pytest.param("driver | a.py(9): f | numpy | - | 30", "", id="not called by autograd"),
        pytest.param(
            f"driver | a.py(9): f | numpy | {ENTRY} | 30", "GPU:0 kernel |kkk|", id="accelerator"
        ),
    ],
)
def test_others_stay_operations(samples, more):
    assert names_in_python(samples, more) == []
