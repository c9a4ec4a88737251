"""Timelines of several ranks: one clock for all, and who waits when."""

import numpy as np
import pytest
from msgspec.structs import replace
from tests.analyse.rank_sets import MS, make_set
from tests.export.timelines import unpacked

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lateness.rank_summary import summarise_rank
from stepwhy.base.columns.intervals import Intervals
from stepwhy.result.timeline import DRAWN_CATEGORIES
from stepwhy.show.timeline import alignment_of, part_of, timeline_of
from stepwhy.show.timeline.alignment import RankClock, with_waits
from stepwhy.show.timeline.slices import drawn
from stepwhy.trace.notation import parse

RANKS, STEPS = 4, 8
COMPUTE, COMMUNICATION, WAIT = map(DRAWN_CATEGORIES.index, ("compute", "communication", "wait"))


def ranks(offset_ns=None, drift=None):
    work = np.random.default_rng(5).integers(10 * MS, 30 * MS, (RANKS, STEPS))
    return make_set(work, None, offset_ns, drift)


# --- Clocks ---


def lasting(waits):
    """Starts of the waits that are no rounding error of drifting clocks."""
    return waits.starts[waits.ends - waits.starts > MS // 10]


def test_clocks_that_differ_are_aligned_with_their_drift():
    offset_ns = np.array([5, 700, -300, 0]) * MS
    drift = np.array([0, 40e-6, -20e-6, 0])
    found = alignment_of(ranks(offset_ns, drift))
    true = alignment_of(ranks())
    shown = [c.aligned(lasting(w)) for c, w in zip(found.clocks, found.waits, strict=True)]
    expected = np.concatenate(list(map(lasting, true.waits))) + offset_ns[0]
    assert np.abs(np.concatenate(shown) - expected).max() < 1_000
    assert found.match.differs
    assert found.match.offset_ns == pytest.approx(695 * MS, abs=0.1 * MS)
    assert found.match.drift == pytest.approx(40e-6, abs=1e-6)
    assert found.match.spread_ns < 1_000


def test_clocks_that_agree_stay_as_they_are():
    found = alignment_of(ranks())
    assert set(found.clocks) == {RankClock()}
    assert not found.match.differs


def test_one_rank_that_cannot_be_compared_leaves_all_clocks_alone():
    found = alignment_of([*ranks(), None])
    assert (found.clocks, found.match) == (None, None)
    assert [len(waits) > 0 for waits in found.waits][-1] is False


def test_ends_that_differ_much_align_nothing():
    """Of a step of some 40 ms, common ends differ by up to 20 ms."""
    random = np.random.default_rng(2)
    loose = []
    for rank in ranks():
        dur_ns = rank.collectives.dur_ns + random.integers(0, 20 * MS, len(rank.collectives.dur_ns))
        loose.append(replace(rank, collectives=replace(rank.collectives, dur_ns=dur_ns)))
    assert alignment_of(loose).clocks is None


def test_without_common_collectives_nothing_is_known():
    assert alignment_of([None, None]) is None
    assert alignment_of([ranks()[0], None]) is None


def test_the_order_of_times_stays():
    times = np.sort(np.random.default_rng(1).integers(0, 10**12, 1000))
    assert (np.diff(RankClock(77, 5e-4, 10**11).aligned(times)) >= 0).all()


# --- Waits ---


def test_communication_is_divided_and_nothing_is_lost():
    starts, ends = np.array([0, 10, 20, 5]), np.array([10, 18, 30, 7])
    category = np.array([COMPUTE, COMMUNICATION, COMMUNICATION, COMMUNICATION])
    slices = drawn(np.array([1, 1, 1, 2]), starts, ends, category)
    waits = Intervals.of(np.array([4, 25]), np.array([15, 40]))
    found = with_waits(slices, 1, waits)
    rows = list(zip(found.strip, found.start_ns, found.end_ns, found.category, strict=True))
    assert rows == [
        (1, 0, 10, COMPUTE), (1, 10, 15, WAIT), (1, 15, 18, COMMUNICATION),
        (1, 20, 25, COMMUNICATION), (1, 25, 30, WAIT), (2, 5, 7, COMMUNICATION),
    ]  # fmt: skip


def test_launches_still_point_to_their_slices():
    category = np.array([COMMUNICATION, COMPUTE, COMPUTE])
    launch = np.array([-1, -1, 1])
    times = np.array([0, 0, 20])
    slices = drawn(np.array([1, 2, 3]), times, times + 20, category, launch=launch)
    found = with_waits(slices, 1, Intervals.single(5, 10))
    assert found.start_ns[found.launch[-1]] == 0
    assert found.strip[found.launch[-1]] == 2


def drawing(rank, collective, start=0):
    pad = " " * start
    return f"""
unit: 1 ms
framework: pytorch
rank: {rank}
world_size: 2
main   step       |{pad}[--------][--------][--------]|
main   op         |{pad}oooooooooooooooooooooooooooooo|  o=aten::mm
GPU:0  kernel     |{pad}kkkk      kkkk      kkkk      |  k=gemm
GPU:0  collective |{pad}{collective}|  n=ncclDevKernel_AllReduce_Sum
"""


def test_the_late_rank_works_while_the_others_wait():
    """The clock of the late rank is 7 ms ahead."""
    early, late = "    nnnnn     nnnnn     nnnnn ", "       nn        nn        nn "
    facts = [Facts(parse(drawing(0, early))), Facts(parse(drawing(1, late, 7)))]
    alignment = alignment_of([summarise_rank(one) for one in facts])
    found = timeline_of([(f"Rank {n}", part_of(one)) for n, one in enumerate(facts)], alignment)
    assert (found.match.offset_ns, found.match.spread_ns) == (7 * MS, 0)
    assert found.has_waits
    assert not found.aligned
    times = {
        rank: [s for s in unpacked(found) if s.row == f"Rank {rank}/Where the time goes"]
        for rank in range(2)
    }
    waits = [(s.start, s.end) for s in times[0] if s.category == WAIT]
    assert waits == [(4 * MS, 7 * MS), (14 * MS, 17 * MS), (24 * MS, 27 * MS)]
    assert not any(s.category == WAIT for s in times[1])
    ends = [{s.end for s in times[r] if s.category == COMMUNICATION} for r in range(2)]
    assert ends[0] == ends[1] == {9 * MS, 19 * MS, 29 * MS}
