"""The order of many values."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.columns.order import stable_order


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.integers(-9, 9), max_size=60))
def test_it_is_numpys(values):
    found = stable_order(np.asarray(values, dtype=np.int64))
    assert found.dtype == np.int32
    assert found.tolist() == sorted(range(len(values)), key=values.__getitem__)


def test_ends_of_64_bits_are_in_it():
    values = np.array([2**63 - 1, -(2**63), 0] * 100_000)
    assert (stable_order(values) == np.argsort(values, kind="stable")).all()
