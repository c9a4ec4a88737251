"""Collectives that hang, and calls that do not match."""

import numpy as np
import pytest

from stepwhy.analyse.lateness.hangs import find_hang, find_mismatch, hangs_by_mismatch, where
from stepwhy.analyse.ranks.calls import Position, RankCalls, RunCalls, calls_of
from stepwhy.result.hangs import At, Call, Group
from stepwhy.trace.notation import parse

REDUCE = Call("all_reduce", 3, "[[3]]", "Float", "train.py(7): step")
GATHER = Call("all_gather", 3, "[[3]]", "Float", "train.py(9): step")


def calls(rank, *made, group="0", first=1, members="", description="default_pg", p2p=False):
    """The calls of a rank: whether each has ended, with the call if that is no all-reduce."""
    pairs = [one if isinstance(one, tuple) else (one, REDUCE) for one in made]
    kinds = tuple(dict.fromkeys(call for _, call in pairs))
    sequence = np.arange(first, first + len(pairs))
    return RankCalls(
        rank,
        Group(group, members),
        description,
        2,
        p2p,
        sequence,
        np.array([done for done, _ in pairs]),
        sequence * 10**9 + int(group),
        np.full(len(pairs), -1),
        np.array([kinds.index(call) for _, call in pairs]),
        kinds,
    )


def run(*ranks, positions=()):
    return RunCalls(ranks, tuple(positions))


def test_the_first_collective_that_a_rank_has_not_entered():
    hang = find_hang(run(calls(0, 1, 1, 0, 0), calls(1, 1, 1), calls(2, 1, 1, 0)))
    assert (hang.sequence, hang.waiting, [at.rank for at in hang.missing]) == (3, (0, 2), [1])


def test_what_has_ended_is_no_hang():
    assert find_hang(run(calls(0, 1, 1), calls(1, 1, 1))) is None
    assert find_hang(run(calls(0, 1, 1), calls(1, 1))) is None
    assert find_hang(run()) is None


def test_a_rank_that_sends_does_not_wait_but_the_next_collective_does():
    hang = find_hang(run(calls(0, 1, 1, 0), calls(1, 1)))
    assert (hang.sequence, hang.waiting) == (3, (0,))


def test_the_record_may_begin_anywhere():
    hang = find_hang(run(calls(0, 1, 0, first=40), calls(1, 1, 1, 0, first=39)))
    assert (hang.sequence, hang.missing) == (41, ())


def test_of_several_groups_the_one_whose_missing_rank_does_not_wait_itself():
    waits_for_1 = [calls(0, 1, 0), calls(1, 1)]
    about = {"group": "1", "description": "tp"}
    waits_for_2 = [calls(1, 1, 0, **about), calls(2, 1, **about)]
    hang = find_hang(run(*waits_for_1, *waits_for_2))
    assert (hang.group.name, [at.rank for at in hang.missing]) == ("1", [2])


@pytest.mark.parametrize(
    ("members", "description", "unrecorded"),
    [("[0, 1, 3]", "tp", (1,)), ("", "default_pg", (1, 2)), ("", "tp", ())],
)
def test_ranks_without_a_record(members, description, unrecorded):
    about = {"members": members, "description": description}
    hang = find_hang(run(calls(0, 1, 0, **about), calls(3, 1, 0, **about)))
    assert hang.unrecorded == unrecorded


def test_where_it_is_unknown_what_has_ended_only_missing_ranks_show_a_hang():
    assert find_hang(run(calls(0, -1, -1), calls(1, -1, -1))) is None
    assert find_hang(run(calls(0, -1, -1), calls(1, -1))).sequence == 2


def test_a_rank_stands_where_it_noted_or_waits_or_was_last():
    noted = Position(1, "train.py(6): step", 40 * 10**9, 9, 10**8)
    assert where(1, run(calls(1, 1), positions=[noted])) == At(1, noted.line, is_now=True)
    assert where(1, run(calls(1, 1, 0))) == At(1, REDUCE.line, is_now=True, inside="all_reduce 2")
    assert where(1, run(calls(1, 1))) == At(1, REDUCE.line)
    assert where(1, run()) == At(1)


def test_the_first_call_that_differs():
    run_ = run(calls(0, 1, 1, 0), calls(1, 1, (1, GATHER), (0, GATHER)), calls(2, 1, 1, 0))
    found = find_mismatch(run_)
    assert (found.sequence, found.what) == (2, "operation")
    assert [v.ranks for v in found.variants] == [(1,), (0, 2)]


@pytest.mark.parametrize(
    ("operation", "done", "what"),
    [
        ("all_reduce", 1, "elements"),
        ("all_gather", 0, "elements"),
        ("all_gather", 1, None),
        ("all_to_all", 0, None),
        ("gather", 0, None),
        ("barrier", 0, None),
    ],
)
def test_sizes_matter_where_all_give_equally_much(operation, done, what):
    one, other = (Call(operation, count, f"[[{count}]]", "Float", "a.py(1)") for count in (3, 5))
    found = find_mismatch(run(calls(0, (done, one)), calls(1, (done, other))))
    assert (found and found.what) == what


