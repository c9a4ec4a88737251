"""Sorting rows: compiled merging of runs agrees with sorting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.base.columns import chunks, compiled, order
from stepwhy.base.columns.order import parents_first

FEW = settings(max_examples=100, deadline=None, derandomize=True)

spans = st.tuples(st.integers(-4, 9), st.integers(0, 4))
runs = st.lists(
    st.lists(spans, max_size=9).map(lambda run: sorted(run, key=lambda s: (s[0], -s[1]))),
    max_size=7,
).map(lambda parts: [span for part in parts for span in part])


def columns(rows):
    return np.array(rows, dtype=np.int64).reshape(-1, 2).T


def expected(rows):
    return sorted(range(len(rows)), key=lambda i: (rows[i][0], -rows[i][1]))


@FEW
@given(st.lists(spans, max_size=30) | runs)
def test_rows_are_ordered_by_start_then_longest_first(rows):
    found = parents_first(*columns(rows))
    assert (list(range(len(rows))) if found is None else found.tolist()) == expected(rows)


@pytest.mark.usefixtures("kernels")
@FEW
@given(st.lists(spans, max_size=30) | runs)
def test_compiled_merge_equals_sorting(rows):
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_FEW", "_MANY"):
            patch.setattr(compiled, name, 0)
        found = parents_first(*columns(rows))
    in_order = expected(rows) == list(range(len(rows)))
    assert (found is None) == in_order
    assert in_order or (found.dtype == np.int32 and found.tolist() == expected(rows))


def test_rows_in_many_runs_are_sorted(monkeypatch):
    for name in ("_FEW", "_MANY"):
        monkeypatch.setattr(compiled, name, 0)
    monkeypatch.setattr(compiled, "load", pytest.fail)
    starts = np.tile(np.array([1, 0]), order._MOST_RUNS)
    found = parents_first(starts, np.zeros_like(starts))
    assert found.tolist() == [*range(1, len(starts), 2), *range(0, len(starts), 2)]


def test_rows_are_looked_up_in_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", 3)
    values, rows = np.arange(10, 20), np.array([7, 1, 9, 0, 2, 3, 8], dtype=np.int32)
    assert chunks.take(values, rows).tolist() == [17, 11, 19, 10, 12, 13, 18]
