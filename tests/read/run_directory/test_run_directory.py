"""Run directories: whole, killed, foreign."""

from __future__ import annotations

import json
import os

import pytest
from tests.engine.test_explain import kineto

from stepwhy.analyse.steps.cores import usable_cores
from stepwhy.analyse.steps.counters import series
from stepwhy.base.errors import CorruptInputError, NewerFormatError, NoTracesError
from stepwhy.engine import explain
from stepwhy.engine.opening import open_one
from stepwhy.read.registry import read_folder

MS = 1_000_000


def write_run(folder, lines, *, window=None, schema="stepwhy.run/1", exit_code=0):
    process = folder / "process-7"
    (process / "windows" / "000").mkdir(parents=True)
    run = {"schema": schema, "command": ["python", "train.py"], "exit_code": exit_code}
    (folder / "run.json").write_text(json.dumps(run))
    (process / "process.json").write_text(
        json.dumps({"framework": "pytorch", "framework_version": "2.13.0", "rank": None})
    )
    (process / "steps.jsonl").write_text("".join(line + "\n" for line in lines))
    if window is not None:
        (process / "windows" / "000" / "trace.json").write_text(window)
    return process


def steps(count, length_ns, profiled=()):
    return [
        json.dumps(
            {
                "kind": "step",
                "start_ns": i * length_ns,
                "end_ns": (i + 1) * length_ns,
                "profiled": int(i in profiled),
            }
        )
        for i in range(count)
    ]


def test_wall_time_is_that_of_unprofiled_steps(tmp_path):
    # Profiled steps take 1 ms in the trace, unprofiled ones 0.95 ms: the profiler's 50 us are
    # taken from the host's part (100 us of dispatch), since the accelerator decides.
    write_run(tmp_path, steps(10, 950_000, profiled=(4, 5)), window=kineto())
    result = explain([str(tmp_path)])
    assert result.breakdown.wall_ns == 950_000
    assert sum(result.breakdown.categories.values()) == 950_000
    assert result.breakdown.categories["compute"] == 700_000
    assert result.breakdown.categories["dispatch"] == 50_000
    assert (result.steps.source, result.steps.count) == ("hook", 8)
    assert result.run.framework_version == "2.13.0"
    assert result.run.command == "python train.py"


def test_steps_without_a_window_divide_into_nothing(tmp_path):
    write_run(tmp_path, steps(10, MS))
    result = explain([str(tmp_path)])
    assert result.verdict.bound_by == "unknown"
    assert result.steps.count == 10
    assert result.steps.median_ns == MS


def test_session_runs_become_steps(tmp_path):
    # An initialiser, then (train, loss) with a summary run after every second step.
    runs = [{"kind": "run", "signature": 1, "start_ns": 0, "end_ns": 5 * MS}]
    clock = 10 * MS
    for i in range(6):
        runs.append({"kind": "run", "signature": 2, "start_ns": clock, "end_ns": clock + 3 * MS})
        if i % 2:
            runs.append(
                {
                    "kind": "run",
                    "signature": 3,
                    "start_ns": clock + 3 * MS,
                    "end_ns": clock + 4 * MS,
                }
            )
        clock += 5 * MS
    write_run(tmp_path, [json.dumps(r) for r in runs])
    marks = read_folder(tmp_path)[0].trace.marks
    assert marks.dur_ns.tolist() == [5 * MS] * 5
    assert marks.graph_ns.tolist() == [3 * MS, 4 * MS, 3 * MS, 4 * MS, 3 * MS]


def test_killed_run_says_so(tmp_path):
    write_run(tmp_path, [*steps(5, MS), '{"kind": "st'], window=kineto(), exit_code=None)
    result = explain([str(tmp_path)])
    assert result.steps.count == 5
    assert any("ends in the middle of a line" in note for note in result.notes)
    assert any("no recorded end" in note for note in result.notes)


def test_damaged_window_is_named_and_the_log_stays(tmp_path):
    write_run(tmp_path, steps(5, MS), window="{")
    result = explain([str(tmp_path)])
    assert result.steps.count == 5
    assert any("window could not be read" in note for note in result.notes)


def test_run_without_training(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"schema": "stepwhy.run/1"}))
    with pytest.raises(NoTracesError, match="no observed training step"):
        explain([str(tmp_path)])


def test_newer_run_directory(tmp_path):
    write_run(tmp_path, [], schema="stepwhy.run/2")
    with pytest.raises(NewerFormatError, match="Update stepwhy"):
        explain([str(tmp_path)])


