"""Which ranks of a running job are late, and which have stopped."""

import pytest

from stepwhy.show.metrics.ranks import Gpu, RankNow, RecentStep, judge, usual_step

MS = 1_000_000
S = 1000 * MS


def rank(number, wait_ms=1, cpu_ms=40, step_ms=100, steps=20, **values):
    """A rank whose last steps are alike."""
    recent = tuple([RecentStep(step_ms * MS, wait_ms * MS, cpu_ms and cpu_ms * MS)] * steps)
    return RankNow(number, recent, usual_step(recent), **{"last_step_ns": 10**18, **values})


def late(*ranks):
    return {one.now.rank: (one.late_ns // MS, one.cause) for one in judge(ranks) if one.cause}


def test_the_usual_step_has_the_medians():
    steps = [RecentStep(3, None, 1), RecentStep(9, 5, None), RecentStep(4, 7, None)]
    assert usual_step(steps) == RecentStep(4, 6, 1)
    assert usual_step(()) is None


def test_a_rank_that_waits_for_input_is_late():
    assert late(rank(0), rank(1, wait_ms=31), rank(2)) == {1: (30, "input")}


def test_a_rank_that_computes_longer_is_late():
    assert late(rank(0), rank(1), rank(2, cpu_ms=70)) == {2: (30, "cpu")}


def test_two_ranks_are_compared_with_each_other():
    assert late(rank(0, wait_ms=31), rank(1)) == {0: (30, "input")}


def test_ranks_that_all_wait_are_not_late():
    assert late(*(rank(n, wait_ms=60) for n in range(4))) == {}


def test_a_tenth_of_a_step_is_not_late():
    assert late(rank(0), rank(1, wait_ms=10)) == {}


def test_a_single_rank_and_unknown_times_are_not_late():
    assert late(rank(0, wait_ms=90)) == {}
    assert late(rank(0, cpu_ms=None), rank(1, cpu_ms=90)) == {}


def test_a_rank_that_was_late_in_few_steps_is_not_late():
    steps = (RecentStep(100 * MS, 31 * MS),) * 9 + (RecentStep(100 * MS, MS),) * 11
    assert late(rank(0), RankNow(1, steps, RecentStep(100 * MS, 31 * MS))) == {}


def test_few_steps_show_nothing():
    assert late(rank(0), rank(1, wait_ms=60, steps=3)) == {}


def test_a_host_that_runs_ahead_of_its_gpu_delays_nothing():
    gpus = (Gpu(0.97),)
    assert late(*(rank(n, cpu_ms=20 + 30 * n, gpus=gpus) for n in range(2))) == {}
    assert late(*(rank(n, cpu_ms=40 + 50 * n, gpus=gpus) for n in range(2))) == {1: (50, "cpu")}


def stopped(*ranks):
    judged = judge(ranks)
    return (
        [one.now.rank for one in judged if one.has_stopped],
        [one.now.rank for one in judged if one.is_suspect],
    )


def test_a_rank_without_a_step_for_long_has_stopped():
    assert stopped(rank(0), rank(1, silent_s=9)) == ([], [])
    assert stopped(rank(0), rank(1, silent_s=11)) == ([1], [])


def test_long_steps_take_longer_to_stop():
    assert stopped(rank(0, step_ms=5000, silent_s=49)) == ([], [])
    assert stopped(rank(0, step_ms=5000, silent_s=51)) == ([0], [])


def test_a_process_that_has_ended_has_not_stopped():
    assert stopped(rank(0, silent_s=99, is_ended=True)) == ([], [])


def test_of_ranks_that_stopped_the_first_is_suspect():
    ranks = [rank(n, silent_s=60, last_step_ns=10**18 - (n == 2) * 3 * S) for n in range(4)]
    assert stopped(*ranks) == ([0, 1, 2, 3], [2])


def test_logs_that_were_written_a_little_later_make_no_suspect():
    ranks = [rank(n, silent_s=60, last_step_ns=10**18 - (n == 2) * S // 2) for n in range(4)]
    assert stopped(*ranks) == ([0, 1, 2, 3], [])


@pytest.mark.parametrize(
    "unlike", [{"cores": 0.0, "gpus": (Gpu(1.0),)}, {"cores": 1.0, "gpus": (Gpu(0.0),)}]
)
def test_of_ranks_that_stopped_one_that_does_something_else_is_suspect(unlike):
    alike = {"cores": 1.0, "gpus": (Gpu(1.0),)}
    since = {"silent_s": 60, "sampled_ns": 10**18 + S}
    ranks = [rank(n, **since, **(unlike if n == 1 else alike)) for n in range(4)]
    assert stopped(*ranks)[1] == [1]


def test_samples_from_before_the_stop_tell_nothing():
    ranks = [rank(n, silent_s=60, sampled_ns=10**18 - S, cores=float(n == 1)) for n in range(4)]
    assert stopped(*ranks)[1] == []


def test_memory_and_load_are_summed_over_the_gpus_that_tell_them():
    one = rank(0, gpus=(Gpu(0.5, 3), Gpu(None, 4), Gpu(1.0, None)))
    assert (one.gpu_busy, one.gpu_bytes) == (0.75, 7)
    assert (rank(0).gpu_busy, rank(0).gpu_bytes) == (None, None)
