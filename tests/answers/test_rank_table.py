"""The rows of ranks and process groups, and what a late rank does."""

import numpy as np
import pytest
from msgspec.structs import replace
from tests.analyse.test_lateness import Compared
from tests.engine.rank_files import GATHER_US, REDUCE_US, write_set

from stepwhy.analyse.answers.rank_table import rank_uses
from stepwhy.analyse.ranks.calls import RunCalls
from stepwhy.engine import explain
from stepwhy.engine.explain import read_ranks

US = 1_000


@pytest.fixture
def intermittent(tmp_path):
    """Of four ranks, rank 2 works 2 ms longer in every second of 12 steps."""
    work = np.full((4, 12), 2000.0) + np.arange(4)[:, None]
    work[2, 1::2] += 2000
    write_set(tmp_path, work)
    return explain([str(tmp_path)])


def test_waits_and_transfers_of_each_rank_add_up_to_its_collectives(intermittent):
    for row in intermittent.ranks:
        assert row.wait_ns + row.transfer_ns + row.unsplit_ns == pytest.approx(
            row.step_ns - row.work_ns, abs=US
        )
        assert row.transfer_ns == pytest.approx((GATHER_US + REDUCE_US) * US, abs=US)
        assert row.unsplit_ns == 0


def test_the_late_rank_is_late_and_its_neighbour_is_not(intermittent):
    """Rank 3 arrives last in the all-reduce, but only because it waited for rank 2."""
    rows = {row.rank: row for row in intermittent.ranks}
    assert list(rows) == [0, 1, 2, 3]
    assert rows[2].late_ns == pytest.approx(1000 * US, rel=0.01)
    assert max(rows[n].late_ns for n in (0, 1, 3)) < 10 * US
    assert rows[2].wait_ns < 10 * US
    assert rows[0].wait_ns == pytest.approx(1000 * US, rel=0.01)


def test_what_takes_the_late_rank_longer_is_named(intermittent):
    rows = {row.rank: row for row in intermittent.ranks}
    assert (rows[2].longer, rows[2].operation, rows[2].late_steps) == ("compute", "gemm", 6)
    assert rows[2].longer_ns == pytest.approx(1000 * US, rel=0.01)
    assert {rows[n].longer for n in (0, 1, 3)} == {""}
    assert {rows[n].late_steps for n in (0, 1, 3)} == {None}


def test_times_of_collectives_have_the_scale_of_unprofiled_steps(tmp_path):
    """The profiler has doubled the length of the recorded steps."""
    write_set(tmp_path, np.full((4, 12), 2000.0))
    ranks = [one.rank for one in read_ranks([str(tmp_path)]).ranks]
    halved = {name: ns // 2 for name, ns in ranks[0].breakdown.items()}
    ranks[0] = replace(ranks[0], breakdown=halved)
    facts = Compared(ranks, 4)
    facts.calls = RunCalls()
    first, second = rank_uses(facts)[:2]
    assert first.transfer_ns == pytest.approx(second.transfer_ns / 2, abs=US)
    assert first.last == 24


def test_groups_have_their_ranks_bytes_and_bandwidth(intermittent):
    groups = {(g.operation, g.ranks): g for g in intermittent.groups}
    assert set(groups) == {
        ("all-gather", (0, 1)), ("all-gather", (2, 3)), ("all-reduce", (0, 1, 2, 3)),
    }  # fmt: skip
    pair, every = groups["all-gather", (2, 3)], groups["all-reduce", (0, 1, 2, 3)]
    assert (pair.description, pair.size, pair.count, pair.bytes) == ("tp", 2, 1.0, 5_000_000)
    assert pair.transfer_ns == pytest.approx(GATHER_US * US, abs=US)
    assert pair.bus_bandwidth == pytest.approx(0.5 * 5e6 / (GATHER_US * 1e-6), rel=0.01)
    assert every.bus_bandwidth == pytest.approx(1.5 * 50e6 / (REDUCE_US * 1e-6), rel=0.01)
    assert {g.split for g in intermittent.groups} == {"exact"}


def test_a_missing_rank_makes_waits_a_bound(tmp_path):
    paths = write_set(tmp_path, np.full((4, 4), 2000.0))
    paths[3].unlink()
    result = explain([str(tmp_path)])
    splits = {g.ranks: g.split for g in result.groups}
    assert splits == {(0, 1): "exact", (2,): "no", (0, 1, 2): "bound"}


def test_one_rank_has_no_table(tmp_path):
    paths = write_set(tmp_path, np.full((2, 4), 2000.0))
    result = explain([str(paths[0])])
    assert (result.ranks, result.groups) == ((), ())


def test_times_that_cannot_be_split_are_unknown_and_not_zero(tmp_path):
    """Only the all-reduce of all ranks has more than one rank of its group, and it is renamed."""
    paths = write_set(tmp_path, np.full((4, 4), 2000.0))
    for path in paths:
        text = path.read_text().replace("allreduce", "broadcast").replace("AllReduce", "Broadcast")
        path.write_text(text.replace("allgather", "gather").replace("AllGather", "Gather"))
    for row in explain([str(tmp_path)]).ranks:
        times = (row.wait_ns, row.transfer_ns, row.caused_wait_ns, row.last, row.late_ns)
        assert times == (None,) * 5
        assert row.unsplit_ns == pytest.approx((GATHER_US + REDUCE_US) * US, abs=US)
