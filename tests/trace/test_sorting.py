"""The order of many values."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.trace import sorting
from stepwhy.trace.sorting import stable_order


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.integers(-9, 9), max_size=60), st.integers(1, 20), st.integers(1, 9))
def test_it_is_numpys(values, at_once, sample):
    whole = sorting._AT_ONCE, sorting._SAMPLE
    sorting._AT_ONCE, sorting._SAMPLE = at_once, min(at_once, sample)
    try:
        found = stable_order(np.asarray(values, dtype=np.int64))
    finally:
        sorting._AT_ONCE, sorting._SAMPLE = whole
    assert found.dtype == np.int32
    assert found.tolist() == sorted(range(len(values)), key=values.__getitem__)


def test_ends_of_64_bits_are_in_it():
    values = np.array([2**63 - 1, -(2**63), 0] * 100_000)
    assert (stable_order(values) == np.argsort(values, kind="stable")).all()
