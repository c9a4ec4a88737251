"""How long ranks work and wait, step by step."""

import numpy as np
import pytest

from stepwhy.analyse.answers.rank_steps import StepTimes, _summary, rank_steps
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lateness.rank_summary import summarise_rank
from stepwhy.trace.notation import parse

MS = 1_000_000


def drawing(rank, collective, name="ncclDevKernel_AllReduce_Sum"):
    return f"""
unit: 1 ms
framework: pytorch
rank: {rank}
world_size: 2
main   step       |[--------][--------][--------]|
main   op         |oooooooooooooooooooooooooooooo|  o=aten::mm
GPU:0  kernel     |kkkk      kkkk      kkkk      |  k=gemm
GPU:0  collective |{collective}|  n={name}
"""


def compared(*drawings):
    traces = list(map(parse, drawings))
    return rank_steps(Facts(traces[0], [summarise_rank(Facts(trace)) for trace in traces]))


def test_a_row_per_rank_with_what_it_works_and_waits():
    early, late = "    nnnnn     nnnnn     nnnnn ", "       nn        nn        nn "
    found = compared(drawing(0, early), drawing(1, late))
    assert [row.ranks for row in found.rows] == [(0,), (1,)]
    assert [row.wait_ns for row in found.rows] == [(3 * MS,) * 3, (0,) * 3]
    assert [row.work_ns for row in found.rows] == [(5 * MS,) * 3, (8 * MS,) * 3]
    assert (len(found.steps), found.per_column) == (3, 1)


def test_ranks_whose_waits_are_unknown_are_not_shown():
    sends = "    nnnnn     nnnnn     nnnnn "
    name = "ncclDevKernel_Broadcast"
    assert compared(drawing(0, sends, name), drawing(1, sends, name)) is None
    assert compared(drawing(0, sends)) is None


def summary(ranks, steps, **longer):
    """A summary of ranks that work 10 ns, and longer where it is given as (rank, step)."""
    work = np.full((ranks, steps), 10)
    for place in longer.get("at", ()):
        work[place] = 100
    return _summary(StepTimes(np.arange(ranks), np.arange(steps) + 5, work, 2 * work))


@pytest.mark.parametrize(("steps", "columns", "each"), [(80, 80, 1), (81, 41, 2), (1000, 77, 13)])
def test_many_steps_share_columns(steps, columns, each):
    found = summary(2, steps)
    assert (len(found.steps), found.per_column) == (columns, each)
    assert found.steps[1] - found.steps[0] == each
    assert {ns for row in found.rows for ns in row.work_ns} == {10}


def test_a_column_has_the_mean_of_its_steps():
    found = summary(1, 160, at=[(0, 3)])
    assert found.rows[0].work_ns[:3] == (10, 55, 10)
    assert found.rows[0].wait_ns[:3] == (20, 110, 20)


def test_of_many_ranks_those_that_are_late_once_have_a_row_of_their_own():
    found = summary(1000, 20, at=[(517, 3), (33, 19)])
    assert len(found.rows) == 64
    alone = [row for row in found.rows if len(row.ranks) == 1]
    assert len(alone) == 32
    assert {(33,), (517,)} <= {row.ranks for row in alone}
    assert sorted(rank for row in found.rows for rank in row.ranks) == list(range(1000))
    assert all(set(row.work_ns) == {10} for row in found.rows if len(row.ranks) > 1)
