"""The command `stepwhy lab`, with a lab of its own."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from stepwhy.cli import cli, lab_pairs
from stepwhy.diagnose import TABLE
from tests.cli.test_measuring import PROGRAM

PAIR = """
title = "A slow program"
diagnosis = "graph-growth"
faulty = ["train.py", "20"]
fixed = ["train.py", "10"]

[sizes]
small = []
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pair = tmp_path / "lab" / "tf1" / "slow"
    pair.mkdir(parents=True)
    (pair / "train.py").write_text(PROGRAM)
    (pair / "pair.toml").write_text(PAIR)
    monkeypatch.setattr(lab_pairs, "lab_folder", lambda: tmp_path / "lab")
    return pair


def invoke(*args):
    return CliRunner().invoke(cli, ["lab", *map(str, args)])


@pytest.mark.usefixtures("folder")
def test_list_names_the_pairs():
    outcome = invoke("list")
    assert outcome.exit_code == 0
    assert "tf1/slow" in outcome.stdout
    assert "graph-growth" in outcome.stdout


def test_the_planted_fault_may_have_a_former_id(folder):
    pair = folder / "pair.toml"
    pair.write_text(PAIR.replace("graph-growth", "missing-prefetch"))
    assert [pair.diagnosis for pair in lab_pairs.pairs()] == ["serial-input"]


def test_run_shows_the_gain_and_fails_if_the_fault_is_not_found(folder):
    outcome = invoke("run", "slow", "--allow-busy", "--repeats", 2, "--out", "o")
    assert outcome.exit_code == 1, outcome.output
    assert "graph-growth first in 0 of 2 faulty runs" in outcome.stdout.replace("\n", " ")
    stored = json.loads((folder.parents[2] / "o/lab.json").read_text())
    assert stored["measured_ns"] == 10_000_000
    assert stored["schema"] == "stepwhy.lab/2"
    assert not (folder.parents[1] / "results").exists()


def test_record_stores_the_result_in_the_lab(folder):
    invoke("run", "tf1/slow", "--allow-busy", "--repeats", 2, "--out", "o", "--record")
    assert (folder.parents[1] / "results" / "tf1-slow.json").is_file()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("words", "code"), [(["none"], 3), (["slow", "--size", "vast"], 2)])
def test_unknown_pairs_and_sizes_are_errors(words, code):
    assert invoke("run", *words, "--out", "o").exit_code == code


@pytest.mark.usefixtures("folder")
def test_a_misspelt_pair_is_told_which_was_meant():
    advice = "no pair is called slwo. Did you mean tf1/slow? 'stepwhy lab list' shows all pairs."
    assert advice in invoke("run", "slwo").stderr


def test_every_pair_has_an_existing_diagnosis():
    known = {name.replace("_", "-") for name in TABLE}
    found = lab_pairs.pairs()
    assert found
    for pair in found:
        assert pair.diagnosis in known
        assert "small" in pair.sizes
        for words in (pair.faulty, pair.fixed):
            assert (pair.folder / words[0]).is_file()


def test_grade_shows_each_pair_and_the_totals(folder):
    outcome = invoke("grade", "--out", "o", "--record")
    assert outcome.exit_code == 1, outcome.output  # the program has no growing graph
    text = " ".join(outcome.stdout.split())
    assert "tf1/slow graph-growth 0 of 1 0 of 1" in text
    assert "Found in 0 of 1 faulty runs of 1 pairs, as the first finding in 0; found by" in text
    stored = json.loads((folder.parents[1] / "grade.json").read_text())
    assert stored["schema"] == "stepwhy.grade/1"
    assert [pair["name"] for pair in stored["pairs"]] == ["tf1/slow"]
    assert json.loads((folder.parents[2] / "o/grade.json").read_text()) == stored


def test_a_program_that_fails_is_graded_as_not_run(folder):
    (folder / "train.py").write_text("raise SystemExit(3)")
    outcome = invoke("grade", "slow", "--out", "o")
    assert outcome.exit_code == 1
    assert "Not run: tf1/slow." in outcome.stdout
