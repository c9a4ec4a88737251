"""The proof of harmlessness on tiny programs: it passes what is right, and sees what is not."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest

from tests.harm import execution
from tests.harm.__main__ import Subject, Trial, keep, main
from tests.harm.catalogue import programs
from tests.harm.execution import CONDITIONS, Condition, Ended, Reference, execute, steps_seen

_TRAINING = """
import os, sys, time
run_dir = os.environ.get("STEPWHY_RUN_DIR")
if run_dir:
    from stepwhy.record.core.recorder import Recorder
    recorder = Recorder(run_dir, "pytorch", "2.0", "torch-optimizer")
    for n in range(30):
        recorder.step(f'{{"kind":"step","start_ns":1{n}0,"end_ns":1{n}5,"profiled":0}}')
open("model.txt", "w").write("weights")
print("loss 0.25")
print("seconds", time.time())
"""


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    """Processes of these programs are seen at once, if they are there."""
    monkeypatch.setattr(execution, "_POLL_S", 0.05)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "programs").mkdir()
    return tmp_path / "programs"


def write(folder, text):
    (folder / "train.py").write_text(textwrap.dedent(text))


def results(folder, tmp_path, *more):
    code = main([str(folder), "--write", str(tmp_path / "results.json"), *more])
    return code, json.loads((tmp_path / "results.json").read_text())


def test_a_program_that_is_not_harmed_passes(folder, tmp_path, capsys):
    write(folder, _TRAINING)
    code, found = results(folder, tmp_path, "--condition", "undisturbed")
    (row,) = found["rows"]
    assert (row["passed"], row["same_output"], row["same_files"]) == (True, True, True)
    assert (row["exit_code"], row["processes_left"]) == (0, 0)
    assert code == 0
    assert found["versions"]["stepwhy"]
    assert "1 passed, 0 failed, 0 not tried" in capsys.readouterr().out


@pytest.mark.parametrize("condition", CONDITIONS[1:], ids=lambda condition: condition.name)
def test_a_condition_ends_as_without_stepwhy(folder, tmp_path, condition):
    # A program that waits gets the signal whenever it comes.
    write(folder, "import signal; signal.pause()" if condition.number else _TRAINING)
    subject = Subject(Trial(folder, sys.executable, tmp_path / "scratch"), *programs(folder))
    if condition.number:
        subject._reference = Reference(ended(), ended())
    row = subject.row(condition)
    if "not_tried" not in row:
        assert row["passed"], row
        if condition.state in {"full", "broken"} and condition.stream == 1:
            assert row["exit_code"] > 0  # it cannot print
        else:
            assert row["exit_code"] == -condition.number


@pytest.mark.parametrize(
    "harm",
    [
        "print('watched' if run_dir else 'alone')",
        "sys.exit(3 if run_dir else 0)",
        "open('model.txt', 'a').write('watched' if run_dir else '')",
        "run_dir and open('extra.txt', 'w').close()",
    ],
)
def test_a_difference_is_seen(folder, tmp_path, harm):
    write(folder, _TRAINING + harm)
    code, found = results(folder, tmp_path, "--condition", "undisturbed")
    assert code == 1
    assert not found["rows"][0]["passed"]


def test_a_program_that_ends_before_the_signal_proves_nothing(folder, tmp_path):
    write(folder, "")
    subject = Subject(Trial(folder, sys.executable, tmp_path / "scratch"), *programs(folder))
    subject._reference = Reference(ended(cpu_s=1e9), ended())
    row = subject.row(next(one for one in CONDITIONS if one.name == "SIGUSR1"))
    assert row["not_tried"] == "the program ended before the signal"


_SIGNALLED = next(one for one in CONDITIONS if one.name == "SIGUSR1")


@pytest.mark.parametrize(
    ("left_alone", "passed", "tries"),
    [([2], True, 1), ([0, 0, 3], True, 3), ([0, 0, 0, 0, 0], False, 5)],
)
def test_processes_that_stay_only_sometimes_are_compared_with_several_runs_alone(
    folder, tmp_path, left_alone, passed, tries
):
    write(folder, "")
    subject = Subject(Trial(folder, sys.executable, tmp_path), *programs(folder))
    subject._reference = Reference(ended(), ended())
    alone = iter(left_alone)

    def run(words, *_):
        left = 2 if "stepwhy" in words else next(alone)
        return replace(ended(), code=-10, left=left, is_signalled=True)

    subject._run = run
    row = subject.row(_SIGNALLED)
    assert (row["passed"], row.get("tries_alone", 1)) == (passed, tries)
    assert row["expected_processes_left"] == max(left_alone)


def test_a_process_that_stays_is_counted_and_ended(tmp_path):
    words = ["sh", "-c", "sleep 100 & exit 3"]
    ended = execute(words, tmp_path / "here", CONDITIONS[0], {}, leave_s=0.2)
    assert (ended.code, ended.left) == (3, 1)


@pytest.mark.parametrize("stream", [0, 2])
@pytest.mark.parametrize(("state", "target"), [("closed", "none"), ("full", "/dev/full")])
def test_a_stream_is_as_the_condition_says(tmp_path, stream, state, target):
    condition = Condition("", stream, state)
    words = ["sh", "-c", f"readlink /proc/$$/fd/{stream} || echo none"]
    assert execute(words, tmp_path / "here", condition, {}).output == [target]


def test_a_closed_standard_output_is_not_there(tmp_path):
    words = ["sh", "-c", "test ! -e /proc/$$/fd/1"]
    assert execute(words, tmp_path / "here", Condition("", 1, "closed"), {}).code == 0


def test_a_broken_standard_error_cannot_be_written(tmp_path):
    condition = next(one for one in CONDITIONS if one.name == "stderr broken")
    words = ["sh", "-c", "trap '' PIPE; echo text >&2 || exit 4"]
    assert execute(words, tmp_path / "here", condition, {}).code == 4


def test_a_program_that_fails_with_a_stream_must_fail_the_same_way(folder, tmp_path):
    write(folder, "import os; os.write(2, b'text')")
    code, found = results(folder, tmp_path, "--condition", "stderr full")
    (row,) = found["rows"]
    assert (row["expected_exit_code"], row["exit_code"], row["passed"]) == (1, 1, True)
    assert code == 0


def ended(output=(), files=None, cpu_s=0.0):
    return Ended(0, list(output), files or {}, 0, cpu_s, 0.0)


def test_what_changes_from_run_to_run_is_compared_without_its_numbers():
    reference = Reference(ended(["loss 1", "took 3 s"]), ended(["loss 1", "took 4 s"]))
    assert reference.same_output(ended(["loss 1", "took 5 s"]))
    assert not reference.same_output(ended(["loss 2", "took 5 s"]))
    assert not reference.same_output(ended(["loss 1", "lasted 5 s"]))
    assert not reference.same_output(ended(["loss 1"]))


def test_files_that_change_from_run_to_run_must_only_be_there():
    reference = Reference(ended(files={"a": "1", "b": "2"}), ended(files={"a": "1", "b": "3"}))
    assert reference.same_files(ended(files={"a": "1", "b": "4"}))
    assert not reference.same_files(ended(files={"a": "2", "b": "2"}))
    assert not reference.same_files(ended(files={"a": "1"}))


def test_steps_are_counted_by_process_and_function(tmp_path):
    for pid, lines in {
        1: [{"kind": "step"}] * 3,
        2: [{"kind": "call", "signature": s} for s in (1, 1, 2)],
    }.items():
        (tmp_path / f"process-{pid}").mkdir()
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"process-{pid}" / "steps.jsonl").write_text(text)
    assert steps_seen(tmp_path) == [2, 3]


def row(program, condition, **more):
    return {"program": program, "condition": condition, "passed": True, **more}


def test_results_of_other_programs_and_conditions_are_kept(tmp_path):
    path = tmp_path / "results.json"
    for new in (
        row("a", "SIGUSR1"),
        row("a", "undisturbed", seconds=1),
        row("b", "undisturbed"),
        row("a", "undisturbed", seconds=2),
    ):
        keep(path, sys.executable, new)
    rows = json.loads(path.read_text())["rows"]
    assert [(one["program"], one["condition"], one.get("seconds")) for one in rows] == [
        ("a", "undisturbed", 2),
        ("b", "undisturbed", None),
        ("a", "SIGUSR1", None),
    ]
    assert all(one["date"] and one["commit"] for one in rows)
    assert [one.name for one in tmp_path.iterdir()] == ["results.json"]


def test_a_row_that_was_not_tried_replaces_none_that_was(tmp_path):
    path = tmp_path / "results.json"
    for more in ({"not_tried": "too late"}, {"seconds": 1}, {"not_tried": "too late"}):
        keep(path, sys.executable, row("a", "SIGUSR1", **more))
    (kept,) = json.loads(path.read_text())["rows"]
    assert "not_tried" not in kept


def test_a_part_is_tried_in_the_order_of_its_names(folder, tmp_path, capsys):
    for name in ("first.py", "second.py", "third.py"):
        (folder / name).write_text("")
    part = ["--only", "third", "first", "--condition", "undisturbed", "stdin closed"]
    _, found = results(folder, tmp_path, *part)
    assert len(found["rows"]) == 4
    printed = [line.split()[0] for line in capsys.readouterr().out.splitlines()[:4]]
    assert printed == ["third.py", "third.py", "first.py", "first.py"]


def test_what_is_missing_is_tried_alone(folder, tmp_path, capsys):
    write(folder, "")
    results(folder, tmp_path, "--condition", "undisturbed")
    part = ["--missing", "--condition", "undisturbed", "disk full"]
    _, found = results(folder, tmp_path, *part)
    assert [one["condition"] for one in found["rows"]] == ["undisturbed", "disk full"]
    assert capsys.readouterr().out.count("train.py") == 2


def test_unknown_programs_are_tried_without_arguments(folder):
    write(folder, "")
    (folder / "amp.py").write_text("")
    assert [one.name for one in programs(folder)] == ["amp.py", "train.py"]
    assert programs(folder)[0].steps == 99
    assert programs(folder)[1].steps is None


def test_a_folder_without_programs_is_no_proof(folder):
    assert main([str(folder)]) == 1


def test_the_command_explains_itself():
    words = [sys.executable, "-m", "tests.harm", "--help"]
    assert (
        "FOLDER" in subprocess.run(words, capture_output=True, text=True, check=True).stdout.upper()
    )
