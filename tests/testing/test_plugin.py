"""The fixture `step_time`, in a pytest of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from stepwhy.base.errors import MeasurementError
from stepwhy.testing import StepTime, TooSlow, Unsure, checks
from stepwhy.testing.plugin import words_of
from tests.cli.test_measuring import PROGRAM

HEAD = """
import functools, pytest
from stepwhy.testing import TooSlow, Unsure
@pytest.fixture
def step_time(step_time):
    return functools.partial(step_time, repeats=3, allow_busy=True)
"""
# Logs steps of 10 ms, as a training of ten milliseconds per step would.
FUNCTION = """
import helper
def train():
    assert helper.is_there
    from stepwhy.record.core.recorder import Recorder
    import os
    recorder = Recorder(os.environ["STEPWHY_RUN_DIR"], "pytorch", "2.0", "torch-optimizer")
    for n in range(30):
        start_ns = 10**18 + n * 10**7
        recorder.step(
            f'{{"kind":"step","start_ns":{start_ns},"end_ns":{start_ns + 10**7},"profiled":0}}'
        )
"""


@pytest.fixture
def run_tests(tmp_path):
    """Runs a file of tests; returns its output, and the outcome of each test."""
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "helper.py").write_text("is_there = True\n")
    (tmp_path / "conftest.py").touch()

    def run(text, *options):
        (tmp_path / "test_steps.py").write_text(HEAD + text)
        words = [*("-m", "pytest", "-rA", "-p", "no:cacheprovider"), *options]
        done = subprocess.run(
            [sys.executable, *words, "-p", "stepwhy.testing.plugin"],
            env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240,
        )  # fmt: skip
        found = re.findall(r"^(PASSED|FAILED|XFAIL|ERROR) \S+::(\w+)", done.stdout, re.MULTILINE)
        return done.stdout + done.stderr, {name: outcome for outcome, name in found}

    return run


def test_limits_on_scripts(run_tests):
    output, outcomes = run_tests("""
def test_fast(step_time):
    assert step_time("train.py", 10).at_most_ms(12)

def test_slow(step_time):
    step_time("train.py", 10).at_most_ms(9)

def test_figures(step_time):
    measured = step_time("train.py", 10)
    assert measured.ms == 10
    assert measured.interval_ms == (10, 10)

def test_broken(step_time):
    step_time("train.py", 10, 3).at_most_ms(12)
""")
    assert outcomes == {
        "test_fast": "PASSED", "test_slow": "FAILED", "test_figures": "PASSED",
        "test_broken": "FAILED",
    }  # fmt: skip
    assert "TooSlow: A step may take 9 ms. A step takes 10.0 ms" in output
    assert "def at_most_ms" not in output
    assert (
        "MeasurementError: the step time was not measured: train ended with exit code 3" in output
    )


def test_functions_are_called_in_a_process_of_their_own(run_tests):
    output, outcomes = run_tests(
        FUNCTION
        + """
def test_function(step_time):
    assert step_time(train).at_most_ms(12)

def test_closure(step_time):
    with pytest.raises(TypeError, match="top of a module"):
        step_time(lambda: None)
"""
    )
    assert outcomes == {"test_function": "PASSED", "test_closure": "PASSED"}, output


def test_baselines(run_tests, tmp_path):
    words = ["bench", "--allow-busy", "--repeats", "3", "--out", "stored", "train.py", "10"]
    subprocess.run([sys.executable, "-m", "stepwhy", *words], cwd=tmp_path, check=True, timeout=240)
    output, outcomes = run_tests("""
def test_slower_program(step_time):
    step_time("train.py", 12).not_slower_than("train.py 10", by_percent=5)

def test_faster_program(step_time):
    assert step_time("train.py", 8).not_slower_than(["python", "train.py", "10"])

def test_slower_than_stored(step_time):
    with pytest.raises(TooSlow, match="2.0 times as long"):
        step_time("train.py", 20).not_slower_than("stored")

@pytest.mark.xfail(raises=Unsure, strict=True)
def test_unsure(step_time):
    step_time("train.py", 11).not_slower_than("stored")
""")
    assert outcomes == {
        "test_slower_program": "FAILED", "test_faster_program": "PASSED",
        "test_slower_than_stored": "PASSED", "test_unsure": "XFAIL",
    }  # fmt: skip
    assert "TooSlow: At most 5 % slower is allowed. B is slower: it takes 20 % longer" in output


def test_nothing_heavy_is_imported_when_pytest_starts(run_tests):
    output, outcomes = run_tests("""
import sys
def test_start(step_time):
    step_time("train.py", 10)
    heavy = {"numpy", "msgspec", "rich", "click", "torch", "tensorflow", "jax", "stepwhy.cli"}
    assert heavy & set(sys.modules) == set()
""")
    assert outcomes == {"test_start": "PASSED"}, output


# --- The checks, on results that are known ---


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Makes a step time of 9 to 11 ms."""

    def make(*, quiet=True, runs=3):
        step = {"step_ns": 10**7, "low_ns": 9 * 10**6, "high_ns": 11 * 10**6}
        step["runs"] = [{"void": ""}] * runs
        found = {"measurement": step, "quiet": quiet, "sentence": "S."}
        monkeypatch.setattr(checks, "_run", lambda *_: (found, 0))
        return StepTime(["train"], [], tmp_path)

    return make


@pytest.mark.parametrize(
    ("limit", "options", "error", "reason"),
    [
        (8, {}, TooSlow, "A step may take 8 ms"),
        (10, {}, Unsure, "10 ms is within the interval"),
        (20, {"quiet": False}, Unsure, "kept the machine busy"),
        (20, {"runs": 1}, Unsure, "a single run"),
    ],
)
def test_inconclusive_runs_fail_with_the_reason(measured, limit, options, error, reason):
    with pytest.raises(error, match=reason):
        measured(**options).at_most_ms(limit)


def test_load_that_was_not_recorded_is_no_reason(measured):
    assert measured(quiet=None).at_most_ms(11)


def test_output_that_is_no_result_is_an_error(tmp_path):
    with pytest.raises(MeasurementError, match="no-such-program"):
        StepTime(["no-such-program", "x"], [], tmp_path).at_most_ms(1)


def test_words_of_programs():
    assert words_of("train.py", [3]) == [sys.executable, "train.py", "3"]
    assert words_of("torchrun", ["train.py"]) == ["torchrun", "train.py"]
    with pytest.raises(TypeError):
        words_of(test_words_of_programs, ["argument"])
