"""Call trees: the vectorized algorithm agrees with the reference implementation."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.base.columns import _tree as call_tree
from stepwhy.base.columns._tree import build_tree
from stepwhy.base.columns.null import NULL

FEW = settings(max_examples=300, deadline=None, derandomize=True)

slices = st.lists(st.tuples(st.integers(-5, 40), st.integers(0, 12)), max_size=25).map(
    lambda rows: sorted(rows, key=lambda row: (row[0], -row[1]))
)


def columns(rows):
    starts = np.asarray([s for s, _ in rows], dtype=np.int64)
    return starts, starts + np.asarray([d for _, d in rows], dtype=np.int64)


def test_tree_with_a_cut_slice():
    # a [0, 10) holds b [1, 4), which holds c [2, 3), and d [5, 12), which is cut; e [11, 13).
    starts, ends = columns([(0, 10), (1, 3), (2, 1), (5, 7), (11, 2)])
    tree = build_tree(starts, ends)
    assert tree.parent.tolist() == [NULL, 0, 1, 0, NULL]
    assert tree.depth.tolist() == [0, 1, 2, 1, 0]
    assert tree.ends.tolist() == [10, 4, 3, 10, 13]


@FEW
@given(slices)
def test_vectorized_tree_equals_reference(rows):
    starts, ends = columns(rows)
    for ours, defined in zip(
        build_tree(starts, ends), call_tree._build_one_by_one(starts, ends), strict=True
    ):
        assert ours.tolist() == defined.tolist()


def test_too_many_rounds_fall_back_to_reference(monkeypatch):
    monkeypatch.setattr(call_tree, "_MAX_ROUNDS", 1)
    starts, ends = columns([(0, 10), (5, 7), (11, 2)])
    assert build_tree(starts, ends).ends.tolist() == [10, 10, 13]
