"""The ranks of a job that runs, from the ends of their logs."""

from __future__ import annotations

import json
import os

import pytest

from stepwhy.apps.top import LiveRanks
from stepwhy.apps.top.ranks import LogTail

MS = 1_000_000
S = 1000 * MS
START = 10**18


class Clock:
    """A clock that the test sets; both of its faces show the same time."""

    def __init__(self):
        self.s = 1000.0

    def __call__(self):
        return self.s

    def wall_ns(self):
        return START + round((self.s - 1000) * S)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def read(tmp_path, clock):
    live = LiveRanks(tmp_path, clock, clock.wall_ns)

    def later(seconds=0.0):
        clock.s += seconds
        return live.read()

    return later


def append(folder, name, *lines):
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("a") as log:
        log.writelines(json.dumps(line) + "\n" for line in lines)


def about(folder, **values):
    folder.mkdir(parents=True, exist_ok=True)
    process = {"framework": "pytorch", "rank": None, "ended_ns": None, **values}
    (folder / "process.json").write_text(json.dumps(process))
    return folder


def step(number, **values):
    """A step of 100 ms; the last one of 0 to 9 ends at the start of the clock."""
    end_ns = START + (number - 9) * 100 * MS
    return {"kind": "step", "start_ns": end_ns - 100 * MS, "end_ns": end_ns, **values}


def steps(first, stop, **values):
    return [step(number, **values) for number in range(first, stop)]


# --- Ranks ---


def test_ranks_of_one_launcher_are_listed_by_number(tmp_path, read):
    for pid, rank in ((7, 10), (8, 2), (9, 1)):
        append(about(tmp_path / f"process-{pid}", rank=rank), "steps.jsonl", *steps(0, 10))
    assert [one.rank for one in read()] == [1, 2, 10]


def test_each_rank_may_have_a_folder_of_its_own(tmp_path, read):
    for rank in range(12):
        folder = about(tmp_path / f"rank-{rank}" / "process-7", rank=rank)
        append(folder, "steps.jsonl", *steps(0, 10, input_wait_ns=5 * MS, cpu_ns=rank * MS))
    found = read()
    assert [one.rank for one in found] == list(range(12))
    assert [one.cpu_ns for one in found] == [rank * MS for rank in range(12)]
    assert {(one.step_ns, one.input_wait_ns) for one in found} == {(100 * MS, 5 * MS)}


def test_hundreds_of_ranks_are_read_at_once(tmp_path, read):
    for rank in range(300):
        folder = about(tmp_path / f"rank-{rank}" / "process-7", rank=rank)
        append(folder, "steps.jsonl", *steps(0, 6, cpu_ns=rank * MS))
    assert [(one.rank, one.cpu_ns) for one in read()] == [(n, n * MS) for n in range(300)]


def test_only_new_steps_are_read_and_old_ones_forgotten(tmp_path, read):
    folder = about(tmp_path / "process-7", rank=0)
    append(folder, "steps.jsonl", *steps(0, 10, cpu_ns=MS))
    assert len(read()[0].steps) == 10
    append(folder, "steps.jsonl", *steps(10, 40, cpu_ns=7 * MS))
    (found,) = read(1)
    assert [one.cpu_ns for one in found.steps] == [7 * MS] * 20


def test_of_a_long_log_the_end_is_read(tmp_path, read):
    append(about(tmp_path / "process-7", rank=0), "steps.jsonl", *steps(0, 5000))
    (found,) = read()
    assert 10 <= len(found.steps) <= 20
    assert found.last_step_ns == step(4999)["end_ns"]


def test_a_rank_that_was_started_again_replaces_the_former_one(tmp_path, read):
    append(about(tmp_path / "process-7", rank=0), "steps.jsonl", *steps(0, 10, cpu_ns=MS))
    append(about(tmp_path / "process-8", rank=0), "steps.jsonl", *steps(20, 30, cpu_ns=2 * MS))
    assert [one.cpu_ns for one in read()] == [2 * MS]


