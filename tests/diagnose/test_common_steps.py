"""Ranks that are compared although their records may cover different steps of the run."""

import numpy as np
import pytest
from msgspec.structs import replace

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.ranks.collectives import Collectives
from stepwhy.analyse.ranks.rank_times import Rank
from stepwhy.analyse.ranks.step_work import StepLog
from stepwhy.diagnose.ranks import start_skew, straggler
from stepwhy.result import CATEGORIES, Abstention
from stepwhy.trace import NULL
from stepwhy.trace.notation import parse

MS = 1_000_000
NONE = np.zeros(0, dtype=np.int64)


def logged(first, stop, *walls_ms):
    """The log of a run whose steps took so long, of which some are described."""
    wall_ns = np.array(walls_ms, dtype=np.int64) * MS
    return StepLog(wall_ns, np.full(len(wall_ns), NULL), first, stop)


def marked(numbering, *steps):
    """No collectives in some traced steps."""
    return Collectives((), NONE, NONE, NONE, NONE, NONE, np.array(steps), numbering)


def rank(number, wall_ms, exchange_ms, **fields):
    breakdown = dict.fromkeys(CATEGORIES, 0)
    breakdown |= {"compute": (wall_ms - exchange_ms) * MS, "communication": exchange_ms * MS}
    return Rank(number, NULL, breakdown, NONE, **fields)


def judged(*ranks, diagnosis=start_skew):
    trace = parse(
        f"""
        unit: 1 ms
        rank: 0
        world_size: {len(ranks)}
        main   step       |[---------]|
        GPU:0  kernel     |kkkkk      |  k=gemm
        """
    )
    return diagnosis.diagnose(Facts(trace, ranks))


def slow_then_fast(first, stop):
    return logged(first, stop, *[20] * 20, *[10] * 20)


def test_ranks_that_describe_different_stretches_do_not_start_late():
    """The steps of both became shorter; each describes another side of the change."""
    own = rank(0, 20, 12, log=slow_then_fast(2, 20))
    found = judged(own, rank(1, 10, 2, log=slow_then_fast(20, 40)))
    assert found.verdict == "incomplete"
    assert found.abstention == Abstention("incomplete-record", ("common-steps",))
    assert "steps 3 to 20 of rank 0" in found.reason


def test_equal_logs_of_the_same_steps_show_no_late_start():
    """The medians that the ranks describe differ, but both took equally long in these steps."""
    own = rank(0, 20, 12, log=slow_then_fast(0, 40))
    found = judged(own, rank(1, 10, 2, log=slow_then_fast(5, 40)))
    assert found.verdict == "clear"


def test_a_rank_whose_same_steps_are_shorter_starts_late():
    own = rank(0, 20, 12, log=logged(0, 10, *[20] * 10))
    found = judged(own, rank(1, 10, 2, log=logged(0, 10, *[14] * 10)))
    assert (found.verdict, found.cost_ns_per_step) == ("found", 6 * MS)


@pytest.mark.parametrize(
    ("numbering", "steps", "verdict"),
    [
        ("marker", (3, 4, 5), "found"),
        ("marker", (4, 5, 6), "found"),
        ("marker", (9, 10, 11), "incomplete"),
        ("order", (9, 10, 11), "found"),  # places in the record are no numbers of steps
    ],
)
def test_windows_without_a_log_must_cover_common_steps(numbering, steps, verdict):
    own = rank(0, 20, 12, collectives=marked(numbering, 3, 4, 5))
    late = rank(1, 10, 2, collectives=marked(numbering, *steps))
    assert judged(own, late).verdict == verdict


def test_others_that_describe_the_same_steps_are_compared_nevertheless():
    ranks = [rank(n, 20 - 10 * (n == 1), 12 - 10 * (n == 1)) for n in range(3)]
    logs = [logged(0, 10, *[20] * 10), logged(0, 10, *[10] * 10), logged(10, 20, *[20] * 20)]
    known = [rank(r.number, r.wall_ns // MS, r.exchange_ns // MS, log=log)
             for r, log in zip(ranks, logs, strict=True)]  # fmt: skip
    assert judged(*known).verdict == "found"
    assert judged(known[0], rank(1, 20, 12, log=logs[0]), known[2]).verdict == "incomplete"


def test_a_rank_that_describes_a_slower_stretch_is_no_straggler():
    """Rank 1 was busier before the change, and so was rank 0."""
    own, other = rank(0, 10, 6), rank(1, 20, 2)
    logs = slow_then_fast(20, 40), slow_then_fast(2, 20)
    known = [replace(one, log=log) for one, log in zip((own, other), logs, strict=True)]
    assert judged(own, other, diagnosis=straggler).verdict == "found"
    found = judged(*known, diagnosis=straggler)
    assert (found.verdict, found.abstention.missing) == ("incomplete", ("common-steps",))


@pytest.mark.parametrize("first", [0, 20, 39])
def test_a_straggler_is_one_in_any_stretch_whose_steps_take_as_long(first):
    own = rank(0, 10, 6, log=logged(0, 40, *[10] * 40))
    slow = rank(1, 10, 1, log=logged(first, 40, *[10] * 40))
    found = judged(own, slow, diagnosis=straggler)
    assert (found.verdict, found.cost_ns_per_step) == ("found", 5 * MS)


def test_the_others_are_compared_without_the_rank_of_another_stretch():
    own, slow = rank(0, 10, 6), rank(1, 10, 1)
    logs = [slow_then_fast(20, 40)] * 2 + [slow_then_fast(2, 20)]
    ranks = [replace(one, log=log) for one, log in zip((own, slow, rank(2, 20, 12)), logs,
             strict=True)]  # fmt: skip
    found = judged(*ranks, diagnosis=straggler)
    assert (found.verdict, found.cost_ns_per_step) == ("found", 5 * MS)
    alike = replace(ranks[1], breakdown=own.breakdown)
    assert judged(ranks[0], alike, ranks[2], diagnosis=straggler).verdict == "incomplete"
