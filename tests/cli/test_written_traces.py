"""Trace files that an observed program wrote beside its run."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stepwhy.cli import explain_aside
from stepwhy.cli.written_traces import folders_of, written_traces
from stepwhy.read.inputs.reduced import MAGIC
from tests.read.run_directory.test_run_directory import steps, write_run
from tests.read.tf_samples import CPU, timeline

KINETO = {"schemaVersion": 1, "traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 90},
]}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with a run that began now."""
    monkeypatch.chdir(tmp_path)
    old = tmp_path / "old.json"
    old.write_text(json.dumps(KINETO))
    os.utime(old, (1, 1))
    run = tmp_path / "run"
    run.mkdir()
    about = {"schema": "stepwhy.run/1", "started_ns": time.time_ns() - 10**9}
    (run / "run.json").write_text(json.dumps(about))
    (run / "trace.json").write_text(json.dumps(KINETO))
    return tmp_path


def found(folder):
    paths = written_traces([folder], time.time_ns() - 10**9)
    return [path.relative_to(folder).as_posix() for path in paths]


def test_traces_of_any_framework_are_found_the_last_one_first(folder):
    deep = folder / "log" / "plugins" / "profile" / "now"
    deep.mkdir(parents=True)
    (folder / "timeline_01.json").write_bytes(timeline({CPU: [(0, "c", "MatMul", 0, 9)]}))
    (deep / "trace.json").write_text(json.dumps(KINETO))
    os.utime(deep / "trace.json", ns=(1, time.time_ns() + 10**9))
    (folder / "config.json").write_text('{"lr": 0.1}')
    (folder / "notes.txt").write_text(json.dumps(KINETO))
    assert found(folder) == ["log/plugins/profile/now/trace.json", "timeline_01.json"]


def test_the_chrome_trace_beside_a_profile_is_left_out(folder):
    (folder / "vm.trace.json").write_text(json.dumps(KINETO))
    assert found(folder) == ["vm.trace.json"]
    (folder / "vm.xplane.pb").write_bytes(b"")
    assert found(folder) == []


def test_a_program_without_a_loop_gets_the_report_of_the_trace_it_wrote(folder, capsys):
    (folder / "timeline_01.json").write_bytes(
        timeline({CPU: [(0, "_SOURCE", "NoOp", 0, 1), (0, "c", "MatMul", 2, 90)]})
    )
    explain_aside._print_report(folder / "run", is_silent=True)
    text = capsys.readouterr().err
    assert "the program wrote a trace: timeline_01.json. The report is of timeline_01" in text
    assert "This one run is bound by compute" in text
    assert "Again: stepwhy explain timeline_01.json" in text
    assert (folder / "run" / "report.html").is_file()


def test_a_program_that_wrote_none_gets_the_reason_alone(folder, capsys):
    explain_aside._print_report(folder / "run", is_silent=False)
    (line,) = capsys.readouterr().err.splitlines()
    assert "holds no observed training step" in line


def test_a_program_may_write_beside_its_script_or_where_its_command_says(folder, tmp_path_factory):
    scripts, logs = tmp_path_factory.mktemp("scripts"), tmp_path_factory.mktemp("logs")
    script = scripts / "train.py"
    script.write_text("")
    (folder / "below").mkdir()
    words = ["python", str(script), f"--log={logs}", "below", "/", "no/such", "x" * 5000, "a\0b"]
    assert folders_of(words) == [Path(), scripts, logs]
    (scripts / "one.json").write_text(json.dumps(KINETO))
    (logs / "two.json").write_text(json.dumps(KINETO))
    os.utime(logs / "two.json", ns=(1, time.time_ns() + 10**9))
    found = written_traces(folders_of(words), time.time_ns() - 10**9)
    assert found == [logs / "two.json", scripts / "one.json"]


def test_a_run_is_reduced_in_place(tmp_path):
    write_run(tmp_path, steps(30, 10_000_000))
    # In a process of its own: it resets how signals are handled.
    command = [sys.executable, "-m", "stepwhy.cli.explain_aside", str(tmp_path), "--reduce"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    assert ended.stderr == ""
    assert (tmp_path / "reduced.stepwhy-rank").read_bytes().startswith(MAGIC)


def test_the_report_is_of_a_trace_beside_the_script(folder, tmp_path_factory):
    scripts = tmp_path_factory.mktemp("scripts")
    (scripts / "timeline_01.json").write_bytes(timeline({CPU: [(0, "c", "MatMul", 2, 90)]}))
    # In a process of its own: it resets how signals are handled.
    words = [str(folder / "run"), "--", "python", str(scripts / "train.py")]
    command = [sys.executable, "-m", "stepwhy.cli.explain_aside", *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    assert f"the program wrote a trace: {scripts}/timeline_01.json" in ended.stderr