def test_processes_that_are_no_ranks_are_left_out_of_a_job(tmp_path, read):
    append(about(tmp_path / "process-6"), "steps.jsonl", *steps(0, 30))
    assert [one.rank for one in read()] == [None]
    append(about(tmp_path / "process-7", rank=0), "steps.jsonl", *steps(0, 10))
    assert [one.rank for one in read(5)] == [0]


def test_new_ranks_are_found_later(tmp_path, read):
    assert read() == []
    append(about(tmp_path / "process-7", rank=0), "steps.jsonl", *steps(0, 10))
    assert read(1) == []
    assert len(read(4)) == 1


def test_called_functions_make_steps_with_their_cpu_time(tmp_path, read):
    calls = [dict(step(n, cpu_ns=30 * MS), kind="call", signature=1) for n in range(10)]
    append(about(tmp_path / "process-7", rank=0), "steps.jsonl", *calls)
    (found,) = read()
    assert (len(found.steps), found.step_ns, found.cpu_ns) == (9, 100 * MS, 30 * MS)


# --- Before the first step ---


def test_a_rank_without_a_step_is_listed_since_it_was_recorded(tmp_path, read):
    folder = about(tmp_path / "rank-1" / "process-7", rank=1)
    os.utime(folder / "process.json", ns=(START - 20 * S, START - 20 * S))
    append(about(tmp_path / "rank-0" / "process-7", rank=0), "steps.jsonl", *steps(0, 10))
    found = read()
    assert [(one.rank, len(one.steps), one.has_noted) for one in found] == [
        (0, 10, False),
        (1, 0, False),
    ]
    assert found[1].silent_s == pytest.approx(20)
    (folder / "stall.json.gz").touch()
    assert read(1)[1].silent_s == pytest.approx(21)
    assert read(4)[1].has_noted
    append(folder, "steps.jsonl", *steps(50, 52))
    assert len(read(1)[1].steps) == 2
    assert read()[1].silent_s == pytest.approx(1.8)  # since the end of the last one


def test_a_process_without_a_step_and_a_rank_must_have_noted_something(tmp_path, read):
    folder = about(tmp_path / "process-7")
    assert read() == []
    (folder / "stall.json.gz").touch()
    assert [(one.rank, one.may_hang) for one in read(5)] == [(None, True)]


def test_a_process_that_ended_before_its_first_step_is_left_out(tmp_path, read):
    about(tmp_path / "process-7", rank=0, ended_ns=START)
    assert read() == []


@pytest.mark.parametrize("pids", [(7, 8), (8, 7)])
def test_a_process_without_a_step_replaces_only_one_that_has_ended(tmp_path, read, pids):
    with_steps = about(tmp_path / f"process-{pids[0]}", rank=0)
    append(with_steps, "steps.jsonl", *steps(0, 10))
    about(tmp_path / f"process-{pids[1]}", rank=0)
    assert [len(one.steps) for one in read()] == [10]
    about(with_steps, rank=0, ended_ns=START)
    assert [len(one.steps) for one in read(5)] == [0]


# --- Silence and ends ---


def test_silence_is_counted_from_the_last_new_step(tmp_path, read):
    folder = about(tmp_path / "process-7", rank=0)
    append(folder, "steps.jsonl", *steps(0, 10))
    assert read(30)[0].silent_s == pytest.approx(30)
    append(folder, "steps.jsonl", step(10))
    assert read(1)[0].silent_s == 0
    assert read(7)[0].silent_s == 7


def test_a_machine_whose_clock_is_ahead_is_not_silent(tmp_path, read):
    append(about(tmp_path / "process-7", rank=0), "steps.jsonl", *steps(6000, 6010))
    assert read(5)[0].silent_s == 0


def test_a_process_that_ends_has_ended(tmp_path, read):
    folder = about(tmp_path / "process-7", rank=0)
    append(folder, "steps.jsonl", *steps(0, 10))
    assert not read()[0].is_ended
    about(folder, rank=0, ended_ns=START)
    assert read(5)[0].is_ended


