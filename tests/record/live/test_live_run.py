"""The numbers of a run directory while it grows."""

from __future__ import annotations

import json

import pytest

from stepwhy.apps.top import LiveRun
from stepwhy.record.core.clock import now_ns
from stepwhy.show.metrics.model import Queue, Run

MS = 1_000_000
S = 1000 * MS


@pytest.fixture
def run_dir(tmp_path):
    path = tmp_path / "today"
    path.mkdir()
    return path


def append(folder, name, *lines):
    folder.mkdir(exist_ok=True)
    with (folder / name).open("a") as log:
        log.writelines(json.dumps(line) + "\n" for line in lines)


def process(run_dir, pid=7, **about):
    folder = run_dir / f"process-{pid}"
    append(folder, "process.json", {"framework": "pytorch", "rank": None, **about})
    return folder


def step(i, dur_ms=80, **values):
    start = 10**18 + i * dur_ms * MS
    return {"kind": "step", "start_ns": start, "end_ns": start + dur_ms * MS, **values}


def read(run_dir):
    return LiveRun(run_dir).read(True)


def test_nothing_is_known_before_the_first_step(run_dir):
    assert read(run_dir) == Run("today", (), is_running=True)
    process(run_dir)
    (found,) = read(run_dir).processes
    assert found._replace(framework="") == type(found)("")


def test_what_is_not_recorded_is_none(run_dir):
    append(process(run_dir), "steps.jsonl", *(step(i) for i in range(5)))
    (found,) = read(run_dir).processes
    assert (found.framework, found.rank, found.steps) == ("pytorch", None, 5)
    assert found.durations.total_ns == 5 * 80 * MS
    assert found.last_step_ns == 10**18 + 400 * MS
    assert (found.input_wait_ns, found.observed_ns, found.usage, found.queues) == (
        None, None, None, (),
    )  # fmt: skip


def test_numbers_grow_with_the_log(run_dir):
    folder, live = process(run_dir, rank=3), LiveRun(run_dir, fresh_s=0)
    append(folder, "steps.jsonl", step(0, input_wait_ns=20 * MS))
    assert live.read(True).processes[0].steps == 1
    append(folder, "steps.jsonl", step(1, input_wait_ns=None), step(2, profiled=1))
    (found,) = live.read(True).processes
    assert (found.rank, found.steps, found.durations.total) == (3, 3, 2)
    assert (found.input_wait_ns, found.observed_ns) == (20 * MS, 160 * MS)


def test_the_last_level_of_each_queue(run_dir):
    level = {"kind": "dataloader", "time_ns": 10**18, "name": "images", "value": 3, "capacity": 8}
    queue = {"kind": "tf1-queue", "time_ns": 10**18, "name": "images", "value": 5}
    hostile = [{"name": 1, "kind": 2}, [], {"name": "x", "kind": "y", "value": -1, "time_ns": 0}]
    append(process(run_dir), "levels.jsonl", level, queue, *hostile, {**level, "value": 1})
    assert read(run_dir).processes[0].queues == (
        Queue("images", "dataloader", 1, 8, 10**18),
        Queue("images", "tf1-queue", 5, None, 10**18),
    )


def sample(time_ns, **values):
    return {"time_ns": time_ns, "resident_bytes": 1000, "cpu_ns": 2 * S, **values}


def test_what_a_process_uses_is_known_while_samples_come(run_dir):
    gpus = [{"index": 0, "used_bytes": 5}, {"index": 1}, 7]
    append(process(run_dir), "counters.jsonl", sample(now_ns(), gpus=gpus), {"time_ns": -1})
    live = LiveRun(run_dir)
    usage = live.read(True).processes[0].usage
    assert (usage.resident_bytes, usage.swap_bytes, usage.cpu_ns) == (1000, None, 2 * S)
    assert usage.gpu_bytes == {0: 5}
    assert live.read(False).processes[0].usage is None


@pytest.mark.parametrize(("age_s", "run_s", "is_known"), [(9, 0, True), (60, 0, False),
                                                          (60, 36_000, True)])  # fmt: skip
def test_an_old_sample_shows_nothing_unless_samples_are_that_rare(run_dir, age_s, run_s, is_known):
    last = now_ns() - age_s * S
    append(process(run_dir), "counters.jsonl", sample(last - run_s * S), sample(last))
    assert (read(run_dir).processes[0].usage is not None) == is_known


def test_of_processes_that_are_no_ranks_the_main_one_counts(run_dir):
    append(process(run_dir, 8), "steps.jsonl", *(step(i) for i in range(5)))
    append(process(run_dir, 9), "steps.jsonl", *(step(i, 1) for i in range(50)))
    assert [p.steps for p in read(run_dir).processes] == [5]


def test_a_rank_that_was_started_again_replaces_the_former_one(run_dir):
    append(process(run_dir, 8, rank=0), "steps.jsonl", *(step(i) for i in range(50)))
    append(process(run_dir, 9, rank=0), "steps.jsonl", step(60), step(61))
    append(process(run_dir, 10, rank=1), "steps.jsonl", step(0))
    assert {p.rank: p.steps for p in read(run_dir).processes} == {0: 2, 1: 1}


def test_no_steps_rather_than_too_few(run_dir):
    append(process(run_dir), "steps.jsonl", step(0))
    live = LiveRun(run_dir)
    live.read(True)
    live._processes["process-7"]._logs["steps"].is_lost = True
    assert live.read(False).processes[0].steps is None


def test_numbers_that_were_just_read_are_used_again(run_dir):
    live, folder = LiveRun(run_dir, fresh_s=3600), process(run_dir)
    assert live.read(True).processes[0].steps is None
    append(folder, "steps.jsonl", step(0))
    assert live.read(True).processes[0].steps is None
    assert live.read(False).processes[0].steps == 1  # at the end, everything is read


def test_the_name_of_the_run_is_masked(tmp_path):
    token = "hf_" + "a1B2c3D4e5" * 4
    path = tmp_path / token
    path.mkdir()
    assert token not in read(path).name
