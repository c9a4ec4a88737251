"""The commands `stepwhy bench` and `stepwhy compare`.

The programs log steps of a known length through the recorder, so that they need no framework.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from unittest import mock

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from stepwhy.base.errors import CaptureError
from stepwhy.cli import cli, measuring
from stepwhy.cli.compare import exit_code
from stepwhy.measure import compare, sample
from tests.measure.results import MS, result, steady

STEPWHY = (sys.executable, "-m", "stepwhy")
PROGRAM = """
import os, sys
from stepwhy.record.core.recorder import Recorder
recorder = Recorder(os.environ["STEPWHY_RUN_DIR"], "pytorch", "2.0", "torch-optimizer")
step_ns = int(float(sys.argv[1]) * 1e6)
for n in range(30):
    start_ns = 10**18 + n * step_ns
    recorder.step(
        f'{{"kind":"step","start_ns":{start_ns},"end_ns":{start_ns + step_ns},"profiled":0}}'
    )
print("trained")
sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


def invoke(*args):
    return CliRunner().invoke(cli, [*map(str, args)])


def test_bench_shows_the_step_time_and_stores_the_runs(script):
    outcome = invoke("bench", "--allow-busy", "--repeats", 2, "--out", "o", "train.py", 10)
    assert outcome.exit_code == 0, outcome.output
    assert "A step takes 10.0 ms" in outcome.stdout
    assert "2 runs" in outcome.stdout
    assert (script.parent / "o/000/output.log").read_text() == "trained\n"
    stored = json.loads((script.parent / "o/bench.json").read_text())
    assert [run["median_ns"] for run in stored["measurement"]["runs"]] == [10 * MS, 10 * MS]


@pytest.mark.usefixtures("script")
def test_bench_prints_json():
    arguments = ("--allow-busy", "--repeats", 2, "--batch-size", 32, "--json", "train.py", 10)
    outcome = invoke("bench", "--out", "o", *arguments)
    printed = json.loads(outcome.stdout)
    assert printed["schema"] == "stepwhy.bench/1"
    assert printed["measurement"]["step_ns"] == 10 * MS
    assert "3200 examples/s" in printed["sentence"]


def test_compare_runs_alternate(script):
    outcome = invoke(
        "compare", "--allow-busy", "--repeats", 2, "--out", "o", "train.py 10", "train.py 12"
    )
    assert outcome.exit_code == 0, outcome.output
    assert "B is slower: it takes 20 % longer" in outcome.stdout
    assert sorted(p.name for p in (script.parent / "o/a").iterdir()) == ["000", "001"]
    assert json.loads((script.parent / "o/compare.json").read_text())["verdict"] == "slower"


@pytest.mark.usefixtures("script")
def test_runs_end_when_the_answer_is_clear():
    arguments = ("--allow-busy", "--budget", "50s", "--json", "--out", "o")
    outcome = invoke("compare", *arguments, "train.py 10", "train.py 20")
    printed = json.loads(outcome.stdout)
    assert printed["verdict"] == "slower"
    assert printed["low"] > 0


@pytest.mark.usefixtures("script")
def test_runs_end_with_the_budget():
    outcome = invoke("compare", "--allow-busy", "--budget", "0.1s", "train.py 10", "train.py 10")
    assert "one run each" in outcome.stdout
    assert "at least 2 pairs of runs" in outcome.stderr


@pytest.mark.usefixtures("script")
def test_too_few_repeats_are_said_before_the_runs():
    outcome = invoke("compare", "--allow-busy", "--repeats", 1, "train.py 10", "train.py 12")
    assert outcome.stderr.startswith("stepwhy: One run each gives no interval")


@pytest.mark.usefixtures("script")
def test_single_run_is_said_to_be_too_few_before_it():
    outcome = invoke("bench", "--allow-busy", "--repeats", 1, "train.py", 10)
    assert outcome.stderr.startswith("stepwhy: A single run does not show the variation")


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize("text", ["0s", "-3m", "soon", "3d", "nan"])
def test_budget_is_a_duration(text):
    outcome = invoke("bench", "--budget", text, "train.py", 10)
    assert outcome.exit_code == 2
    assert "not a duration" in outcome.stderr


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize(("allowed", "code"), [("5%", 1), ("30%", 0), ("3", 1)])
def test_large_slowdown_fails_a_build(allowed, code):
    arguments = ("--allow-busy", "--repeats", 4, "--fail-if-slower", allowed)
    outcome = invoke("compare", *arguments, "train.py 10", "train.py 12")
    assert outcome.exit_code == code, outcome.output