def test_damaged_run_file(tmp_path):
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(CorruptInputError, match=r"run\.json is damaged"):
        explain([str(tmp_path)])


def test_folder_of_run_directories(tmp_path):
    write_run(tmp_path / "one", steps(5, MS), window=kineto())
    assert explain([str(tmp_path)]).inputs[0].path.endswith("one/process-7")


def session_runs(*runs):
    """Log lines of (signature, start, end, profiled), in ms."""
    return [
        json.dumps(
            {
                "kind": "run",
                "signature": signature,
                "start_ns": start * MS,
                "end_ns": end * MS,
                "profiled": profiled,
            }
        )
        for signature, start, end, profiled in runs
    ]


def test_a_rare_long_run_makes_no_step(tmp_path):
    # Forty training runs of 2 ms; a checkpoint of 50 ms after every tenth.
    runs, clock = [], 0
    for i in range(40):
        runs.append((0, clock, clock + 2, 0))
        clock += 3
        if i % 10 == 9:
            runs.append((1, clock, clock + 50, 0))
            clock += 51
    write_run(tmp_path, session_runs(*runs))
    marks = read_folder(tmp_path)[0].trace.marks
    assert len(marks) == 39
    assert sorted(set(marks.dur_ns.tolist())) == [3 * MS, 54 * MS]


def test_a_step_begins_with_the_run_that_updates(tmp_path):
    # Thirty runs of 3 ms for single examples, then one of 2 ms that executes an optimizer.
    runs = []
    for i in range(10):
        runs += [(0, 100 * i + 3 * k, 100 * i + 3 * k + 3, 0) for k in range(30)]
        runs.append((1, 100 * i + 95, 100 * i + 97, 0))
    lines = [json.loads(line) for line in session_runs(*runs)]
    write_run(tmp_path, [json.dumps({**one, "update": one["signature"]}) for one in lines])
    marks = read_folder(tmp_path)[0].trace.marks
    assert marks.dur_ns.tolist() == [100 * MS] * 9


def test_frequent_cheap_runs_make_no_step(tmp_path):
    runs = []
    for i in range(10):
        runs.append((0, 1000 * i, 1000 * i + 900, 0))
        runs += [(1, 1000 * i + 900 + k, 1000 * i + 901 + k, 0) for k in range(5)]
    write_run(tmp_path, session_runs(*runs))
    marks = read_folder(tmp_path)[0].trace.marks
    assert marks.dur_ns.tolist() == [1000 * MS] * 9


def test_the_hottest_line_comes_from_stack_samples(tmp_path):
    process = write_run(tmp_path, steps(10, MS), window=kineto())
    samples = [{"line": "train.py(12): augment", "leaf": "numpy", "count": 40}]
    stacks = {"stretches": [{"start_ns": 0, "end_ns": 2_000 * MS, "samples": samples}]}
    (process / "stacks.json").write_text(json.dumps(stacks))
    assert explain([str(tmp_path)]).breakdown.hottest_line == "train.py(12): augment"
    (process / "stacks.json").write_text("{")
    assert explain([str(tmp_path)]).breakdown.hottest_line == ""


def test_the_path_of_the_driving_thread_is_read(tmp_path):
    process = write_run(tmp_path, steps(10, MS), window=kineto())
    about = {"start_ns": 0, "end_ns": 9, "samples": [], "paths": [["a.py(1): main", "b.py(2): f"]]}
    # A path that does not exist, and a visit that takes no time, are left out.
    stretch = {**about, "visits": [[5, 8, 0], [1, 5, 0], [8, 9, 7], [8, 8, 0]]}
    (process / "stacks.json").write_text(json.dumps({"stretches": [stretch]}))
    trace = read_folder(tmp_path)[0].trace
    assert trace.visits.start_ns.tolist() == [1, 5]
    assert {trace.string(lines) for lines in trace.visits.lines} == {"a.py(1): main; b.py(2): f"}


def test_a_rotated_log_is_joined_and_what_was_dropped_is_told(tmp_path):
    lines = steps(3000, MS)
    process = write_run(tmp_path, lines[2500:])
    (process / "steps-000000000000.jsonl").write_text("\n".join(lines[:1000]) + "\n")
    (process / "steps-000000002000.jsonl").write_text("\n".join(lines[2000:2500]) + "\n")
    result = explain([str(tmp_path)])
    assert result.steps.count == 2000
    assert any(n.startswith("Lines 1,001 to 2,000 of the step log are not") for n in result.notes)


