"""The command `stepwhy top`."""

import json

import pytest
from click.testing import CliRunner

from stepwhy.cli import cli
from stepwhy.cli.top import follow
from stepwhy.show.metrics.ranks import RankNow, RecentStep, judge

S = 10**9


def invoke(*args):
    return CliRunner().invoke(cli, ["top", *map(str, args)])


@pytest.fixture
def job(tmp_path):
    for rank in range(11):
        folder = tmp_path / f"rank-{rank}" / "process-7"
        folder.mkdir(parents=True)
        (folder / "process.json").write_text(json.dumps({"rank": rank, "ended_ns": 1}))
        times = ({"start_ns": n * S, "end_ns": (n + 1) * S} for n in range(5))
        lines = (json.dumps({"kind": "step", **one}) + "\n" for one in times)
        (folder / "steps.jsonl").write_text("".join(lines))
    return tmp_path


def test_a_pipe_gets_all_ranks_once(job):
    done = invoke(job)
    assert done.exit_code == 0
    assert done.stdout.startswith(job.name)
    assert "11 ranks · step 1.00 s · 11 ended" in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines()[-11:]] == list(map(str, range(11)))


def test_a_folder_without_steps_is_an_error(tmp_path):
    done = invoke(tmp_path)
    assert done.exit_code == 3
    assert f"no process in '{tmp_path}' has logged a step." in done.stderr


def test_a_missing_folder_is_an_error(tmp_path):
    assert "is no folder" in invoke(tmp_path / "none").stderr


def test_it_ends_when_all_ranks_have_ended():
    steps = (RecentStep(S),)
    states = [
        [],
        [RankNow(0, steps), RankNow(1, steps)],
        [RankNow(0, steps, is_ended=True), RankNow(1, steps)],
        [RankNow(0, steps, is_ended=True), RankNow(1, steps, is_ended=True)],
    ]
    read, shown, waits = map(judge, states), [], []
    last = follow(lambda: next(read), shown.append, lambda: waits.append(1))
    assert [len(ranks) for ranks in shown] == [0, 2, 2, 2]
    assert last == shown[-1]
    assert len(waits) == 3
