"""The formats of `stepwhy compare`, on stored measurements and on programs that break."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from stepwhy.cli import cli
from tests.cli.test_measuring import PROGRAM


def invoke(*args):
    return CliRunner().invoke(cli, [*map(str, args)])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a program, and with measurements of it at 10 and 20 ms."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    for name, step in (("a", 10), ("b", 20)):
        arguments = ("--allow-busy", "--repeats", 2, "--out", name, "train.py", step)
        assert invoke("bench", *arguments).exit_code == 0
    return tmp_path


def parsed(path):
    return ET.parse(path)  # noqa: S314 - our own file


def compare(*args):
    return invoke("compare", "--allow-busy", *args, "a", "b")


def test_one_comparison_in_several_formats(folder):
    files = [("github", "s.md"), ("junit", "j.xml"), ("bmf", "b.json"), ("json", "c.json")]
    words = [word for form, name in files for word in ("--format", form, "--output", name)]
    outcome = compare(*words, "--name", "ResNet")
    assert outcome.exit_code == 0, outcome.output
    assert "2.0 times as long" in outcome.stdout
    assert (folder / "s.md").read_text().startswith("<!-- stepwhy-compare: resnet -->\n")
    assert parsed(folder / "j.xml").find(".//testcase").get("name") == "ResNet"
    assert json.loads((folder / "b.json").read_text())["ResNet"]["latency"]["value"] == 20_000_000
    assert json.loads((folder / "c.json").read_text())["schema"] == "stepwhy.compare/1"


@pytest.mark.usefixtures("folder")
def test_json_is_a_format():
    assert compare("--json").stdout == compare("--format", "json").stdout


def test_text_in_a_file_has_no_colours(folder):
    compare("--format", "text", "--output", "report.txt")
    text = (folder / "report.txt").read_text()
    assert "2.0 times as long" in text
    assert "\x1b" not in text


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--output", "x"], "Each --output needs a --format"),
        (["--format", "junit", "--format", "bmf"], "Only one format can be printed"),
        (["--format", "junit", "--json"], "Only one format can be printed"),
        (["--format=bmf", "--format=junit", "--output=x", "--output=x"], "the same file"),
    ],
)
def test_formats_and_files_that_do_not_fit(options, said):
    outcome = compare(*options)
    assert outcome.exit_code == 2
    assert said in outcome.stderr


@pytest.mark.usefixtures("folder")
def test_file_that_cannot_be_written_is_a_typed_error():
    outcome = compare("--format", "junit", "--output", "missing/x.xml")
    assert outcome.exit_code == 4
    assert "cannot-write" in outcome.stderr


def test_a_program_that_broke_is_reported_and_keeps_its_exit_code(folder):
    words = ["--format", "junit", "--output", "j.xml", "--format", "github", "--output", "s.md"]
    outcome = invoke("compare", *words, "--fail-if-slower", "3%", "train.py 10", "train.py 10 3")
    assert outcome.exit_code == 6
    assert parsed(folder / "j.xml").find(".//error").get("type") == "cannot-measure"
    assert "not measured" in (folder / "s.md").read_text()


def test_unlike_environments_are_no_regression(folder):
    assert compare("--fail-if-slower", "3%").exit_code == 1
    for path in (folder / "b").glob("0*/run.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"cpu": "Another processor"}))
    outcome = compare("--fail-if-slower", "3%", "--format", "github", "--format", "json",
                      "--output", "s.md")  # fmt: skip
    assert outcome.exit_code == 7
    printed = json.loads(outcome.stdout)
    assert printed["comparable"] is False
    assert printed["b"]["machines"][0]["cpu"] == "Another processor"
    assert "Another processor in B" in printed["notes"][0]
    assert "the environments of the runs differ" in (folder / "s.md").read_text()


def test_bench_stores_the_environment(folder):
    (machine,) = json.loads((folder / "a/bench.json").read_text())["measurement"]["machines"]
    assert machine["framework"] == "pytorch 2.0"
    assert machine["cpu"]
    assert machine["python"].startswith("3.")
