"""Ranks that are late in the collectives of a group, by lists of calls."""

import numpy as np
import pytest

from stepwhy.analyse.lateness.call_lateness import FEWEST_COLLECTIVES, Unclear, call_lateness
from stepwhy.analyse.ranks.calls import RankCalls, RunCalls
from stepwhy.result.hangs import Call, Group

MS = 10**6
COUNT = 40
REDUCE = Call("all_reduce", 3, "[[3]]", "Float", "train.py(7): step")
BARRIER = Call("barrier", 0, "[]", "", "train.py(1): main")
BROADCAST = Call("broadcast", 3, "[[3]]", "Float", "train.py(2): main")


def calls(rank, late_ms=(), *, took_ms=(), count=COUNT, kinds=(REDUCE,), done=1, group="0"):
    """The collectives of a rank, one every 100 ms; with how much later it enters each."""
    sequence = np.arange(1, count + 1)
    late = np.zeros(count, dtype=np.int64) + np.array(late_ms or 0)
    took = np.zeros(count, dtype=np.int64) + np.array(took_ms or 0)
    return RankCalls(
        rank,
        Group(group),
        "default_pg",
        3,
        False,
        sequence,
        np.full(count, done),
        (sequence * 100 + late) * MS,
        took * MS if len(took_ms) else np.full(count, -1),
        (sequence - 1) % len(kinds),
        kinds,
    )


def run(*ranks):
    return RunCalls(ranks)


def test_a_rank_that_is_always_late():
    found = call_lateness(run(calls(0), calls(1, (30,)), calls(2)))
    assert (found.basis, found.collectives, found.period_ns) == ("arrivals", COUNT, 100 * MS)
    assert found.late.ranks == (1,)
    assert (found.late.every, found.late.cost_ns) == (1, 30 * MS)
    assert found.call == REDUCE


def test_a_rank_that_is_late_in_every_tenth():
    late = [60 if n % 10 == 0 else 0 for n in range(COUNT)]
    found = call_lateness(run(calls(0, late), calls(1), calls(2)))
    assert (found.late.ranks, found.late.every, found.late.late_steps) == ((0,), 10, (4,))
    assert found.late.in_late_steps_ns == 60 * MS


def test_durations_need_no_clock():
    """The clocks differ by seconds; the rank with the shortest collectives was last."""
    ranks = [calls(n, (n * 5000,), took_ms=[5 if n == 2 else 40] * COUNT) for n in range(3)]
    found = call_lateness(run(*ranks))
    assert found.basis == "durations"
    assert (found.late.ranks, found.late.cost_ns) == ((2,), 35 * MS)


def test_ranks_that_take_turns_are_not_late():
    ranks = [calls(n, [30 if m % 3 == n else 0 for m in range(COUNT)]) for n in range(3)]
    assert call_lateness(run(*ranks)).late is None


@pytest.mark.parametrize(
    ("ranks", "why"),
    [
        ((), "ranks"),
        ((calls(0),), "ranks"),
        ((calls(0), calls(None)), "ranks"),
        ((calls(0), calls(1, count=FEWEST_COLLECTIVES - 1)), "few"),
        ((calls(0), calls(1, done=0)), "few"),
        ((calls(0, kinds=(BROADCAST,)), calls(1, kinds=(BROADCAST,))), "few"),
        ((calls(0), calls(1, (-150,))), "clocks"),
    ],
)
def test_why_ranks_cannot_be_compared(ranks, why):
    assert call_lateness(run(*ranks)) == Unclear(why)


def test_collectives_that_do_not_end_together_are_left_out():
    kinds = (BROADCAST, REDUCE, BARRIER, REDUCE)
    found = call_lateness(run(calls(0, kinds=kinds), calls(1, (30,), kinds=kinds)))
    assert found.collectives == COUNT * 3 // 4
    assert found.call == REDUCE


def test_the_group_that_costs_most():
    small = [calls(n, (15 * n,), group="1") for n in range(2)]
    large = [calls(n, (50 * n,), group="2") for n in range(2)]
    assert call_lateness(run(*small, *large)).late.cost_ns == 50 * MS
