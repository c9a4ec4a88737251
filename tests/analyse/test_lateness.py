"""Who makes the others wait: constant, in some steps, in turns, two at once, and slow groups."""

import numpy as np
import pytest
from msgspec.structs import replace
from tests.analyse.rank_sets import MS, PAIR_NS, make_set

from stepwhy.analyse.lateness.late_ranks import lateness_of
from stepwhy.analyse.ranks.collectives import Role
from stepwhy.analyse.ranks.sign_test import even_chance, sign_test


class Compared:
    """What `lateness_of` needs of facts: the ranks, and a memory of what was computed."""

    def __init__(self, ranks, world_size):
        self.ranks = ranks
        self.trace = self
        self.meta = self
        self.world_size = world_size

    def derived(self, compute):
        return compute(self)


def judge(work, pair_ns=None, **clocks):
    (found,) = lateness_of(Compared(make_set(work, pair_ns, **clocks), len(work)))
    return found


def noisy(seed, ranks=16, steps=12, work_ns=20 * MS, share=0.003):
    """Equal work of all ranks, with some noise."""
    noise = np.random.default_rng(seed).normal(1, share, (ranks, steps))
    return np.round(work_ns * noise).astype(np.int64)


def clocks(seed, ranks=16):
    """Clocks that differ by up to a second and 50 ppm."""
    random = np.random.default_rng(seed + 1000)
    offset_ns = random.integers(-1_000 * MS, 1_000 * MS, ranks)
    return {"offset_ns": offset_ns, "drift": random.uniform(-50e-6, 50e-6, ranks)}


SIZES = pytest.mark.parametrize(("ranks", "seed"), [(16, 0), (16, 1), (16, 2), (256, 3)])


@SIZES
def test_a_rank_that_is_always_late(ranks, seed):
    work = noisy(seed, ranks)
    work[5] += 6 * MS
    for found in (judge(work), judge(work, **clocks(seed, ranks))):
        assert (found.late.ranks, found.late.late_steps, found.late.every) == ((5,), (12,), 1)
        assert found.late.cost_ns == pytest.approx(6 * MS, rel=0.05)
        assert (found.turns, found.slow) == (None, ())
        assert max(found.late.excess_ns, key=found.late.excess_ns.get) == "compute"


@SIZES
def test_two_ranks_that_are_late_at_once(ranks, seed):
    work = noisy(seed, ranks)
    work[4] += 6 * MS
    work[11] += 6 * MS
    found = judge(work)
    assert sorted(found.late.ranks) == [4, 11]
    assert found.late.cost_ns == pytest.approx(6 * MS, rel=0.05)


@SIZES
def test_a_rank_that_is_late_in_every_fourth_step(ranks, seed):
    """Its neighbour waits for it in their pair, and then is as late as it is: not to blame."""
    work = noisy(seed, ranks)
    work[9, 1::4] += 20 * MS
    for found in (judge(work), judge(work, **clocks(seed, ranks))):
        assert (found.late.ranks, found.late.late_steps, found.late.every) == ((9,), (3,), 4)
        assert found.late.cost_ns == pytest.approx(5 * MS, rel=0.05)
        assert found.late.in_late_steps_ns == pytest.approx(20 * MS, rel=0.05)
        assert (found.turns, found.slow) == (None, ())


@SIZES
def test_ranks_that_take_turns_are_not_blamed(ranks, seed):
    work = noisy(seed, ranks)
    late = np.random.default_rng(seed).permutation(ranks)[:12]
    work[late, np.arange(12)] += 10 * MS
    for found in (judge(work), judge(work, **clocks(seed, ranks))):
        assert found.late is None
        assert found.slow == ()
        assert found.turns.long_steps == 12
        assert found.turns.cost_ns == pytest.approx(10 * MS, rel=0.05)
        assert set(found.turns.late_steps) == {1}


@SIZES
def test_a_slow_link_of_a_pair(ranks, seed):
    """Both ranks of the pair are late in what comes next, but not to blame for it."""
    work = noisy(seed, ranks)
    pair_ns = np.full_like(work, PAIR_NS)
    pair_ns[6:8] += 7 * MS
    for found in (judge(work, pair_ns), judge(work, pair_ns, **clocks(seed, ranks))):
        (slow,) = found.slow
        assert slow.ranks == (6, 7)
        assert slow.cost_ns == pytest.approx(7 * MS, rel=0.01)
        assert (slow.slow_steps, slow.steps, slow.groups) == (12, 12, ranks // 2)
        assert (found.late, found.turns) == (None, None)
        assert slow.usual_bandwidth == pytest.approx(0.5 * 50e6 / 1e-3, rel=0.01)
        assert slow.bus_bandwidth == pytest.approx(0.5 * 50e6 / 8e-3, rel=0.01)


def test_a_late_rank_beside_a_slow_link():
    work = noisy(7)
    pair_ns = np.full_like(work, PAIR_NS)
    pair_ns[6:8] += 7 * MS
    work[2, ::3] += 30 * MS
    found = judge(work, pair_ns)
    assert found.late.ranks == (2,)
    assert found.late.every == 3
    assert [group.ranks for group in found.slow] == [(6, 7)]


def healthy(kind, seed):
    """Sets of ranks in which nobody is to blame."""
    work, random = noisy(seed), np.random.default_rng(seed + 50)
    if kind == "varying together":
        return work + random.integers(0, 20 * MS, 12)
    if kind == "a little slower":
        work[3] += MS // 2
    if kind == "one long step":
        work[8, 6] += 30 * MS
    if kind == "two long steps":
        work[8, 3] += 30 * MS
        work[2, 9] += 30 * MS
    if kind == "early ranks":
        work[:5] -= 8 * MS
    return work


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "kind",
    ["equal", "varying together", "a little slower", "one long step", "two long steps"],
)
def test_nobody_is_blamed_without_need(kind, seed):
    found = judge(healthy(kind, seed))
    assert (found.late, found.turns, found.slow) == (None, None, ())


