"""Memory of a step, counted by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwhy.analyse.answers import memory
from stepwhy.analyse.answers.memory import batch_room, memory_uses
from stepwhy.analyse.facts import Facts
from stepwhy.result import BatchRoom, MemoryHolder
from stepwhy.trace.notation import parse

MS = 1_000_000
MIB = 1 << 20
STEPS = """
unit: 1 ms
main   step    |[--------][--------]|
main   op      |.[fff]               |
main   op      |..i                  |
main   op      |............[bbbb]   |
GPU:0  kernel  |kkkkkkkkkkkkkkkkkkkk |
"""
# The second step goes higher. 1 MiB is held all along, another from step to step.
ALLOCATIONS = """
allocations: time_ns | pool | host | change | block | track | total
2 ms  | GPU:0 | 0 |  4 MiB | 1 | main | 6 MiB
3 ms  | GPU:0 | 0 |  2 MiB | 2 | main | 8 MiB
8 ms  | GPU:0 | 0 | -4 MiB | 1 | main | 4 MiB
13 ms | GPU:0 | 0 |  8 MiB | 1 | main | 12 MiB
14 ms | GPU:0 | 0 |  1 MiB | 3 | main | 13 MiB
15 ms | GPU:0 | 0 | -8 MiB | 1 | main | 5 MiB
"""


def uses(*tables, steps=STEPS):
    return memory_uses(Facts(parse("\n".join((steps, *tables)))))


def test_the_step_that_needs_most_its_peak_and_what_holds_it():
    (use,) = uses(ALLOCATIONS)
    assert (use.name, use.kind, use.over, use.span_ns) == ("GPU:0", "device", "step", 10 * MS)
    assert (use.base_bytes, use.peak_bytes, use.peak_ns) == (4 * MIB, 13 * MIB, 4 * MS)
    assert use.peak_name == "bbbb"
    assert use.holders == (MemoryHolder("bbbb", "unknown", 2, 9 * MIB),)
    assert use.series == (
        (0, 4 * MIB), (3 * MS, 12 * MIB), (4 * MS, 13 * MIB), (5 * MS, 5 * MIB),
    )  # fmt: skip


def test_an_operation_is_the_one_that_the_program_called():
    first = "\n".join(ALLOCATIONS.splitlines()[:4])
    (use,) = uses(first)
    assert [h.name for h in use.holders] == ["fff"]


def test_without_totals_levels_count_from_the_beginning_of_the_step():
    (use,) = uses(
        """
allocations: time_ns | pool | host | change | block | owner
2 ms  | mklcpu | 1 |  4 MiB | 1 | conv/Conv2D
12 ms | mklcpu | 1 |  6 MiB | 2 | conv/Conv2D
13 ms | mklcpu | 1 | -6 MiB | 2 | conv/Conv2D
"""
    )
    assert (use.kind, use.base_bytes, use.peak_bytes) == ("host", None, 6 * MIB)
    assert use.holders == (MemoryHolder("conv/Conv2D", "unknown", 1, 6 * MIB),)
    assert (use.growth_bytes, use.room) == (None, None)


def test_an_allocator_that_counts_less_than_it_hands_out_tells_no_base():
    (use,) = uses(
        """
allocations: time_ns | pool | host | change | total
2 ms  | mklcpu | 1 |  4 MiB | 3 MiB
"""
    )
    assert (use.base_bytes, use.peak_bytes) == (None, 4 * MIB)


def test_what_was_freed_or_has_no_number_holds_nothing():
    (use,) = uses(
        """
