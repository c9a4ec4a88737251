"""The collectives of one rank: their roles, steps and order."""

import pytest
from tests.analyse.timeline import MS, Timeline

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lateness.rank_collectives import find_collectives
from stepwhy.analyse.ranks.collectives import Role
from stepwhy.trace import NULL, Kind
from stepwhy.trace.notation import parse


def found_in(text):
    return find_collectives(Facts(parse(f"rank: 0\n{text}")))


def named(found):
    return [found.roles[role].operation for role in found.role.tolist()]


def test_groups_sizes_and_bytes_are_those_of_the_trace():
    found = found_in(
        """
        unit: 1 ms
        main   step       |[---][---]|
        GPU:0  kernel     |kkk  kkk  |
        GPU:0/8 collective|   gr   gr|  g=ncclDevKernel_AllGather {bytes: 4 KiB}  r=ncclX

        collectives: slice | operation | group | ranks | members | description
        g | _allgather_base | 7 | 2 | [0, 1] | tp
        """
    )
    assert found.roles == (
        Role("all-gather", "7", "[0, 1]", "tp", 2),
        Role("ncclX"),
    )
    assert found.role.tolist() == [0, 1, 0, 1]
    assert found.bytes.tolist() == [4096, NULL, 4096, NULL]
    assert found.start_ns.tolist() == [3 * MS, 4 * MS, 8 * MS, 9 * MS]
    assert found.dur_ns.tolist() == [MS] * 4
    assert found.step.tolist() == [0, 0, 1, 1]


def test_steps_have_the_numbers_of_their_markers():
    line = Timeline()
    for number, start in ((12, 0), (13, 10)):
        line.add(line.thread(), Kind.STEP, start, start + 10, name=f"ProfilerStep#{number}")
        line.add(line.stream(), Kind.COLLECTIVE, start + 5, start + 9, name="ncclKernel_AllReduce")
    found = find_collectives(Facts(line.trace(rank=0)))
    assert found.numbering == "marker"
    assert (found.step.tolist(), found.steps.tolist()) == ([12, 13], [12, 13])


@pytest.mark.parametrize("first", [0, 3])
def test_steps_have_the_numbers_of_the_log_where_there_is_one(first):
    """The profiler counts from the start of its window, which opens when the loop is warm."""
    line = Timeline()
    for number in range(6):
        line.builder.add("marks", start_ns=10 * number * MS, dur_ns=10 * MS)
    for number, start in ((1, 10 * first), (2, 10 * first + 10)):
        line.add(line.thread(), Kind.STEP, start, start + 10, name=f"ProfilerStep#{number}")
        line.add(line.stream(), Kind.COLLECTIVE, start + 5, start + 9, name="ncclKernel_AllReduce")
    found = find_collectives(Facts(line.trace(rank=0)))
    assert (found.numbering, found.steps.tolist()) == ("log", [first, first + 1])


@pytest.mark.parametrize("names", [("step", "step"), ("step 2", "step 2"), ("step 2", "step 1")])
def test_names_that_do_not_count_leave_the_steps_counted(names):
    line = Timeline()
    for name, start in zip(names, (0, 10), strict=True):
        line.add(line.thread(), Kind.STEP, start, start + 10, name=name)
        line.add(line.stream(), Kind.COLLECTIVE, start + 5, start + 9, name="ncclKernel_AllReduce")
    found = find_collectives(Facts(line.trace(rank=0)))
    assert found.numbering == "order"
    assert found.steps.tolist() == [0, 1]


def test_a_collective_belongs_to_the_step_that_launched_it():
    """The second one runs when the host is in the third step."""
    line = Timeline().steps(0, 10, 20, 30)
    for call, work in (((1, 2), (3, 8)), ((18, 19), (21, 24)), ((25, 26), (27, 29))):
        line.launch(call, work, work[0], kind=Kind.COLLECTIVE, name="ncclKernel_AllReduce")
    found = find_collectives(Facts(line.trace(rank=0)))
    assert (found.step - found.step[0]).tolist() == [0, 1, 2]


def test_the_range_around_the_launch_names_the_operation():
    """Kernels of an all-to-all are those of sending and receiving."""
    line = Timeline().steps(0, 10, 20)
    for start in (0, 10):
        main = line.thread()
        line.add(main, Kind.FRAMEWORK, start + 1, start + 4, name="nccl:all_to_all")
        call, work = (start + 2, start + 3), (start + 3, start + 8)
        line.launch(call, work, start + 1, kind=Kind.COLLECTIVE, name="ncclKernel_SendRecv")
    assert named(find_collectives(Facts(line.trace(rank=0)))) == ["all-to-all", "all-to-all"]


def test_without_collectives_there_are_none():
    found = found_in("main   step       |[---][---]|\nGPU:0  kernel     |kkk  kkk  |")
    assert (len(found.role), found.roles, len(found.steps)) == (0, (), 2)


def test_without_the_number_of_the_rank_nothing_can_be_compared():
    assert find_collectives(Facts(parse("main   step  |[---][---]|"))) is None


def test_too_many_groups_are_damage():
    line = Timeline(unit_ns=1000).steps(0, 10_000)
    for start in range(5000):
        line.add(line.stream(), Kind.COLLECTIVE, start, start + 1, name=f"custom {start}")
    assert find_collectives(Facts(line.trace(rank=0))) is None


def test_several_devices_of_a_rank_take_part_by_themselves():
    line = Timeline().steps(0, 10)
    for device in ("GPU:0", "GPU:1"):
        line.add(line.stream(device), Kind.COLLECTIVE, 2, 5, name="all-reduce.1")
    assert find_collectives(Facts(line.trace(rank=0))) is None


@pytest.mark.parametrize(
    ("calls", "size"),
    [
        ("0 | default_pg | 1 | all_reduce", 2),
        ("0 | default_pg | 1 | all_reduce\n        1 | tp | 1 | all_reduce", NULL),
        ("1 | tp | 1 | all_reduce", NULL),
    ],
    ids=["all", "two groups", "another"],
)
def test_without_another_group_collectives_are_of_all_ranks(calls, size):
    found = found_in(
        f"""
        unit: 1 ms
        world_size: 2
        main   step       |[---][---]|
        GPU:0  kernel     |kkk  kkk  |
        GPU:0/8 collective|   rr   rr|  r=gloo:all_reduce

        collective_calls: group | description | sequence | operation
        {calls}
        """
    )
    assert {role.size for role in found.roles} == {size}
