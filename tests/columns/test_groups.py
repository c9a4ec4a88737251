"""Grouping rows by code, and looking up values by key."""

import numpy as np
import pytest

from stepwhy.base.columns import chunks, groups
from stepwhy.base.columns.groups import (
    by_code,
    count_distinct,
    distinct,
    keep_codes,
    looked_up,
    numbered,
)


@pytest.mark.parametrize("low", [-1, 0, 300, -(2**40)])
def test_by_code_is_stable(low):
    order, first = by_code(np.asarray([5, 2, 5, 2, 9], dtype=np.int64) + low)
    assert order.tolist() == [1, 3, 0, 2, 4]
    assert first.tolist() == [0, 2, 4]


def test_by_code_of_distant_codes():
    order, first = by_code(np.asarray([2**40, 0, 2**40, -1]))
    assert order.tolist() == [3, 1, 0, 2]
    assert first.tolist() == [0, 1, 2]


def test_by_code_of_no_rows():
    order, first = by_code(np.empty(0, dtype=np.int32))
    assert len(order) == len(first) == 0


@pytest.mark.parametrize("codes", [[7, -1, 7, 3], [2**60, -5, 2**60], [0], []])
def test_numbered_and_distinct_agree_with_numpy(codes):
    array = np.asarray(codes, dtype=np.int64)
    keys, place = np.unique(array, return_inverse=True)
    assert [column.tolist() for column in numbered(array)] == [keys.tolist(), place.tolist()]
    assert distinct(array).tolist() == keys.tolist()
    assert count_distinct(array) == len(keys)


def test_few_queries_among_many_keys_are_found_as_many_are():
    keys = np.arange(0, 3000, 3, dtype=np.int32)
    queries = np.arange(-3, 3005, dtype=np.int32)
    whole = looked_up(keys, keys * 2, queries, -1)
    parts = [looked_up(keys, keys * 2, queries[i : i + 7], -1) for i in range(0, len(queries), 7)]
    assert np.concatenate(parts).tolist() == whole.tolist()
    assert {part.dtype for part in parts} == {whole.dtype}
    assert len(looked_up(keys, keys, queries[:0], -1)) == 0


def test_lookup_in_chunks_equals_lookup_at_once(monkeypatch):
    keys, queries = np.asarray([3, 5, 9, 2**30], np.int32), np.asarray([-7, 3, 4, 5, 9, 2**40])
    whole = looked_up(keys, keys * 2, queries, -1)
    monkeypatch.setattr(chunks, "CHUNK", 2)
    monkeypatch.setattr(groups, "CHUNK", 2)
    assert looked_up(keys, keys * 2, queries, -1).tolist() == whole.tolist()
    assert whole.tolist() == [-1, 6, -1, 10, 18, -1]


def test_keep_codes(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", 2)
    chosen = np.asarray([True, True, False, True, True])
    keep_codes(chosen, np.asarray([0, 1, 1, 2, 1]), np.asarray([False, True, True]))
    assert chosen.tolist() == [False, True, False, True, True]