def test_if_some_are_early_the_others_are_not_late():
    found = judge(healthy("early ranks", 0))
    assert found.late is None
    assert found.mean_wait_ns > MS


@pytest.mark.parametrize("seed", range(3))
def test_groups_with_different_bytes_are_not_compared(seed):
    work = noisy(seed)
    pair_ns = np.full_like(work, PAIR_NS)
    pair_ns[6:8] += 7 * MS
    ranks = make_set(work, pair_ns)
    for rank in ranks[6:8]:
        rank.collectives.bytes[0::2] *= 8
    (found,) = lateness_of(Compared(ranks, 16))
    assert found.slow == ()


def test_random_turns_of_two_ranks_are_rarely_called_persistent():
    """By the definition of the test, in at most 1 % of such runs."""
    blamed = 0
    for seed in range(300):
        work = noisy(seed, ranks=2, steps=10)
        late = np.random.default_rng(seed).integers(0, 2, 10)
        work[late, np.arange(10)] += 10 * MS
        blamed += judge(work).late is not None
    assert blamed <= 6


def test_the_sign_test_is_binomial():
    """Rank 0 is late in all of 4 steps, one of 5 in each."""
    is_late = np.zeros((5, 4), dtype=bool)
    is_late[0] = True
    assert sign_test(is_late).tolist() == pytest.approx([1 / 5**4, 1, 1, 1, 1])


def test_steps_with_several_late_ranks_count_less():
    is_late = np.zeros((4, 2), dtype=bool)
    is_late[:2] = True
    assert sign_test(is_late).tolist() == pytest.approx([1 / 4, 1 / 4, 1, 1])


@pytest.mark.parametrize(
    ("late", "steps", "chance"),
    [
        ([1, 5, 9], 12, 30 / 220),
        ([9, 19, 29, 39], 40, 247 / 91_390),
        ([1, 5, 8], 12, 1),
        ([1, 5], 12, 1),
        (range(12), 12, 1),
        ([], 12, 1),
    ],
)
def test_steps_at_equal_distances_are_unlikely(late, steps, chance):
    is_late = np.zeros(steps, dtype=bool)
    is_late[list(late)] = True
    assert even_chance(is_late) == pytest.approx(chance)


def test_one_of_two_ranks_that_is_late_in_every_tenth_step():
    """Four steps of two ranks would not be certain, but they are equally far apart."""
    work = noisy(5, ranks=2, steps=40)
    work[0, 9::10] += 100 * MS
    late = judge(work).late
    assert (late.ranks, late.late_steps, late.every) == ((0,), (4,), 10)
    work = noisy(5, ranks=2, steps=40)
    work[0, [3, 9, 20, 31]] += 100 * MS
    assert judge(work).late is None


def test_a_rank_that_is_late_in_the_longest_steps_only():
    """In other steps, either of two ranks is late by a fifth of the step."""
    work = noisy(5, ranks=2, steps=60)
    work[np.arange(60) % 7 % 2, np.arange(60)] += 4 * MS
    assert judge(work).late is None
    work[0, 9::10] += 100 * MS
    late = judge(work).late
    assert (late.ranks, late.late_steps, late.every) == ((0,), (6,), 10)


def test_ranks_that_take_turns_in_a_fixed_order_are_not_blamed():
    for ranks, steps in ((2, 20), (4, 40), (16, 160)):
        work = noisy(1, ranks, steps)
        work[np.arange(steps) % ranks, np.arange(steps)] += 10 * MS
        found = judge(work)
        assert found.late is None
        assert found.turns.long_steps == steps


def _without_pairs(rank):
    mine = rank.collectives
    return replace(rank, collectives=replace(mine, roles=(Role("copy"), mine.roles[1])))


def test_a_rank_that_communicates_longer_where_it_cannot_be_seen_is_not_blamed():
    """The groups of the pairs are not recorded: rank 4 waits there for rank 5, and is late."""
    work = noisy(6)
    work[5] += 6 * MS
    unknown = [_without_pairs(one) for one in make_set(work)]
    (found,) = lateness_of(Compared(unknown, 16))
    assert found.late.ranks == (5,)


def test_without_late_steps_nothing_is_unlikely():
    assert sign_test(np.zeros((3, 0), dtype=bool)).tolist() == [1, 1, 1]


@pytest.mark.parametrize(("missing", "blamed"), [(3, {9}), (9, set())])
def test_a_missing_rank_is_not_counted_as_one_without_waits(missing, blamed):
    """Where the late rank itself is missing, its neighbour waited for it, and is not blamed."""
    work = noisy(1)
    work[9, 1::4] += 20 * MS
    present = [rank for rank in range(16) if rank != missing]
    found = lateness_of(Compared(make_set(work, present=present), 16))
    assert not any(one.peers.complete for one in found if len(one.peers.numbers) > 2)
    assert missing not in [number for one in found for number in one.peers.numbers]
    assert {number for one in found if one.late for number in one.late.ranks} == blamed
    assert found[0].mean_wait_ns > 4 * MS
