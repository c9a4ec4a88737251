"""`stepwhy lab grade --predict`, with a lab of its own and predictions from known inputs."""

from __future__ import annotations

import json
import sys

import pytest

from stepwhy.cli import lab_accuracy
from stepwhy.engine import explain
from stepwhy.engine.priced import Priced
from stepwhy.result import PricingInputs
from tests.cli.test_lab import folder, invoke
from tests.measure.results import MS

__all__ = ["folder"]
INPUTS = PricingInputs(20 * MS, 10 * MS, "removed", cores=2)


@pytest.fixture
def lab(folder, monkeypatch):
    def priced(names, diagnosis):
        assert diagnosis == "graph-growth"
        return explain(names), Priced("compile=gone", INPUTS)

    monkeypatch.setattr(lab_accuracy, "explain_priced", priced)
    monkeypatch.setattr(lab_accuracy, "lab_folder", lambda: folder.parents[1])
    monkeypatch.setattr(sys.modules["stepwhy.measure.sample"], "MOST_BACKGROUND_CORES", 99.0)
    return folder.parents[1]


def stored(lab):
    return json.loads((lab / "accuracy.json").read_text())["pairs"]


def test_predicted_and_measured_are_stored_and_shown(lab):
    outcome = invoke("grade", "--predict", "--repeats", 2, "--out", "o")
    assert outcome.exit_code == 0, outcome.output
    (pair,) = stored(lab)
    assert (pair["name"], pair["edit"], pair["size"]) == ("tf1/slow", "compile=gone", "small")
    assert pair["faulty_steps_ns"] == [20 * MS, 20 * MS]
    assert pair["fixed_steps_ns"] == [10 * MS, 10 * MS]
    assert pair["gain_low_ns"] < pair["gain_ns"] == 10 * MS < pair["gain_high_ns"]
    assert 0 < pair["fixed_reach_ns"] < MS
    # Half of the step disappears, of 0.55: the rest, (1 - 0.6 * 0.5 / 0.55) of it, and 1.1 of it
    # with 5 % of the cost.
    assert (pair["remaining_ns"], pair["naive_ns"]) == (10 * MS, 10 * MS)
    assert (pair["low_ns"], pair["high_ns"]) == (4_545_455, 11_500_000)
    assert pair["inputs"] == json.loads(json.dumps(pair["inputs"]))
    text = " ".join(outcome.stdout.split())
    assert "tf1/slow removed 23 % to 57 % 50 % 0 %" in text
    assert "1 of 1 intervals held the measured step" in text


def test_pairs_of_today_are_not_run_again(lab):
    invoke("grade", "--predict", "--repeats", 1, "--out", "o")
    first = stored(lab)
    assert invoke("grade", "--predict", "--repeats", 1, "--out", "p").exit_code == 0
    assert not (lab.parent / "p").exists()
    assert stored(lab) == first
    invoke("grade", "--predict", "--repeats", 1, "--out", "q", "--again")
    assert (lab.parent / "q").is_dir()


def test_a_program_that_fails_is_recorded_and_run_again(lab):
    program = lab / "tf1" / "slow" / "train.py"
    text = program.read_text()
    program.write_text("raise SystemExit(3)")
    outcome = invoke("grade", "slow", "--predict", "--repeats", 1, "--out", "o")
    assert "exit code 3" in " ".join(outcome.stdout.split())
    assert stored(lab)[0]["error"] == "faulty ended with exit code 3"
    program.write_text(text)
    invoke("grade", "slow", "--predict", "--repeats", 1, "--out", "p")
    assert stored(lab)[0]["error"] == ""


@pytest.mark.parametrize("also", [(), ("--predict", "--again")])
def test_recompute_runs_nothing(lab, also):
    invoke("grade", "--predict", "--repeats", 2, "--out", "o")
    place = lab / "accuracy.json"
    place.write_text(place.read_text().replace('"high_ns":11500000', '"high_ns":1'))
    outcome = invoke("grade", "--recompute", "--json", "--out", "p", *also)
    assert outcome.exit_code == 0, outcome.output
    assert not (lab.parent / "p").exists()
    assert stored(lab)[0]["high_ns"] == 11_500_000
    assert json.loads(outcome.stdout)["schema"] == "stepwhy.accuracy/1"


def test_a_clone_is_calibrated(lab):
    package = lab.parent / "src" / "stepwhy" / "predict"
    package.mkdir(parents=True)
    invoke("grade", "--predict", "--repeats", 2, "--out", "o")
    (fix,) = json.loads((package / "calibration.json").read_text())["fixes"]
    assert (fix["name"], fix["family"], fix["score"], fix["inside"]) == (
        "tf1/slow", "removed", 0.0, True,
    )  # fmt: skip
