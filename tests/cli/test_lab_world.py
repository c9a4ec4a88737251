"""`stepwhy lab grade --world`, and the declarations of the world's programs."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from stepwhy.cli import cli, lab_pairs, lab_world, programs
from stepwhy.diagnose import TABLE
from stepwhy.record import Launch
from tests.cli.test_measuring import PROGRAM

DECLARED = """
framework = "pytorch"
field = "text"
half = "tune"
mistake = "Each step sorts all words."
lines = ["slow.py:3-4"]
causes = ["python-overhead"]
"""
FRAMEWORKS = {"pytorch", "tf1", "tf2", "keras", "jax"}


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A lab with a slow program, which is three times as slow as its twin, and a healthy one."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "lab" / "world"
    slow, healthy = folder / "words", folder / "well"
    slow.mkdir(parents=True)
    healthy.mkdir()
    (slow / "slow.py").write_text(PROGRAM.replace("sys.argv[1]", "30"))
    (slow / "fixed.py").write_text(PROGRAM.replace("sys.argv[1]", "10"))
    (slow / "program.toml").write_text(DECLARED)
    (healthy / "healthy.py").write_text(PROGRAM.replace("sys.argv[1]", "10"))
    (healthy / "program.toml").write_text('framework = "jax"\nfield = "graphs"\nhalf = "locked"\n')
    for module in (lab_pairs, lab_world):
        monkeypatch.setattr(module, "lab_folder", lambda: tmp_path / "lab")
    return folder


def invoke(*args):
    return CliRunner().invoke(cli, ["lab", "grade", "--world", *map(str, args)])


def fail(*_):
    raise OverflowError("too large")


def names(path):
    return [program["name"] for program in json.loads(path.read_text())["programs"]]


def test_each_version_runs_once_and_each_half_has_its_totals(world):
    outcome = invoke("--out", "o")
    assert outcome.exit_code == 0, outcome.output
    text = " ".join(outcome.stdout.split())
    assert "The half for tuning: the cause first in 0 of 1 slow programs" in text
    assert "The locked half: the cause first in 0 of 0 slow programs" in text
    runs = world.parents[1] / "o"
    made = sorted(path.relative_to(runs).as_posix() for path in runs.glob("*/*/*"))
    assert made == ["well/healthy/000", "words/fixed/000", "words/slow/000"]
    assert names(runs / "world-grade.json") == ["well", "words"]
    assert not (world.parent / "world-grade.json").exists()


def test_recorded_grades_of_other_programs_stay(world):
    invoke("words", "--out", "one", "--record")
    invoke("--half", "locked", "--out", "two", "--record")
    assert names(world.parents[1] / "two/world-grade.json") == ["well"]
    assert names(world.parent / "world-grade.json") == ["well", "words"]


def test_a_version_that_fails_is_not_graded(world):
    (world / "words/slow.py").write_text("raise SystemExit(3)")
    outcome = invoke("words", "--json", "--out", "o")
    assert outcome.exit_code == 1
    (program,) = json.loads(outcome.stdout)["programs"]
    assert program["error"] == "slow ended with exit code 3"
    assert program["found"] is None
    assert program["alarms"] == []


@pytest.mark.usefixtures("world")
def test_a_report_that_fails_is_part_of_the_grade(monkeypatch):
    monkeypatch.setattr(lab_world, "_run", fail)
    outcome = invoke("well", "--json", "--out", "o")
    (program,) = json.loads(outcome.stdout)["programs"]
    assert program["error"] == "no report of healthy.py: OverflowError: too large"
    assert outcome.exit_code == 1


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(("code", "asked_s"), [(-15, 1.0), (-2, None)])
def test_a_signal_ends_the_grading_not_only_the_run(monkeypatch, code, asked_s):
    started = []

    def launch(command, run_dir, **_):
        started.append(command)
        return Launch(128 - code, run_dir, (), code, asked_s)

    monkeypatch.setattr(programs, "launch", launch)
    outcome = invoke("words", "well", "--out", "o")
    assert outcome.exit_code not in {0, 2}
    assert "Aborted" in outcome.output
    assert len(started) == 1


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["none"], 3, "no program of lab/world is called none"),
        (["well", "--half", "tune"], 3, "no program of lab/world is called well"),
        (["--predict"], 2, "--world runs each program once"),
        (["--repeats", "2"], 2, "--world runs each program once"),
    ],
)
def test_what_cannot_be_graded_is_an_error(words, code, said):
    outcome = invoke(*words, "--out", "o")
    assert outcome.exit_code == code
    assert said in " ".join(outcome.output.split())


def test_a_half_belongs_to_the_world():
    outcome = CliRunner().invoke(cli, ["lab", "grade", "--half", "tune"])
    assert outcome.exit_code == 2
    assert "--half needs --world." in outcome.output


def test_a_lab_without_the_world_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(lab_world, "lab_folder", lambda: tmp_path)
    assert invoke("--out", tmp_path / "o").exit_code == 3


@pytest.mark.parametrize("program", lab_world.world_programs(), ids=lambda program: program.name)
def test_every_declaration_is_complete_and_its_lines_exist(program):
    about = program.declared
    assert about.framework in FRAMEWORKS
    assert about.field
    assert about.half in {"tune", "locked"}
    assert {path.name for path in program.folder.glob("*.py")} >= set(program.versions)
    assert set(about.causes) <= {name.replace("_", "-") for name in TABLE}
    assert "hot-line" not in about.causes
    assert about.gain is None or 0 < about.gain < 1
    assert not about.source or about.source.startswith("https://")
    assert bool(about.lines) is bool(about.mistake)
    for file, _, span in (text.rpartition(":") for text in about.lines):
        texts = (program.folder / file).read_text().splitlines()
        assert all(texts[int(number) - 1].strip() for number in span.split("-")), file
    assert len(lab_world.truth_of(program).lines) >= len(about.lines)


def test_there_are_programs_of_both_halves_and_of_every_framework():
    every = [program.declared for program in lab_world.world_programs()]
    for half in ("tune", "locked"):
        assert {about.framework for about in every if about.half == half} == FRAMEWORKS
        assert sum(not about.mistake for about in every if about.half == half) >= 10


def test_a_line_stands_for_its_whole_statement(world):
    (world / "words/slow.py").write_text(
        "import os\nfor name in os.environ:\n    print(\n        name\n    )\n"
    )
    (program,) = lab_world.chosen_programs(["words"], None)
    assert lab_world.truth_of(program).lines == {("slow.py", number) for number in (3, 4, 5)}


def test_two_programs_in_one_folder_are_refused(world):
    (world / "words/healthy.py").write_text("pass")
    outcome = invoke("--out", "o")
    assert outcome.exit_code == 3
    assert "lab/world/words holds fixed.py, healthy.py, slow.py" in outcome.stderr