def test_lines_shapes_of_one_size_and_unknown_sizes_do_not_matter():
    others = [REDUCE._replace(line="b.py(2)"), REDUCE._replace(shapes="[[1, 3]]")]
    others += [REDUCE._replace(elements=None), REDUCE._replace(types="")]
    for other in others:
        assert find_mismatch(run(calls(0, 1), calls(1, (1, other)))) is None


def test_calls_between_two_ranks_have_numbers_of_their_own():
    sent = Call("send 0->1", 3, "[[3]]", "Float", "a.py(1)")
    pair = [calls(0, (1, sent), p2p=True), calls(1, (1, REDUCE), p2p=True)]
    assert find_mismatch(run(*pair)) is None
    assert find_hang(run(*pair)) is None


def test_the_calls_of_a_trace():
    found = calls_of(
        parse("""
rank: 3
collective_calls: of_rank | group | sequence | operation | done | entered_ns
- | 0 | 2 | all_reduce | 0 | 2 s
- | 0 | 1 | broadcast | 1 | 1 s
7 | 0 | 1 | broadcast | - | 1 s

positions: time_ns | since_ns | steps | usual_ns | lines
50 s | 10 s | 4 | 1 s | a.py(1): main; b.py(2): f
""")
    )
    assert sorted((c.rank, c.sequence.tolist()) for c in found.calls) == [(3, [1, 2]), (7, [1])]
    assert found.calls[0].call(1).operation == "all_reduce"
    assert found.positions == (Position(3, "b.py(2): f", 40 * 10**9, 4, 10**9),)


def test_ranks_that_called_different_things_wait_because_of_that():
    gathers = calls(1, 1, (0, GATHER))
    assert hangs_by_mismatch(run(calls(0, 1, 0), gathers))
    assert not hangs_by_mismatch(run(calls(0, 1, 0), calls(1, 1)))
    assert not hangs_by_mismatch(run(calls(0, 1, 0), calls(1, 1, 0)))


def test_a_rank_whose_record_has_no_call_of_the_group_is_missing():
    noted = Position(1, "train.py(6): step", 40 * 10**9, 0, -1)
    waits = [calls(0, 0), calls(2, 0)]
    hang = find_hang(RunCalls(tuple(waits), (noted,), world_size=4))
    assert [at.rank for at in hang.missing] == [1]
    assert hang.unrecorded == (3,)
    elsewhere = calls(1, 1, group="7", description="tp")
    assert [at.rank for at in find_hang(run(*waits, elsewhere)).missing] == [1]


def stands(rank, inside="", steps=40, line="train.py(7): step"):
    return Position(rank, line, 31 * 10**9, steps, 10**9, inside)


JAX = "jax: block_until_ready"


def noted(*positions):
    """Which ranks wait and which are missing, without any collectives."""
    hang = find_hang(run(positions=positions))
    return hang and (hang.waiting, [at.rank for at in hang.missing])


def test_without_collectives_ranks_in_the_framework_wait_for_those_elsewhere():
    assert noted(stands(0, JAX), stands(1, line="train.py(9): save"), stands(2, JAX)) == (
        (0, 2),
        [1],
    )
    hang = find_hang(run(positions=[stands(0, JAX), stands(1, line="train.py(9): save")]))
    assert hang.missing == (At(1, "train.py(9): save", is_now=True),)
    assert (hang.sequence, hang.call.operation) == (None, "block_until_ready (jax)")
    assert (hang.call.line, hang.waited_ns) == ("train.py(7): step", 31 * 10**9)


@pytest.mark.parametrize(
    "inside", ["subprocess: Popen.wait", "tensorflow: OwnedIterator.__next__", "queue: Queue.get"]
)
def test_who_waits_for_something_else_does_not_wait_for_ranks(inside):
    assert noted(stands(0, JAX), stands(1, inside)) == ((0,), [1])


def test_where_all_stand_in_the_framework_those_behind_are_missing():
    assert noted(stands(0, JAX, 41), stands(1, JAX, 40)) == ((0,), [1])
    assert noted(stands(0, steps=41), stands(1, steps=40)) == ((0,), [1])


def test_who_is_missing_may_be_unknown():
    assert noted(stands(0, JAX), stands(1, JAX)) == ((0, 1), [])
    # It has gone on without the one that waits.
    assert noted(stands(0, JAX, 40), stands(1, steps=50)) == ((0,), [])


def test_without_a_rank_that_waits_nothing_is_said():
    assert noted(stands(0), stands(1)) is None
    assert noted(stands(0, JAX)) is None
    assert noted() is None


def test_collectives_say_more_than_positions():
    found = find_hang(run(calls(0, 1, 0), calls(1, 1), positions=[stands(0, JAX), stands(1)]))
    assert found.sequence == 2
