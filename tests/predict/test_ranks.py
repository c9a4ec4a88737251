"""Steps of a job of several ranks after a change, from the operations of all of them."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from stepwhy.analyse.facts import Facts
from stepwhy.cli import cli
from stepwhy.predict import price
from stepwhy.predict.operations import UnknownScheduleError, schedule_of
from stepwhy.predict.ranks import price_ranks
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.inputs.source import Source
from stepwhy.read.registry import read_trace
from stepwhy.result import Refusal, parse_edit
from stepwhy.trace.notation import parse
from stepwhy.trace.ranks import split_ranks
from tests.predict.test_replay import WAITING
from tests.read.operation_table_samples import rows, table

pytest.importorskip("pyarrow")

S = 1_000_000_000
# The second of two stages computes longer; each exchange transfers for 0.1 s.
STAGES = (
    [
        ("params-all-gather", 0.0, 0.1),
        ("forward-compute", 0.1, 0.2),
        ("forward-send", 0.3, 0.1),
        ("backward-recv", 0.3, 1.1),
        ("backward-compute", 1.4, 0.4),
        ("optimizer", 1.8, 0.1),
    ],
    [
        ("params-all-gather", 0.0, 0.1),
        ("forward-recv", 0.1, 0.3),
        ("forward-compute", 0.4, 0.3),
        ("backward-compute", 0.7, 0.6),
        ("backward-send", 1.3, 0.1),
        ("optimizer", 1.3, 0.2),
    ],
)
STEPS = range(6)


def ranks_of(stages=STAGES, steps=STEPS):
    trace, _ = read_trace(Source(table(list(rows(steps, stages))), "job.parquet"))
    return [Facts(rank) for rank in split_ranks(trace)]


@pytest.fixture(scope="module")
def ranks():
    return ranks_of()


def test_a_replay_of_the_recorded_steps_takes_as_long_as_they_did(ranks):
    schedule = schedule_of([facts.trace for facts in ranks])
    assert schedule.step_ns(schedule.work_ns) == pytest.approx(1.9 * S, rel=1e-6)


@pytest.mark.parametrize(
    ("edits", "seconds"),
    [
        # Passes of the second stage as long as on average: 0.05 s and 0.1 s less.
        (["stage:1=even"], 1.75),
        (["ops:backward-compute=2x"], 1.4),
        (["ops:optimizer=gone"], 1.8),
        (["communication=gone"], 1.6),
        (["communication:forward-*=2x"], 1.85),
        (["communication=gone", "ops:backward-compute=2x"], 1.1),
        (["group:pp=gone"], 1.7),
        (["group:dp=gone"], 1.8),
        (["group:dp=2x"], 1.85),
        (["group:pp=even"], 1.9),
        (["variance=gone"], 1.9),
    ],
)
def test_what_follows_a_changed_operation_starts_earlier(ranks, edits, seconds):
    found = price_ranks(ranks, [parse_edit(text) for text in edits])
    assert found.remaining_ns == pytest.approx(seconds * S, rel=1e-4)
    assert found.low_ns <= found.remaining_ns <= found.high_ns
    assert (found.step_ns, found.method) == (pytest.approx(1.9 * S, rel=1e-6), "ranks")


def test_one_rank_of_a_slow_stage_gains_nothing_alone(ranks):
    found = price_ranks(ranks, [parse_edit("rank:3=even")])
    assert found.remaining_ns == pytest.approx(1.9 * S, rel=1e-4)
    assert found.high_ns == found.step_ns


def test_a_share_that_one_rank_loses_is_said_not_to_go_to_others(ranks):
    (note,) = price_ranks(ranks, [parse_edit("rank:3=even")]).notes
    assert "rank=even shares all work evenly" in note
    assert price_ranks(ranks, [parse_edit("rank=even")]).notes == ()


@pytest.mark.parametrize(
    "text",
    [
        "stage:7=even", "rank:9=even", "python=gone", "ops:conv=2x", "link:0-9=even",
        "link:0-3=even", "group:embd=2x", "group:mine=2x",
    ],
)  # fmt: skip
def test_an_edit_of_what_is_not_recorded_is_refused(ranks, text):
    found = price_ranks(ranks, [parse_edit(text)])
    assert isinstance(found, Refusal)
    assert text in found.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ranks=2x", "How long exchanges take among more ranks was not recorded."),
        (
            "group:tp=2x",
            "Exchanges of tp groups are inside the passes, which were timed whole.",
        ),
    ],
)
def test_what_the_model_does_not_hold_is_refused_with_the_reason(ranks, text, reason):
    found = price_ranks(ranks, [parse_edit(text)])
    assert found.reason == reason
    assert found.todo == "Measure the changed program with 'stepwhy compare'."


def slow_link(slow_s):
    """Rows of the job in which the exchanges between ranks 1 and 3 take longer by some time."""
    for rank, stage, step, name, start, duration in rows(STEPS, STAGES):
        later = duration
        if rank == 1 and name == "backward-recv":
            later += 2 * slow_s
        if rank == 3 and name == "forward-recv":
            later += slow_s
        if rank == 3 and name == "backward-send":
            later += slow_s
        moves = rank in {1, 3} and start >= 0.4
        twice = rank == 1 and start >= 1.4
        yield rank, stage, step, name, start + slow_s * (moves + twice), later


def test_a_slow_link_is_priced_by_the_time_of_the_others():
    trace, _ = read_trace(Source(table(list(slow_link(0.2))), "job.parquet"))
    slow = [Facts(rank) for rank in split_ranks(trace)]
    found = price_ranks(slow, [parse_edit("link:1-3=gone")])
    assert found.naive_ns < found.step_ns
    # Each transfer of the pair takes 0.3 s; the other pair transfers for 0.1 s, so it is last.
    assert found.remaining_ns == pytest.approx(1.9 * S, rel=1e-3)
    other = price_ranks(slow, [parse_edit("link:0-2=gone")])
    assert other.remaining_ns == pytest.approx(2.3 * S, rel=1e-3)


def test_ranks_that_only_exchange_with_others_have_no_link_of_their_own():
    def three(found):
        return [
            (3 * stage + (place % 3), stage, *rest)
            for step in STEPS
            for stage in range(2)
            for place in range(3)
            for rest in [(step, name, start, dur) for name, start, dur in found[stage]]
        ]

    trace, _ = read_trace(Source(table(three(STAGES)), "job.parquet"))
    job = [Facts(rank) for rank in split_ranks(trace)]
    found = price_ranks(job, [parse_edit("link:0-1=2x")])
    assert found.reason == (
        "Ranks 0 and 1 exchange only together with other ranks, so that their link was not timed "
        "alone."
    )


def test_steps_that_vary_are_evened_out():
    """The optimizer of the data ranks takes 0.5 s in turn, otherwise 0.1 s."""
    found = []
    for rank, stage, step, name, start, duration in rows(STEPS, STAGES):
        in_turn = 0.5 if rank % 2 == step % 2 else 0.1
        took = in_turn if name == "optimizer" else duration
        found.append((rank, stage, step, name, start, took))
    trace, _ = read_trace(Source(table(found), "job.parquet"))
    priced = price_ranks([Facts(one) for one in split_ranks(trace)], [parse_edit("variance=gone")])
    assert priced.step_ns == pytest.approx(2.3 * S, rel=1e-3)
    assert priced.remaining_ns == pytest.approx(2.1 * S, rel=1e-3)


def test_operations_that_do_not_match_are_no_schedule():
    fewer = [[row for row in STAGES[0] if row[0] != "backward-recv"], *STAGES[1:]]
    twice = [[*STAGES[0], ("params-all-gather", 1.9, 0.1)], STAGES[1]]
    assert schedule_of([facts.trace for facts in ranks_of(fewer)]).operations
    with pytest.raises(UnknownScheduleError, match="several parts of the model"):
        schedule_of([facts.trace for facts in ranks_of(twice)])
    more = [[*STAGES[0], ("forward-send", 0.5, 0.1)], STAGES[1]]
    found = price_ranks(ranks_of(more), [parse_edit("rank=even")])
    assert found.reason == (
        "These steps cannot be replayed: passes and exchanges of a rank differ in number."
    )


def test_traces_of_kernels_do_not_say_what_ranks_wait_for():
    facts = Facts(parse(WAITING))
    found = price_ranks([facts, facts], [parse_edit("rank=even")])
    assert isinstance(found, Refusal)
    assert isinstance(price(facts, [parse_edit("stage:1=even")]), Refusal)


def test_the_command_predicts_for_the_whole_job(tmp_path):
    path = tmp_path / "job.parquet"
    path.write_bytes(table(list(rows(STEPS, STAGES))))
    result = CliRunner().invoke(cli, ["whatif", str(path), "--edit", "stage:1=even", "--json"])
    (found,) = json.loads(result.stdout)["predictions"]
    assert found["method"] == "ranks"
    assert found["remaining_ns"] == pytest.approx(1.75 * S, rel=1e-4)
    every = CliRunner().invoke(cli, ["whatif", str(path), "--json"])
    assert len(json.loads(every.stdout)["predictions"]) == 4


# --- the answers that were published for a production job -----------------------------------------

JOB = Path(os.environ.get("STEPWHY_TRACES", "."), "../straggler/trace-ST.parquet")
recorded = pytest.mark.skipif(not JOB.is_file(), reason="the recorded job is absent")
P2P = {"forward-pp-comm": "forward", "backward-pp-comm": "backward"}


@pytest.fixture(scope="module")
def job():
    trace, _ = read_trace(read_source(JOB))
    return schedule_of(split_ranks(trace))


@pytest.fixture(scope="module")
def published():
    return json.loads(JOB.with_name("FACTS.json").read_text())[JOB.name]


def where(job, accepts):
    return [row for row, operation in enumerate(job.operations) if accepts(operation)]


def slowdown(job, accepts):
    """Of the ideal step, if only some operations take as long as recorded."""
    work_ns, chosen = job.usual_ns(), where(job, accepts)
    work_ns[chosen] = job.work_ns[chosen]
    return job.step_ns(work_ns) / job.step_ns(job.usual_ns())


@pytest.mark.traces
@recorded
def test_published_steps(job, published):
    replayed_s, ideal_s = job.step_ns(job.work_ns) / S, job.step_ns(job.usual_ns()) / S
    assert replayed_s == pytest.approx(published["replayed_step_s"], rel=1e-5)
    assert ideal_s == pytest.approx(published["ideal_step_s"], rel=1e-5)
    assert replayed_s / ideal_s == pytest.approx(published["slowdown_S"], rel=1e-5)


@pytest.mark.traces
@recorded
def test_published_slowdowns(job, published):
    def is_of(operation, name):
        stem, _, end = operation.name.rpartition("-")
        return operation.name == name or (end in {"send", "recv"} and P2P.get(name) == stem)

    for name, expected in published["slowdown_by_operation"].items():
        found = slowdown(job, lambda o, name=name: is_of(o, name))
        assert found == pytest.approx(expected, rel=1e-5)
    for stage, expected in published["slowdown_by_stage"].items():
        found = slowdown(job, lambda o, stage=stage: o.stage == int(stage))
        assert found == pytest.approx(expected, rel=1e-5)
    for place, expected in published["slowdown_by_data_parallel_rank"].items():
        found = slowdown(job, lambda o, place=place: o.rank % 2 == int(place))
        assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.traces
@recorded
@pytest.mark.parametrize(
    ("share", "accepts"),
    [("M_S_last_stage", lambda o: o.stage == 3), ("M_W_worker", lambda o: o.rank == 7)],
)
def test_published_shares_of_the_slowdown(job, published, share, accepts):
    replayed_ns, ideal_ns = job.step_ns(job.work_ns), job.step_ns(job.usual_ns())
    without_ns = job.step_ns(job.with_usual(where(job, accepts)))
    found = (replayed_ns - without_ns) / (replayed_ns - ideal_ns)
    assert found == pytest.approx(published[share], rel=1e-4)


@pytest.mark.traces
@recorded
def test_the_published_step_lies_in_the_predicted_interval(published):
    trace, _ = read_trace(read_source(JOB))
    ranks = [Facts(rank) for rank in split_ranks(trace)]
    found = price_ranks(ranks, [parse_edit("rank=even")])
    assert found.low_ns <= np.ceil(published["ideal_step_s"] * S) <= found.high_ns
