"""Slices of some kinds on some tracks."""

import numpy as np
from tests.analyse.timeline import Timeline

from stepwhy.analyse.activity.selection import mask, of_role, rows_of
from stepwhy.trace import Kind, Role


def trace():
    line = Timeline()
    for at in range(5):
        line.add(line.thread(), Kind.OP, 3 * at, 3 * at + 1)
        line.add(line.stream(), Kind.KERNEL, 3 * at + 1, 3 * at + 2)
        line.add(line.thread(), Kind.LAUNCH, 3 * at + 2, 3 * at + 3)
    return line.trace()


def test_slices_of_kinds_on_tracks():
    kinds, one = (Kind.OP, Kind.KERNEL), trace()
    on_host = of_role(one, Role.HOST_THREAD)
    assert rows_of(one, kinds).tolist() == [0, 1, 3, 4, 6, 7, 9, 10, 12, 13]
    assert rows_of(one, kinds, on_host).tolist() == [0, 3, 6, 9, 12]
    assert np.flatnonzero(mask(one, kinds, on_host)).tolist() == [0, 3, 6, 9, 12]
    assert rows_of(one, (Kind.STEP,)).tolist() == []
