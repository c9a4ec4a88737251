"""Host calls joined with the device work that they caused."""

import pytest
from tests.analyse.timeline import Timeline

from stepwhy.analyse.activity.launches import join_launches
from stepwhy.trace import NULL, Copy, Kind


def test_calls_and_work_are_joined_by_correlation():
    line = Timeline()
    line.launch((0, 1), (5, 9), 11)
    line.launch((1, 2), (9, 12), 12)
    line.add(line.stream(), Kind.KERNEL, 20, 21, correlation=99)
    line.add(line.stream(), Kind.KERNEL, 21, 22)
    trace = line.trace()
    launches = join_launches(trace)
    assert launches.device_rows.tolist() == [2, 3, 4, 5]
    assert launches.call_row.tolist() == [0, 1, NULL, NULL]


def test_a_graph_launch_causes_many_kernels():
    line = Timeline()
    line.add(line.thread(), Kind.LAUNCH, 0, 1, correlation=5)
    for at in (2, 4, 6):
        line.add(line.stream(), Kind.KERNEL, at, at + 1, correlation=5)
    assert join_launches(line.trace()).call_row.tolist() == [0, 0, 0]


def test_without_calls_nothing_is_joined():
    line = Timeline()
    line.add(line.stream(), Kind.KERNEL, 0, 1, correlation=5)
    launches = join_launches(line.trace())
    assert launches.call_row.tolist() == [NULL]
    assert launches.blocking_calls.tolist() == []


def test_a_copy_call_that_outlasts_its_copy_blocks():
    line = Timeline()
    line.launch((0, 5), (1, 5), 1, kind=Kind.MEMCPY, copy=int(Copy.H2D))
    line.launch((10, 12), (11, 15), 2, kind=Kind.MEMCPY, copy=int(Copy.H2D))
    line.launch((20, 29), (21, 22), 3)
    trace = line.trace()
    blocking = join_launches(trace).blocking_calls
    assert trace.slices.correlation[blocking].tolist() == [1]


def test_a_graph_launch_whose_first_node_is_a_copy_does_not_block():
    line = Timeline()
    line.add(line.thread(), Kind.LAUNCH, 0, 5, correlation=1)
    line.add(line.stream(), Kind.MEMCPY, 1, 2, correlation=1)
    line.add(line.stream(), Kind.KERNEL, 2, 50, correlation=1)
    assert join_launches(line.trace()).blocking_calls.tolist() == []


def test_ids_that_a_process_uses_again_join_nothing():
    line = Timeline()
    for rank in (0, 100):
        for i in (1, 2, 3):
            line.launch((rank + i, rank + i + 1), (rank + i + 1, rank + i + 2), i)
    launches = join_launches(line.trace())
    assert launches.reused
    assert set(launches.call_row.tolist()) == {NULL}


def test_a_driver_call_inside_a_runtime_call_uses_no_id_again():
    line = Timeline()
    line.launch((0, 4), (5, 6), 1)
    line.add(line.thread(), Kind.LAUNCH, 1, 3, correlation=1)
    assert not join_launches(line.trace()).reused


@pytest.mark.parametrize("apart", [1, 10**9])
def test_calls_are_found_by_ids_that_are_far_apart(apart):
    line = Timeline()
    for at in range(6):
        kind = Kind.MEMCPY if at % 2 else Kind.KERNEL
        copy = {"copy": int(Copy.H2D)} if at % 2 else {}
        line.launch(
            (3 * at, 3 * at + 2), (3 * at + 1, 3 * at + 2), (6 - at) * apart, kind=kind, **copy
        )
    line.add(line.thread(), Kind.LAUNCH, 30, 31, correlation=2 * apart)
    line.add(line.thread("other", process=2), Kind.LAUNCH, 40, 41, correlation=3 * apart)
    trace = line.trace()
    whole = join_launches(trace)
    assert whole.call_row.tolist() == [0, 2, 4, NULL, NULL, 10]
    assert whole.blocking_calls.tolist() == [2, 10]
    assert whole.calls_of(whole.device_rows[::-1]).tolist() == whole.call_row[::-1].tolist()
    joined = list(zip(*(rows.tolist() for rows in whole.joined), strict=True))
    assert joined == [(1, 0), (3, 2), (5, 4), (11, 10)]
