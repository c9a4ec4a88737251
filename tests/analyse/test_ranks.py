"""Which rank the others wait for, by durations alone."""

import numpy as np
import pytest
from msgspec.structs import replace

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lateness.rank_summary import summarise_rank
from stepwhy.analyse.ranks.rank_times import Rank, cores_explain, find_late
from stepwhy.result import CATEGORIES
from stepwhy.trace import NULL
from stepwhy.trace.notation import parse


def rank(number, compute, exchange, stage=NULL, own=(), **fields):
    breakdown = dict.fromkeys(CATEGORIES, 0) | {"compute": compute, "communication": exchange}
    return Rank(number, stage, breakdown, np.array(own or (compute,), dtype=np.int64), **fields)


def test_the_rank_that_waits_least_is_compared_with_the_median_of_the_others():
    late = find_late([rank(0, 50, 50), rank(1, 90, 10), rank(2, 60, 40), rank(3, 52, 48)])
    assert (late.rank.number, late.together, late.compared) == (1, (1,), 4)
    assert (late.work_ns, late.waits_ns) == (38, 38)
    assert late.excess_ns["compute"] == 38
    assert late.least_ns == 90 - 63  # the mean of all: the work may have to be spread


def test_ranks_that_are_nearly_as_late_are_named_together():
    late = find_late([rank(0, 50, 50), rank(1, 90, 10), rank(2, 85, 15), rank(3, 50, 50)])
    assert late.together == (1, 2)


def test_ranks_are_compared_within_their_stage():
    first = [rank(0, 50, 50, stage=0), rank(1, 52, 48, stage=0)]
    last = [rank(2, 90, 10, stage=1), rank(3, 80, 20, stage=1)]
    late = find_late(first + last)
    assert (late.rank.number, late.work_ns, late.compared) == (2, 10, 2)
    assert find_late([first[0], last[0]]) is None
    assert find_late([]) is None


@pytest.mark.parametrize(
    ("slow", "fast", "expected"),
    [
        ((90, 90, 90, 90), (50, 50, 50, 50), True),
        ((90, 10, 160, 100), (50, 60, 40, 50), False),  # varies more than it differs
        ((90,), (50,), True),
    ],
)
def test_steps_that_vary_more_than_ranks_differ_are_not_certain(slow, fast, expected):
    late = find_late([rank(0, 90, 10, own=slow), rank(1, 50, 50, own=fast)])
    assert late.is_certain is expected


@pytest.mark.parametrize(("cpu_ns", "expected"), [((40, 30), True), ((40, 39), False)])
def test_where_ranks_wait_for_cores_more_work_needs_more_cpu_time(cpu_ns, expected):
    slow = rank(0, 90, 10, contended=True, cpu_ns=cpu_ns[0])
    fast = rank(1, 50, 50, contended=True, cpu_ns=cpu_ns[1])
    assert find_late([slow, fast]).is_certain is expected


@pytest.mark.parametrize(
    ("driver_ns", "threads_ns", "core_wait_ns", "expected"),
    [
        ((2, 1), (9, 7), 2, True),  # late by a sleep of 30
        ((10, 1), (12, 3), 9, True),
        ((11, 1), (12, 3), 10, False),  # a third of what it is late
        ((2, 1), (40, 10), 30, False),  # threads that it waits for wait for a core
        ((40, 1), (41, 40), 30, False),
        ((1, 9), (3, 9), 0, True),
        ((None, None), (3, 3), None, False),
    ],
)
def test_a_rank_is_not_late_by_its_work_if_waits_for_cores_explain_a_third_of_it(
    driver_ns, threads_ns, core_wait_ns, expected
):
    slow, fast = rank(0, 10, 10, own=(40, 41)), rank(1, 10, 40, own=(10, 11))
    slow.breakdown["python"] += 30
    ranks = [
        replace(one, contended=True, core_wait_ns=driver, core_waits_ns=threads)
        for one, driver, threads in zip((slow, fast), driver_ns, threads_ns, strict=True)
    ]
    late = find_late(ranks)
    assert (late.rank.number, late.work_ns, late.core_wait_ns) == (0, 30, core_wait_ns)
    assert late.is_certain is expected
    assert late.by_cores is not expected
    assert cores_explain(ranks[0], ranks[1:], 30) is not expected
    assert not cores_explain(replace(ranks[0], contended=False), ranks[1:], 30)
    assert late.least_ns == 15 - min(core_wait_ns or 0, 15)


def test_without_others_to_compare_with_waits_for_cores_may_explain_all():
    assert cores_explain(rank(0, 10, 10, contended=True), [], 30)
    assert not cores_explain(rank(0, 10, 10), [], 30)


@pytest.mark.parametrize(("category", "expected"), [("compute", False), ("python", True)])
def test_on_a_cpu_more_computation_needs_more_cpu_time(category, expected):
    """What a rank waits for, as a disk in Python code, takes no CPU time."""
    slow, fast = rank(0, 50, 10, own=(90, 91)), rank(1, 50, 50, own=(50, 51))
    slow.breakdown[category] += 40
    ranks = [replace(one, cpu_ns=30, on_cpu=True) for one in (slow, fast)]
    assert find_late(ranks).is_certain is expected


def test_summary_of_a_rank():
    trace = parse(
        """
        unit: 1 ms
        rank: 3
        stage: 1
        main   step       |[--------][--------]|
        GPU:0  kernel     |kkkkkk    kkkkkkkk  |
        GPU:0/8 collective|      aaaa        aa|
        """
    )
    summary = summarise_rank(Facts(trace))
    assert (summary.number, summary.stage, summary.wall_ns) == (3, 1, 10_000_000)
    assert (summary.work_ns, summary.exchange_ns) == (7_000_000, 3_000_000)
    assert summary.own_ns.tolist() == [6_000_000, 8_000_000]
    assert (summary.line, summary.contended, summary.cpu_ns) == ("", False, None)


def test_waits_for_cores_are_those_of_the_steady_recorded_steps():
    trace = parse(
        """
        unit: 1 ms
        main   step       |[--------][--------][--------]|
        main   python     |pppppppp  pppppppp  pppppppp  |

        marks: start_ns | dur_ns | profiled | run_delay_ns
        0 ms  | 10 ms | 1 | 3 ms
        10 ms | 10 ms | 1 | -
        20 ms | 10 ms | 1 | 5 ms
        30 ms | 10 ms | 0 | 9 ms
        """
    )
    assert summarise_rank(Facts(trace)).core_wait_ns == 4_000_000


def test_a_record_that_shows_no_times_has_no_summary():
    assert summarise_rank(Facts(parse(""))) is None
