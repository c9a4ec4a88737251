"""Medians of values that come in pieces."""

from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.diagnoses import _median

WIDTHS = st.sampled_from([1, 3, 16, 17, 33, 62])
VALUES = WIDTHS.flatmap(lambda bits: st.integers(0, (1 << bits) - 1))


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(st.lists(VALUES, max_size=4), max_size=4), st.sampled_from([0, 1 << 20]))
def test_it_is_numpys(parts, few):
    pieces = [np.asarray(part, dtype=np.int64) for part in parts]
    every = [value for part in parts for value in part]
    expected = int(np.median(every)) if every else None
    with patch.object(_median, "_FEW", few):
        assert _median.median_of(lambda: pieces) == expected
