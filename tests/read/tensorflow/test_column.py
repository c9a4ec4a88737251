"""Columns of integers that are as wide as their widest value."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.base.columns.chunks import put
from stepwhy.base.columns.groups import rows_by_group
from stepwhy.base.columns.growing import NarrowColumn

FEW = settings(derandomize=True, max_examples=60, deadline=None)
WIDTHS = st.sampled_from([7, 15, 31, 63])
VALUES = WIDTHS.flatmap(lambda bits: st.integers(-(1 << bits), (1 << bits) - 1))


@FEW
@given(st.lists(st.lists(VALUES, max_size=4), max_size=4))
def test_it_holds_what_it_was_given(parts):
    column = NarrowColumn()
    for part in parts:
        column.append(np.asarray(part, dtype=np.int64))
    assert column.values().tolist() == [value for part in parts for value in part]
    assert len(column) == sum(map(len, parts))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([], "int8"),
        ([63, -64], "int8"),
        ([0, 64], "int16"),
        ([-(1 << 14) - 1], "int32"),
        ([1 << 30, 0], "int64"),
    ],
)
def test_it_has_the_bits_that_the_widest_value_needs(values, dtype):
    column = NarrowColumn()
    for value in values:
        column.append(np.array([value]))
    assert column.values().dtype == dtype


def test_its_type_can_be_given():
    assert NarrowColumn(np.int64).values().dtype == np.int64


@FEW
@given(st.lists(st.integers(0, 3), max_size=20))
def test_rows_of_a_group_stand_together_in_their_order(codes):
    order, parts = rows_by_group(np.asarray(codes, dtype=np.int8), 5)
    expected = [[row for row, code in enumerate(codes) if code == group] for group in range(5)]
    assert [part.tolist() for part in parts] == expected
    assert order.tolist() == list(chain(*expected))


def test_values_are_put_where_they_belong():
    target = np.zeros(4, dtype=np.int32)
    put(target, np.array([3, 0, 3]), np.array([7, 8, 9]))
    assert target.tolist() == [8, 0, 0, 9]
    flags = np.zeros(3, dtype=bool)
    put(flags, np.array([1]), True)
    assert flags.tolist() == [False, True, False]
