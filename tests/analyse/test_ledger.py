"""The ledger of collectives: waits, transfers and arrivals, on sets of ranks with a known truth."""

import numpy as np
import pytest
from msgspec.structs import replace
from tests.analyse.rank_sets import MOVES_NS, MS, make_set

from stepwhy.analyse.lateness.ledger import make_ledger
from stepwhy.analyse.ranks.collectives import Role
from stepwhy.trace import NULL

PAIR = Role("all-reduce", "0", "[0, 1]", "", 2)
RANKS, STEPS = 8, 6


def some_work(seed, ranks=RANKS, steps=STEPS):
    return np.random.default_rng(seed).integers(10 * MS, 30 * MS, (ranks, steps))


def changed(rank, **columns):
    """A rank with other columns of its collectives."""
    return replace(rank, collectives=replace(rank.collectives, **columns))


def without(rank, chosen):
    """A rank without some of its collectives."""
    mine = rank.collectives
    names = ("role", "step", "start_ns", "dur_ns", "bytes")
    return changed(rank, **{name: np.delete(getattr(mine, name), chosen) for name in names})


@pytest.mark.parametrize("seed", range(5))
def test_waits_and_transfers_are_those_of_the_truth(seed):
    work = some_work(seed)
    ledger = make_ledger(make_set(work))
    gathered = np.maximum(work[0::2], work[1::2]).repeat(2, axis=0)
    is_pair = np.array([role.size == 2 for role in ledger.roles])[ledger.role]
    assert ledger.per_step(ledger.wait_ns, is_pair).tolist() == (gathered - work).tolist()
    lead = gathered.max(axis=0) - gathered
    assert ledger.per_step(ledger.wait_ns, ~is_pair).tolist() == lead.tolist()
    assert set(ledger.transfer_ns[~is_pair].tolist()) == {MOVES_NS}
    assert ledger.complete.all()
    assert ledger.ranks == tuple(range(RANKS))
    assert ledger.steps.tolist() == list(range(10, 10 + STEPS))


@pytest.mark.parametrize("seed", range(5))
def test_wait_and_transfer_add_up_to_the_duration(seed):
    ledger = make_ledger(make_set(some_work(seed)))
    assert (ledger.wait_ns + ledger.transfer_ns).tolist() == ledger.dur_ns.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_clocks_that_differ_change_no_wait_and_are_aligned(seed):
    random, work = np.random.default_rng(seed), some_work(seed, steps=30)
    offset_ns = random.integers(-1_000 * MS, 1_000 * MS, RANKS)
    drift = random.uniform(-50e-6, 50e-6, RANKS)
    same, other = make_ledger(make_set(work)), make_ledger(make_set(work, None, offset_ns, drift))
    assert np.abs(same.wait_ns - other.wait_ns).max() <= 60e-6 * 33 * MS
    assert np.abs(same.arrival_ns - other.arrival_ns).max() < 1_000
    assert other.clocks.spread_ns < 1_000
    expected = (offset_ns - offset_ns[0]) / MS
    # The offset is that of the first common end, until which clocks have drifted apart.
    assert other.clocks.offset_ns / MS == pytest.approx(expected, abs=0.01)
    assert other.clocks.drift * 1e6 == pytest.approx((drift - drift[0]) * 1e6, abs=0.02)


def test_the_last_rank_arrives_when_its_wait_is_zero():
    ledger = make_ledger(make_set(some_work(3)))
    for collective in np.unique(ledger.collective):
        rows = np.flatnonzero(ledger.collective == collective)
        last = ledger.arrival_ns[rows].argmax()
        assert ledger.wait_ns[rows][last] == 0
        assert ledger.arrival_ns[rows].min() == 0


def test_a_missing_rank_makes_its_groups_incomplete_and_is_no_zero():
    """Rank 3 works longest: without it, only a part of the others' waits is seen."""
    work = np.full((4, STEPS), 10 * MS)
    work[3] = 20 * MS
    ledger = make_ledger(make_set(work, present=[0, 1, 2]))
    assert ledger.ranks == (0, 1, 2)
    sizes = np.array([role.size for role in ledger.roles])[ledger.role]
    assert not ledger.complete[sizes == 4].any()
    assert ledger.complete[(sizes == 2) & (ledger.rank < 2)].all()
    alone = (sizes == 2) & (ledger.rank == 2)
    assert (ledger.wait_ns[alone] == NULL).all()
    assert (ledger.transfer_ns[alone] == NULL).all()


def test_a_rank_whose_record_ends_early_limits_the_steps():
    ranks = make_set(some_work(1))
    short = ranks[2].collectives
    kept = np.flatnonzero(short.step < 13)
    columns = {n: getattr(short, n)[kept] for n in ("role", "step", "start_ns", "dur_ns", "bytes")}
    ranks[2] = changed(ranks[2], **columns, steps=short.steps[:3])
    assert make_ledger(ranks).steps.tolist() == [10, 11, 12]


