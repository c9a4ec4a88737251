"""Rows in groups by small integers."""

import numpy as np
import pytest

from stepwhy.columns.groups import by_code, distinct, numbered


@pytest.mark.parametrize("low", [-1, 0, 300, -(2**40)])
def test_rows_with_equal_codes_stand_together_in_their_order(low):
    order, first = by_code(np.asarray([5, 2, 5, 2, 9], dtype=np.int64) + low)
    assert order.tolist() == [1, 3, 0, 2, 4]
    assert first.tolist() == [0, 2, 4]


def test_codes_far_apart():
    order, first = by_code(np.asarray([2**40, 0, 2**40, -1]))
    assert order.tolist() == [3, 1, 0, 2]
    assert first.tolist() == [0, 1, 2]


def test_no_rows():
    order, first = by_code(np.empty(0, dtype=np.int32))
    assert len(order) == len(first) == 0


@pytest.mark.parametrize("codes", [[7, -1, 7, 3], [2**60, -5, 2**60], [0], []])
def test_codes_are_numbered_as_numpy_does(codes):
    array = np.asarray(codes, dtype=np.int64)
    keys, place = np.unique(array, return_inverse=True)
    assert [column.tolist() for column in numbered(array)] == [keys.tolist(), place.tolist()]
    assert distinct(array).tolist() == keys.tolist()
