"""The command `stepwhy try`, with programs that log steps of a known length."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from click.testing import CliRunner

from stepwhy.base.errors import EditError
from stepwhy.cli import cli, trial_choice
from stepwhy.measure.fixes import fix_named
from stepwhy.result import Finding, Trial, TriedFix, parse_edit
from stepwhy.show.console import Console
from stepwhy.show.terminal.trial import render_trial
from tests.cli.test_measuring import PROGRAM

MS = 1_000_000
# The fix of the program is an environment variable, which makes its steps half as long.
FIXED = PROGRAM.replace(
    "step_ns = int(float(sys.argv[1]) * 1e6)",
    'step_ns = int(float(sys.argv[1]) * 1e6) // (2 if "OMP_NUM_THREADS" in os.environ else 1)',
)


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    path = tmp_path / "train.py"
    path.write_text(FIXED)
    return path


def invoke(*args):
    return CliRunner().invoke(cli, ["try", *map(str, args)])


def test_a_fix_is_tried_and_reported(script):
    outcome = invoke("--fix", "thread-variables=1", "--budget", 1, "--out", "o", "train.py", 10)
    assert outcome.exit_code == 0, outcome.output
    assert "train is run several times" in outcome.stderr
    assert "gains 50 % of the step: 5.00 ms instead of 10.0 ms" in outcome.stdout
    stored = json.loads((script.parent / "o/trial.json").read_text())
    assert stored["verdict"] == "gain"
    assert stored["gain_ns"] == 5 * MS
    assert stored["changed"][0] == "OMP_NUM_THREADS=1"
    assert [run["fix"] for run in stored["runs"]][:3] == ["off", "on", "on"]


@pytest.mark.usefixtures("script")
def test_a_run_directory_is_run_again():
    first = invoke("--fix", "thread-variables=1", "--budget", 1, "--out", "o", "train.py", 10)
    assert first.exit_code == 0
    again = invoke("--fix", "thread-variables=1", "--budget", 1, "--out", "p", "--json", "o/000")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["gain_ns"] == 5 * MS
    assert json.loads(again.stdout)["schema"] == "stepwhy.trial/1"


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["train.py", "10"], 8, "nothing was found in this run"),
        (["train.py", "gc-pause", "10"], 8, "gc-pause was not found in this run"),
        (["--fix", "data-cache", "train.py", "10"], 8, "is for tensorflow, and this is pytorch"),
        (["--fix", "gc-rarely", "--budget", "1", "train.py", "10"], 8, "no step was seen of a"),
        (["--fix", "gc-rarely=3", "train.py", "10"], 8, "has no argument"),
        (["--fix", "loader-workers=four", "train.py"], 8, "'four' is no argument of"),
        (["--fix", "no-such", "train.py", "10"], 8, "there is no fix"),
        (["--fix", "jax-jit", "train.py", "10"], 8, "needs an argument"),
        (["--edit", "kernels=2x", "train.py", "10"], 8, "no fix makes kernels=2x real"),
        (["--edit", "nothing", "train.py", "10"], 8, "is not an edit"),
        (["train.py", "10", "3"], 6, "without the fix, the program ended with exit code 3"),
        ([], 2, "Missing argument"),
    ],
)
def test_refusals_say_why(words, code, text):
    outcome = invoke("--out", "o", *words)
    assert outcome.exit_code == code, outcome.output
    assert text in " ".join(outcome.output.split())


def test_a_fix_that_does_not_exist_is_refused_before_anything_is_written(script):
    outcome = invoke("--fix", "no-such", "--out", "o", "train.py", "10")
    advice = "'stepwhy try --list' shows what can be tried. [cannot-edit]\n"
    assert outcome.stderr == f"stepwhy: there is no fix 'no-such'. {advice}"
    assert not (script.parent / "o").exists()


def test_a_program_that_fails_with_the_fix_is_refused(script):
    script.write_text(FIXED + '\nif "OMP_NUM_THREADS" in os.environ: sys.exit("no threads")')
    script.write_text(script.read_text().replace("sys.exit(int", "0 if 0 else (int"))
    outcome = invoke("--fix", "thread-variables=1", "--out", "o", "train.py", 10)
    assert outcome.exit_code == 8, outcome.output
    assert "with the fix, the program ended with exit code 1 (no threads)" in " ".join(
        outcome.stdout.split()
    )


def test_secrets_in_the_last_line_of_a_program_are_hidden(script):
    script.write_text("import sys\nsys.exit('no access with api_key=sk-0123456789abcdefXYZ')")
    for form in ("", "--json"):
        words = [form] if form else []
        outcome = invoke("--fix", "thread-variables=1", "--out", f"o{form}", *words, "train.py")
        assert "no access with" in " ".join(outcome.output.split())
        assert "sk-0123456789abcdefXYZ" not in outcome.output


@pytest.mark.parametrize(
    ("value", "edit", "is_predicted"),
    [("7", "input=workers:7", True), ("1", "input=workers:7", False), ("7", None, False)],
)
def test_a_prediction_is_of_the_fix_that_is_tried(value, edit, is_predicted):
    finding = Finding("serial-input", "found", "", edit=edit and parse_edit(edit))
    chosen = trial_choice._Chosen(fix_named("loader-workers"), value, finding)
    assert chosen.predicted is (finding if is_predicted else None)


@pytest.mark.usefixtures("script")
def test_what_follows_a_run_directory_is_a_finding():
    assert invoke("--fix", "thread-variables=1", "--budget", 1, "--out", "o", "train.py", 10)
    for name in ("serial_input", "missing-prefetch"):  # the second is a former id
        assert trial_choice.target(["o/000", name], is_command=False)[1] == "serial-input"
    with pytest.raises(EditError, match="no finding 'serial-inptu'") as raised:
        trial_choice.target(["o/000", "serial-inptu"], is_command=False)
    assert "Did you mean serial-input?" in raised.value.todo


def test_the_target_is_a_script_or_a_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").touch()
    command, diagnosis = trial_choice.target(["a.py", "--x", "gc-pause"], is_command=False)
    assert (command[1:], diagnosis) == (["a.py", "--x", "gc-pause"], "")
    command, diagnosis = trial_choice.target(["a.py", "gc-pause", "1"], is_command=False)
    assert (command[1:], diagnosis) == (["a.py", "1"], "gc-pause")
    assert trial_choice.target(["torchrun", "gc-pause"], is_command=True) == (
        ["torchrun", "gc-pause"],
        "",
    )


def test_all_fixes_are_listed():
    outcome = invoke("--list")
    assert outcome.exit_code == 0
    assert "loader-workers" in outcome.stdout
    assert max(map(len, outcome.stdout.splitlines())) <= 80


def test_the_report_prints_every_number_in_80_columns():
    result = Trial(
        "python train.py", TriedFix("loader-workers", "give each DataLoader workers"), "gain",
        "loader-workers gains 28 % of the step: 31.6 ms instead of 44.0 ms.",
        step_ns=44 * MS, fixed_ns=31_600_000, gain_ns=12_400_000, low_ns=8_100_000,
        high_ns=16 * MS, predicted_low_ns=10 * MS, predicted_high_ns=15 * MS, method="runs",
        pairs=4, changed=("DataLoader: num_workers 0 -> 1, persistent_workers",), losses="agree",
    )  # fmt: skip
    file = StringIO()
    render_trial(result, Console(file=file, width=200))
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "  measured   12.4 ms (8.10 ms to 16.0 ms) of 44.0 ms" in lines
    assert "  predicted  10.0 ms to 15.0 ms" in lines