def test_steps_are_matched_by_their_numbers():
    """One profiler starts two steps later than the others."""
    work = some_work(2)
    ranks = make_set(work)
    late = ranks[5].collectives
    kept = np.flatnonzero(late.step >= 12)
    columns = {n: getattr(late, n)[kept] for n in ("role", "step", "start_ns", "dur_ns", "bytes")}
    ranks[5] = changed(ranks[5], **columns, steps=late.steps[2:])
    whole, part = make_ledger(make_set(work)), make_ledger(ranks)
    expected = whole.per_step(whole.wait_ns, whole.split)[:, 2:]
    assert part.per_step(part.wait_ns, part.split).tolist() == expected.tolist()


def test_where_ranks_lack_a_collective_the_step_is_not_split():
    ranks = make_set(some_work(4))
    ranks[6] = without(ranks[6], [5])  # the all-reduce of step 12
    ledger = make_ledger(ranks)
    of_all = np.array([role.size == RANKS for role in ledger.roles])[ledger.role]
    assert (ledger.wait_ns[of_all & (ledger.step == 12)] == NULL).all()
    assert (ledger.wait_ns[of_all & (ledger.step != 12)] != NULL).all()


@pytest.mark.parametrize("operation", ["broadcast", "send and receive", "memory copy"])
def test_what_does_not_end_together_is_not_split(operation):
    ranks = [
        changed(one, roles=(one.collectives.roles[0], Role(operation, "0", "", "", RANKS)))
        for one in make_set(some_work(5))
    ]
    ledger = make_ledger(ranks)
    is_copy = np.array([role.operation == operation for role in ledger.roles])[ledger.role]
    assert (ledger.wait_ns[is_copy] == NULL).all()
    assert (ledger.wait_ns[~is_copy] != NULL).all()


def test_an_all_to_all_is_split_and_aligns_no_clocks():
    roles = (Role("all-to-all"), Role("all-to-all"))
    ranks = [changed(one, roles=roles) for one in make_set(some_work(6))]
    ledger = make_ledger(ranks, RANKS)
    assert ledger.split.all()
    assert ledger.clocks.spread_ns == NULL
    assert (ledger.arrival_ns == NULL).all()


def test_groups_that_are_not_recorded_are_not_taken_for_one():
    """The pairs look like one group of all ranks, but their ranks do not finish together."""
    roles = (Role("all-gather"), Role("all-reduce"))
    ranks = [changed(one, roles=roles) for one in make_set(some_work(7))]
    ledger = make_ledger(ranks, RANKS)
    is_pair = np.array([role.operation == "all-gather" for role in ledger.roles])[ledger.role]
    assert (ledger.wait_ns[is_pair] == NULL).all()
    assert (ledger.wait_ns[~is_pair] != NULL).all()


@pytest.mark.parametrize("ranks", [[], make_set(some_work(0))[:1]])
def test_without_two_ranks_there_is_no_ledger(ranks):
    assert make_ledger(ranks) is None


def test_ranks_without_common_steps_have_no_ledger():
    one, other = make_set(some_work(8, ranks=2))
    other = changed(other, steps=other.collectives.steps + 100, step=other.collectives.step + 100)
    assert make_ledger([one, other]) is None
    counted = changed(one, numbering="order")
    assert make_ledger([counted, other]) is None


def test_a_rank_that_was_traced_at_another_time_is_left_out():
    work = some_work(8, ranks=4)
    ranks = make_set(work)
    mine = ranks[1].collectives
    ranks[1] = changed(ranks[1], steps=mine.steps + 100, step=mine.step + 100)
    ledger = make_ledger(ranks, 4)
    assert ledger.ranks == (0, 2, 3)
    assert ledger.steps.tolist() == ranks[0].collectives.steps.tolist()
    assert not ledger.complete[ledger.role == 0].any()


def test_a_collective_behind_another_of_its_group_waits_from_the_end_of_that():
    """Rank 1 arrives 70 later; meanwhile rank 0 has called both collectives."""
    ranks = []
    for number, starts in enumerate(([0, 10], [70, 80])):
        whole = make_set(some_work(0, ranks=2, steps=1))[number]
        once = {"role": np.zeros(2, int), "step": np.zeros(2, int), "roles": (PAIR,)}
        times = {"start_ns": np.array(starts), "dur_ns": np.array([100, 120]) - starts}
        ranks.append(changed(whole, **once, **times, steps=np.zeros(1, int)))
    ledger = make_ledger(ranks, 2)
    assert ledger.wait_ns.tolist() == [70, 0, 0, 0]
    assert ledger.transfer_ns.tolist() == [30, 30, 20, 20]


def test_the_order_of_the_ranks_does_not_matter():
    ranks = make_set(some_work(9))
    forward, backward = make_ledger(ranks), make_ledger(ranks[::-1])
    assert forward.ranks == backward.ranks
    for one in (forward, backward):
        assert (
            one.per_step(one.wait_ns, one.split).tolist()
            == forward.per_step(forward.wait_ns, forward.split).tolist()
        )