def test_a_run_that_has_ended_ends_its_processes(tmp_path, read):
    append(about(tmp_path / "rank-0" / "process-7", rank=0), "steps.jsonl", *steps(0, 10))
    (tmp_path / "rank-0" / "run.json").write_text('{"ended_ns": 1}')
    assert read()[0].is_ended


# --- Samples ---


def test_samples_show_cores_memory_and_gpus(tmp_path, read):
    folder = about(tmp_path / "process-7", rank=0)
    append(folder, "steps.jsonl", *steps(0, 10))
    gpus = [{"utilisation_percent": 50, "used_bytes": 5}, {"utilisation_percent": 100}, 7]
    sample = {"resident_bytes": 9, "gpus": gpus}
    append(folder, "counters.jsonl", {"time_ns": START, "cpu_ns": S, **sample})
    assert read()[0].cores is None
    append(folder, "counters.jsonl", {"time_ns": START + 2 * S, "cpu_ns": 6 * S, **sample})
    assert read(1)[0].cores is None
    (found,) = read(4)
    assert (found.cores, found.resident_bytes) == (2.5, 9)
    assert (found.gpu_busy, found.gpu_bytes) == (0.75, 5)


@pytest.mark.parametrize("line", ["{", "[]", '{"time_ns": -1}', '{"time_ns": 5, "gpus": {}}', "\0"])
def test_damaged_samples_show_nothing(tmp_path, read, line):
    folder = about(tmp_path / "process-7", rank=0)
    append(folder, "steps.jsonl", *steps(0, 10))
    (folder / "counters.jsonl").write_text(f"{line}\n{line}\n")
    (found,) = read()
    assert (found.cores, found.resident_bytes, found.gpus) == (None, None, ())


# --- The job ---


def test_nothing_is_written(tmp_path, read):
    for rank in range(3):
        folder = about(tmp_path / f"rank-{rank}" / "process-7", rank=rank)
        append(folder, "steps.jsonl", *steps(0, 10))

    def state():
        return {
            path: (path.lstat().st_mtime_ns, path.lstat().st_size) for path in tmp_path.rglob("*")
        }

    before = state()
    for _ in range(3):
        assert len(read(6)) == 3
    assert state() == before


def test_links_and_pipes_are_not_followed(tmp_path, read):
    folder = about(tmp_path / "rank-0" / "process-7", rank=0)
    append(folder, "steps.jsonl", *steps(0, 10))
    (tmp_path / "rank-1").symlink_to(tmp_path / "rank-0")
    (tmp_path / "process-8").symlink_to(folder)
    assert [one.rank for one in read()] == [0]


# --- Tails ---


def test_lines_are_returned_once_and_whole(tmp_path):
    tail, log = LogTail(str(tmp_path), "steps"), tmp_path / "steps.jsonl"
    assert tail.new_lines() == []
    log.write_bytes(b"a\nb\nhal")
    assert tail.new_lines() == [b"a", b"b"]
    with log.open("ab") as file:
        file.write(b"f\n")
    assert tail.new_lines() == [b"half"]
    assert tail.new_lines() == []


def test_the_first_line_after_a_skip_is_left_out(tmp_path):
    lines = [f"line {number}".encode() for number in range(1000)]
    (tmp_path / "steps.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    found = LogTail(str(tmp_path), "steps").new_lines()
    assert found == lines[-len(found) :]
    assert 100 < len(found) < 1000


def test_a_new_file_is_read_from_its_beginning(tmp_path):
    tail, log = LogTail(str(tmp_path), "steps"), tmp_path / "steps.jsonl"
    log.write_bytes(b"a\nb\n")
    assert tail.new_lines() == [b"a", b"b"]
    log.rename(tmp_path / "steps-000000000000.jsonl")
    assert tail.new_lines() == []
    log.write_bytes(b"c\n")
    assert tail.new_lines() == [b"c"]