def test_a_run_that_is_still_going_is_explained_and_says_so(tmp_path):
    process = write_run(tmp_path, steps(5, MS), exit_code=None)
    about = {"framework": "pytorch", "pid": os.getpid(), "ended_ns": None}
    (process / "process.json").write_text(json.dumps(about))
    result = explain([str(tmp_path)])
    assert result.steps.count == 5
    assert "The run is still going: this explains the steps so far." in result.notes


def test_threads_and_cores_are_known_from_the_first_step(tmp_path):
    process = write_run(tmp_path, steps(5, MS))
    about = {"framework": "pytorch", "intra_op_threads": 16, "usable_cores": 2}
    (process / "process.json").write_text(json.dumps(about))
    trace = open_one(str(process)).trace
    assert (series(trace, "intra_op_threads").last, usable_cores(trace)) == (16, 2)


def test_settings_of_the_process_are_known(tmp_path):
    process = write_run(tmp_path, steps(5, MS))
    about = {"framework": "jax", "settings": {"JAX_DEBUG_NANS": "1"}}
    (process / "process.json").write_text(json.dumps(about))
    assert open_one(str(process)).trace.meta.settings == (("JAX_DEBUG_NANS", "1"),)
    (found,) = [f for f in explain([str(tmp_path)]).findings if f.id == "debug-settings"]
    assert (found.verdict, found.cost_ns_per_step) == ("found", None)
    assert "Unset JAX_DEBUG_NANS" in found.fix.text


def test_why_the_observer_stopped_is_told(tmp_path):
    process = write_run(tmp_path, steps(5, MS))
    said = {"level": "warning", "slug": "observer-stopped", "text": "it stopped"}
    (process / "messages.jsonl").write_text(json.dumps(said) + "\n")
    assert "it stopped" in explain([str(tmp_path)]).notes


def test_every_log_may_be_missing_or_damaged(tmp_path):
    process = write_run(tmp_path, steps(5, MS))
    for name in ("events", "levels", "counters", "messages"):
        (process / f"{name}.jsonl").write_bytes(b"\xff\xfe{\n[]\n")
    (process / "process.json").unlink()
    (process / "stacks.json").write_bytes(b"\xff")
    (process / "windows" / "000").rmdir()
    (process / "windows").rmdir()
    assert explain([str(tmp_path)]).steps.count == 5


def test_a_program_that_failed_before_its_first_step_is_told(tmp_path):
    write_run(tmp_path, [])
    run = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps({**run, "exit_code": 7}))
    with pytest.raises(NoTracesError, match=r"timed: exit code 7\. Fix what"):
        explain([str(tmp_path)])


def test_a_run_that_still_goes_on_is_not_said_to_train_with_nothing(tmp_path):
    write_run(tmp_path, [], exit_code=None)
    with pytest.raises(NoTracesError, match=r"has not ended, or was killed\. If it still runs"):
        explain([str(tmp_path)])


def test_a_loop_whose_steps_could_not_be_written_is_told(tmp_path):
    write_run(tmp_path, [])
    with pytest.raises(NoTracesError, match=r"disk may be full\. Free some space"):
        explain([str(tmp_path)])


@pytest.mark.parametrize(
    ("kind", "failed", "seen"),
    [("run", 1, "2 session runs"), ("call", 0, "2 calls of a compiled function")],
)
def test_too_few_runs_to_find_steps_in_are_told_with_their_number(tmp_path, kind, failed, seen):
    line = {"kind": kind, "signature": 0, "failed": failed}
    lines = [json.dumps({**line, "start_ns": n, "end_ns": n + 1}) for n in (1, 3)]
    write_run(tmp_path, lines)
    with pytest.raises(NoTracesError, match=f"{seen}. Let it train for 20 steps"):
        explain([str(tmp_path)])


def test_a_session_without_a_loop_is_told_what_its_run_took(tmp_path):
    runs = [(0, 0, 50 * MS, 0), (1, 60 * MS, 360 * MS, 0), (1, 400 * MS, 410 * MS, 1)]
    names = ("signature", "start_ns", "end_ns", "failed")
    lines = [json.dumps({"kind": "run", **dict(zip(names, r, strict=True))}) for r in runs]
    write_run(tmp_path, lines)
    result = explain([str(tmp_path)])
    assert result.verdict.sentence.startswith("Cannot tell: 1 run was timed, but none was traced: ")
    assert "FULL_TRACE" in result.verdict.sentence
    clock = result.wall_clock
    assert (clock.runs, clock.wall_ns, clock.busy_ns, clock.gap) == (1, 300 * MS, None, ())
    assert clock.sentence.startswith("One run, not a steady state: wall clock 300 ms.")