@pytest.mark.usefixtures("script")
def test_stored_measurements_are_compared_without_running():
    for name, step in (("a", 10), ("b", 20)):
        invoke("bench", "--allow-busy", "--repeats", 3, "--out", name, "train.py", step)
    outcome = invoke("compare", "--allow-busy", "a", "b")
    assert "2.0 times as long" in outcome.stdout
    assert "did not alternate" in outcome.stdout.replace("\n", " ")


@pytest.mark.usefixtures("script")
def test_stored_runs_that_differ_as_machines_drift_do_not_fail_a_build():
    for name, step in (("a", 10), ("b", 11)):
        invoke("bench", "--allow-busy", "--repeats", 3, "--out", name, "train.py", step)
    outcome = invoke("compare", "--allow-busy", "--fail-if-slower", "3%", "a", "b")
    assert outcome.stdout.lstrip().startswith("■ Cannot tell: B takes 10 % longer")
    assert outcome.exit_code == 7


@pytest.mark.usefixtures("script")
def test_single_runs_show_a_difference_but_do_not_fail_a_build():
    for name, step in (("a", 10), ("b", 20)):
        # `run` takes over its process, so it needs one of its own.
        words = [*STEPWHY, "run", "--quiet", "--out", name, "train.py", str(step)]
        subprocess.run(words, check=True, timeout=60)
    outcome = invoke("compare", "--json", "--allow-busy", "--fail-if-slower", "3%", "a", "b")
    printed = json.loads(outcome.stdout)
    assert printed["verdict"] == "slower"
    assert "drift of the machine is not excluded" in printed["sentence"]
    assert printed["change"] == pytest.approx(1.0)
    assert outcome.exit_code == 7


@pytest.mark.usefixtures("script")
def test_failing_program_is_an_error_with_its_output():
    outcome = invoke("bench", "--out", "o", "train.py", 10, 3)
    assert outcome.exit_code == 6
    assert "exit code 3" in outcome.stderr
    assert "output.log" in outcome.stderr


def test_a_program_without_steps_cannot_be_measured(script):
    script.write_text("print('no training')")
    outcome = invoke("bench", "--out", "o", "train.py")
    assert outcome.exit_code == 6
    assert "cannot be measured" in outcome.stderr


def test_two_commands_of_the_same_second_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(measuring, "datetime", mock.Mock(**{"now.return_value": datetime.now(UTC)}))
    folders = [measuring.run_folder(None, "compare") for _ in range(3)]
    assert [f.name.rpartition("compare")[2] for f in folders] == ["", "-2", "-3"]
    assert all(folder.is_dir() for folder in folders)


def test_a_folder_for_runs_below_a_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stepwhy-runs").touch()
    with pytest.raises(CaptureError, match="cannot be written"):
        measuring.run_folder(None, "compare")


def test_a_folder_that_is_not_empty_is_left_alone(script):
    outcome = invoke("bench", "--out", script.parent, "train.py", 10)
    assert outcome.exit_code == 5
    assert "not empty" in outcome.stderr


@pytest.mark.usefixtures("script")
def test_neither_program_nor_trace_is_an_error():
    outcome = invoke("compare", "nothing", "train.py 10")
    assert outcome.exit_code == 3
    assert "neither a script" in outcome.stderr


@pytest.mark.usefixtures("script")
def test_negative_margin_is_an_error():
    outcome = invoke("compare", "--margin", "-3%", "a", "b")
    assert outcome.exit_code == 2
    assert "not a percentage" in outcome.stderr


def compared(b_ms, **changes):
    a, b = (
        [sample(result(steady(int(ms * MS))), "r") for ms in steps]
        for steps in ([10, 10.02, 9.98, 10], b_ms)
    )
    return replace(compare(("a", "b"), a, b, margin=0.03), **changes)


@pytest.mark.parametrize(
    ("b_ms", "code"),
    [
        ([10, 10.02, 9.98, 10], 0),
        ([11, 11.02, 10.98, 11], 1),
        ([9, 9.01, 8.99, 9], 0),
        ([8, 12, 14, 8], 7),
    ],
)
def test_exit_codes_by_verdict(b_ms, code):
    assert exit_code(compared(b_ms), 0.03) == code


def test_void_comparison_never_passes():
    assert exit_code(compared([10, 10.02, 9.98], quiet=False), 0.03) == 7
