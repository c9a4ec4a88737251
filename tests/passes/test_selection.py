"""Slices found piece by piece, and rows that lie side by side."""

import numpy as np
import pytest
from hypothesis import settings
from tests.passes.timeline import Timeline

from stepwhy.columns import chunks
from stepwhy.columns.chunks import rows_within
from stepwhy.columns.growing import collected
from stepwhy.passes.selection import chosen, mask, of_role, rows_of
from stepwhy.trace import Kind, Role

FEW = settings(max_examples=150, deadline=None, derandomize=True)


def trace():
    line = Timeline()
    for at in range(5):
        line.add(line.thread(), Kind.OP, 3 * at, 3 * at + 1)
        line.add(line.stream(), Kind.KERNEL, 3 * at + 1, 3 * at + 2)
        line.add(line.thread(), Kind.LAUNCH, 3 * at + 2, 3 * at + 3)
    return line.trace()


@pytest.mark.parametrize("piece", [1, 2, 4, 100])
def test_slices_of_kinds_on_tracks(monkeypatch, piece):
    monkeypatch.setattr(chunks, "CHUNK", piece)
    kinds, one = (Kind.OP, Kind.KERNEL), trace()
    on_host = of_role(one, Role.HOST_THREAD)
    assert rows_of(one, kinds).tolist() == [0, 1, 3, 4, 6, 7, 9, 10, 12, 13]
    assert rows_of(one, kinds, on_host).tolist() == [0, 3, 6, 9, 12]
    assert all(len(rows) for rows in chosen(one, kinds, on_host))
    assert np.flatnonzero(mask(one, kinds, on_host)).tolist() == [0, 3, 6, 9, 12]
    rows = collected(chosen(one, (Kind.LAUNCH,)))
    assert (rows.tolist(), rows.dtype) == ([2, 5, 8, 11, 14], np.int32)
    assert rows_within(rows, slice(5, 9)).tolist() == [5, 8]


def test_nothing_is_chosen():
    assert rows_of(trace(), (Kind.STEP,)).tolist() == []
    assert collected(iter(())).tolist() == []
