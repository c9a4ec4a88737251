"""Steps of a job after a change, from how long each of its ranks works in each step."""

import numpy as np
import pytest
from click.testing import CliRunner

from stepwhy.analyse.ranks.rank_times import Rank
from stepwhy.cli import cli
from stepwhy.predict.rank_steps import price_steps
from stepwhy.result import Refusal, parse_edit
from tests.engine.test_explain import kineto
from tests.engine.test_ranks import write_ranks

MS = 1_000_000


def ranks_of(own_ms, exchange_ms=2, stages=None):
    """Ranks that wait for the slowest in every step, and exchange for some time after that.

    Args:
        own_ms: Time outside of communication; (ranks, steps).
        exchange_ms: Time of the exchange.
        stages: Pipeline stage of each rank.
    """
    own = np.asarray(own_ms, dtype=np.int64) * MS
    wall_ns = round(float(own.max(axis=0).mean())) + exchange_ms * MS
    found = []
    for number, own_ns in enumerate(own):
        work = round(float(own_ns.mean()))
        stage = -1 if stages is None else stages[number]
        breakdown = {"compute": work, "communication": wall_ns - work}
        found.append(Rank(number, stage, breakdown, own_ns))
    return found


CONSTANT = [[20] * 4, [20] * 4, [30] * 4, [20] * 4]
INTERMITTENT = [[20] * 4, [20, 40, 20, 20], [20] * 4, [20] * 4]
ROTATING = [[30, 20, 20, 20], [20, 30, 20, 20], [20, 20, 30, 20], [20, 20, 20, 30]]
TWO = [[20] * 4, [26] * 4, [20] * 4, [26] * 4]


@pytest.mark.parametrize(
    ("own_ms", "text", "gain_ms"),
    [
        (CONSTANT, "rank:2=even", 7.5),  # the mean of all is 22.5 ms
        (CONSTANT, "rank=even", 7.5),
        (CONSTANT, "communication=balanced", 7.5),
        (CONSTANT, "rank:1=even", 0),
        (CONSTANT, "variance=gone", 0),
        (INTERMITTENT, "rank:1=even", 15 / 4),
        (INTERMITTENT, "variance=gone", 0),
        (ROTATING, "rank:1=even", 7.5 / 4),  # in one of four steps
        (ROTATING, "rank=even", 7.5),
        (ROTATING, "variance=gone", 7.5),
        (TWO, "rank:1=even", 0),  # the other one remains
        (TWO, "rank=even", 3),
    ],
)
def test_a_step_ends_with_its_slowest_rank(own_ms, text, gain_ms):
    found = price_steps(ranks_of(own_ms), [parse_edit(text)])
    assert found.step_ns - found.remaining_ns == pytest.approx(gain_ms * MS, abs=1)
    assert found.low_ns <= found.remaining_ns <= found.high_ns <= found.step_ns
    assert found.method == "ranks"


def test_two_late_ranks_are_evened_together():
    edits = [parse_edit("rank:1=even"), parse_edit("rank:3=even")]
    found = price_steps(ranks_of(TWO), edits)
    assert found.step_ns - found.remaining_ns == pytest.approx(3 * MS, abs=1)


def test_no_more_is_gained_than_the_ranks_wait():
    breakdown = {"compute": 30 * MS, "communication": MS}
    own = [Rank(n, -1, breakdown, np.full(4, (20 + 10 * n) * MS)) for n in range(2)]
    found = price_steps(own, [parse_edit("rank=even")])
    assert found.step_ns - found.remaining_ns <= 1 * MS


@pytest.mark.parametrize(
    ("ranks", "text", "reason"),
    [
        (ranks_of(TWO), "rank:9=even", "No rank is recorded that rank:9=even would change."),
        (ranks_of(TWO), "link:0-1=even", "Exchanges in traces of ranks are not replayed"),
        (ranks_of(TWO), "group:dp=2x", "Exchanges in traces of ranks are not replayed"),
        (ranks_of(TWO), "ranks=2x", "How long exchanges take among more ranks"),
        (ranks_of(TWO), "stage:1=even", "What stages of a pipeline wait for"),
        (ranks_of(TWO), "input=free", "input=free does is predicted of one rank"),
        ([*ranks_of(TWO), None], "rank=even", "The steps of some ranks are not recorded."),
        (ranks_of(TWO)[:1], "rank=even", "The steps of some ranks are not recorded."),
        (ranks_of(TWO, stages=[0, 0, 1, 1]), "rank=even", "Stages of a pipeline wait"),
        (ranks_of([[20], [20]], 0), "rank=even", "No exchange between the ranks is recorded."),
        (ranks_of([[20], [30]]), "variance=gone", "did not record the same number of steps"),
    ],
)
def test_what_whole_steps_do_not_show_is_refused(ranks, text, reason):
    found = price_steps(ranks, [parse_edit(text)])
    assert isinstance(found, Refusal)
    assert reason in found.reason


def test_ranks_whose_steps_differ_do_not_wait_for_each_other():
    some, other = ranks_of([[20] * 4])[0], ranks_of([[40] * 4])[0]
    found = price_steps([some, other], [parse_edit("rank=even")])
    assert "do not wait for each other in every step" in found.reason


def test_ranks_with_other_numbers_of_steps_are_compared_by_their_means():
    first, second, late, _ = ranks_of(CONSTANT)
    shorter = Rank(3, -1, first.breakdown, first.own_ns[:2])
    found = price_steps([first, second, late, shorter], [parse_edit("rank:2=even")])
    assert found.step_ns - found.remaining_ns == pytest.approx(7.5 * MS, abs=1)


def test_the_command_takes_the_traces_of_all_ranks(tmp_path):
    write_ranks(tmp_path, (1.0, 1.02))
    done = CliRunner().invoke(cli, ["whatif", str(tmp_path), "input=free", "--json"])
    assert done.exit_code == 0
    assert "predicted of one rank, not of several together" in done.stdout


def test_the_command_refuses_several_runs(tmp_path):
    write_ranks(tmp_path, (1.0, 1.0))
    (tmp_path / "evaluation.json").write_text(kineto())
    done = CliRunner().invoke(cli, ["whatif", str(tmp_path), "rank=even"])
    assert "3 different runs" in done.stderr