allocations: time_ns | pool | host | change | block | owner
1 ms  | GPU:0 | 0 |  4 MiB | 1 | a
2 ms  | GPU:0 | 0 | -4 MiB | 1 | a
3 ms  | GPU:0 | 0 |  5 MiB | - | b
"""
    )
    assert (use.peak_bytes, use.holders) == (5 * MIB, ())


def test_growth_from_step_to_step():
    steps = (
        "unit: 1 ms\nmain step |[--------][--------][--------]|\nGPU:0 kernel |" + "k" * 30 + "|"
    )
    table = ["allocations: time_ns | pool | host | change | total"]
    table += [f"{10 * i + 5} ms | GPU:0 | 0 | 3 MiB | {3 * i + 3} MiB" for i in range(3)]
    (use,) = uses("\n".join(table), steps=steps)
    assert use.growth_bytes == 3 * MIB


def test_an_allocator_is_looked_at_only_in_the_steps_that_use_it(monkeypatch):
    """Allocators times steps are more than any file has of both."""
    steps = "unit: 1 ms\nmain step |" + "[]" * 90 + "|\nGPU:0 kernel |" + "k" * 180 + "|"
    table = ["allocations: time_ns | pool | host | change | total"]
    table += [f"{2 * i} ms | pool {i} | 0 | 3 MiB | 3 MiB" for i in range(90)]
    looked_at = []
    span = memory._Pool._span
    monkeypatch.setattr(memory._Pool, "_span", lambda *a: looked_at.append(a[1:]) or span(*a))
    assert len(uses("\n".join(table), steps=steps)) == 8
    assert [(start, end, list(rows)) for start, end, rows in looked_at] == [
        (2 * MS * i, 2 * MS * (i + 1), [i]) for i in range(90)
    ]


def test_many_changes_keep_their_peak():
    table = ["allocations: time_ns | pool | host | change | total"]
    table += [f"{10_000 * i} ns | GPU:0 | 0 | {1 if i % 2 else -1} MiB | 9 MiB" for i in range(999)]
    table[500] = "4990000 ns | GPU:0 | 0 | 90 MiB | 99 MiB"
    (use,) = uses("\n".join(table))
    assert len(use.series) <= 202
    assert max(level for _, level in use.series) == use.peak_bytes


def test_a_room_needs_the_size_of_the_device():
    capacity = "\ncounters: time_ns | name | value\n0 ms | memory capacity | 104 MiB\n"
    (use,) = uses(ALLOCATIONS, capacity)
    assert use.capacity_bytes == 104 * MIB
    # Nothing is marked as backward: (0.9 * 104 - 4) / 9.
    assert use.room == BatchRoom(10.0, 10.0, 4 * MIB, 9 * MIB, round(0.9 * 104 * MIB))
    assert uses(ALLOCATIONS)[0].room is None


@pytest.mark.parametrize(
    ("fixed", "growing", "expected"),
    [
        (100, 200, (4.0, 7.0)),  # (900 - 100) / 200; (900 - 200) / 100
        (300, 200, (3.0, None)),  # as large as the gradients may be
        (0, 0, None),
        (500, 400, None),  # full
    ],
)
def test_gradients_do_not_grow_with_the_batch(fixed, growing, expected):
    room = batch_room(fixed, growing, 1000, trains=True)
    assert (room and (room.low, room.high)) == expected


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(1, 10**7), st.booleans())
def test_a_room_is_an_interval_above_one(fixed, growing, capacity, trains):
    room = batch_room(fixed, growing, capacity, trains=trains)
    if room is not None:
        assert room.low >= 1.0
        assert room.high is None or room.high >= room.low


def test_nothing_recorded_is_nothing_said():
    assert uses() == ()


def test_memory_that_was_sampled_from_outside():
    gpu = """
counters: time_ns | name | device | value
1 ms | gpu process_bytes | nvml:0 | 3 MiB
9 ms | gpu process_bytes | nvml:0 | 7 MiB
1 ms | gpu total_bytes | nvml:0 | 80 MiB
1 ms | resident_bytes | - | 20 MiB
5 ms | resident_bytes | - | 30 MiB
9 ms | resident_bytes | - | 25 MiB
9 ms | swap_bytes | - | 2 MiB
9 ms | machine_memory_bytes | - | 64 MiB
"""
    device, process = uses(gpu)
    assert (device.name, device.over, device.peak_bytes) == ("nvml:0", "run", 7 * MIB)
    assert device.capacity_bytes == 80 * MIB
    assert (process.kind, process.peak_bytes, process.peak_ns) == ("host", 30 * MIB, 4 * MS)
    assert (process.capacity_bytes, process.swapped_bytes) == (64 * MIB, 2 * MIB)
    assert process.series == ((0, 20 * MIB), (4 * MS, 30 * MIB), (8 * MS, 25 * MIB))
