"""`stable_order` agrees with NumPy."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.base.columns.order import stable_order


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.integers(-9, 9), max_size=60))
def test_stable_order_equals_numpy(values):
    found = stable_order(np.asarray(values, dtype=np.int64))
    assert found.dtype == np.int32
    assert found.tolist() == sorted(range(len(values)), key=values.__getitem__)


def test_extremes_of_int64_are_sorted():
    values = np.array([2**63 - 1, -(2**63), 0] * 100_000)
    assert (stable_order(values) == np.argsort(values, kind="stable")).all()
