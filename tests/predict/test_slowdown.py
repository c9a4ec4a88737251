"""What makes the steps of a job longer than ideal ones: published answers, and small jobs."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from stepwhy.cli import cli
from stepwhy.engine import explain
from stepwhy.predict.operations import schedule_of
from stepwhy.predict.slowdown import slowdown_of
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.inputs.source import Source
from stepwhy.read.registry import read_trace
from stepwhy.trace.ranks import split_ranks
from tests.predict.test_ranks import STAGES, STEPS, ranks_of
from tests.read.operation_table_samples import rows, table

pytest.importorskip("pyarrow")

S = 1_000_000_000
EVEN = (
    [("forward-compute", 0.0, 0.2), ("forward-send", 0.2, 0.1), ("backward-recv", 0.2, 0.6),
     ("backward-compute", 0.8, 0.3)],
    [("forward-recv", 0.0, 0.3), ("forward-compute", 0.3, 0.2), ("backward-compute", 0.5, 0.2),
     ("backward-send", 0.7, 0.1)],
)  # fmt: skip


def slowdown(stages, steps=STEPS):
    return slowdown_of(schedule_of([facts.trace for facts in ranks_of(stages, steps)]))


def test_a_longer_stage_explains_the_slowdown():
    found = slowdown(STAGES)
    # Ideal: passes of 0.25 s and 0.5 s, transfers of 0.1 s, an optimizer of 0.15 s.
    assert found.replayed_ns == pytest.approx(1.9 * S, rel=1e-6)
    assert found.ideal_ns == pytest.approx((0.1 + 2 * 0.25 + 0.1 + 2 * 0.5 + 0.1 + 0.15) * S)
    assert found.slowdown == pytest.approx(1.9 / 1.95)
    assert list(found.by_stage) == ["0", "1"]
    assert found.by_stage["1"] > 1 > found.by_stage["0"]
    # The step ends with the other data rank, which is ideal.
    assert found.by_data_rank == pytest.approx({"0": 1.0, "1": 1.0})
    assert {"forward-pp-comm", "backward-pp-comm"} <= set(found.by_operation)
    assert not {"forward-send", "forward-recv"} & set(found.by_operation)


def late(rank_late, by_s):
    """Rows of an even job in which the last pass of one rank takes longer."""
    for rank, stage, step, name, start, duration in rows(STEPS, EVEN):
        longer = by_s if rank == rank_late and (stage, name) == (0, "backward-compute") else 0.0
        yield rank, stage, step, name, start, duration + longer


def test_a_late_rank_is_the_slowest():
    trace, _ = read_trace(Source(table(list(late(1, 0.4))), "job.parquet"))
    found = slowdown_of(schedule_of(split_ranks(trace)))
    assert found.slowest_ranks == (1,)
    assert found.by_data_rank["1"] > found.by_data_rank["0"]
    assert found.slowest_ranks_share > 0.9
    assert found.last_stage_share < 0.1


def test_a_job_without_slowdown_has_no_shares_of_it():
    found = slowdown([[*EVEN[0][:3], ("backward-compute", 0.8, 0.2)], EVEN[1]])
    assert found.slowdown == pytest.approx(1.0, abs=1e-6)
    assert found.last_stage_share is None
    assert found.slowest_ranks_share is None


def test_many_steps_are_replayed_in_several_parts(monkeypatch):
    whole = slowdown(STAGES)
    monkeypatch.setattr("stepwhy.predict.operations._MOST_AT_ONCE", 1)
    assert slowdown(STAGES) == whole


def printed(tmp_path, found, *options):
    path = tmp_path / "job.parquet"
    path.write_bytes(table(list(found)))
    done = CliRunner().invoke(cli, ["whatif", str(path), *options])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_prints_it(tmp_path):
    text = " ".join(printed(tmp_path, late(1, 0.4)).split())
    assert "S = 1." in text
    assert "the slowest 3 % of the ranks (1) explain" in text
    assert "data rank 1 1." in text
    result = json.loads(printed(tmp_path, late(1, 0.4), "--json"))["slowdown"]
    assert result["slowest_ranks"] == [1]
    assert set(result["by_stage"]) == {"0", "1"}


def test_shares_of_next_to_nothing_are_not_printed(tmp_path):
    even = [[*EVEN[0][:3], ("backward-compute", 0.8, 0.2)], EVEN[1]]
    assert "no share of the slowdown is given" in " ".join(
        printed(tmp_path, rows(STEPS, even)).split()
    )


def test_what_cannot_be_replayed_has_no_slowdown(tmp_path):
    more = [[*STAGES[0], ("forward-send", 0.5, 0.1)], STAGES[1]]
    result = json.loads(printed(tmp_path, rows(STEPS, more), "--json"))
    assert result["slowdown"] is None
    assert "differ in number" in result["refusals"][0]["reason"]


# --- the answers that were published for a production job -----------------------------------------

JOB = Path(os.environ.get("STEPWHY_TRACES", "."), "../straggler/trace-ST.parquet")
recorded = pytest.mark.skipif(not JOB.is_file(), reason="the recorded job is absent")


@pytest.mark.traces
@recorded
def test_the_command_prints_the_published_answers():
    published = json.loads(JOB.with_name("FACTS.json").read_text())[JOB.name]
    done = CliRunner().invoke(cli, ["whatif", str(JOB), "--json"])
    found = json.loads(done.stdout)["slowdown"]
    assert found["slowdown"] == pytest.approx(published["slowdown_S"], rel=1e-4)
    for name in ("stage", "operation"):
        assert found[f"by_{name}"] == pytest.approx(published[f"slowdown_by_{name}"], rel=1e-4)
    expected = published["slowdown_by_data_parallel_rank"]
    assert found["by_data_rank"] == pytest.approx(expected, rel=1e-4)
    assert found["last_stage_share"] == pytest.approx(published["M_S_last_stage"], rel=1e-4)
    assert found["slowest_ranks_share"] == pytest.approx(published["M_W_worker"], rel=1e-4)


@pytest.mark.traces
@recorded
def test_the_report_puts_the_long_stage_first():
    schedule = schedule_of(split_ranks(read_trace(read_source(JOB))[0]))
    found = slowdown_of(schedule)
    gain_ns = found.last_stage_share * (found.replayed_ns - found.ideal_ns)
    first = explain([str(JOB)]).findings[0]
    assert (first.id, first.saving.method) == ("stage-imbalance", "ranks")
    assert first.saving.low_ns <= gain_ns <= first.saving.high_ns
    assert gain_ns == pytest.approx(402e6, rel=1e-3)
