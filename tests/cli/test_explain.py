"""The command `stepwhy explain`."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from stepwhy.cli import cli
from tests.engine.test_explain import kineto


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(kineto())
    return path


def invoke(*args):
    return CliRunner().invoke(cli, [str(a) for a in args])


def test_report(trace):
    outcome = invoke("explain", trace)
    assert outcome.exit_code == 0
    assert "■ Compute-bound\n  Host sync: 200 µs of every 1.00 ms (20 %)" in outcome.stdout
    assert "Where the step goes" in outcome.stdout


@pytest.mark.usefixtures("trace")
def test_different_runs_get_a_table_and_json_refuses_them(tmp_path):
    (tmp_path / "other.json").write_text(kineto())
    (tmp_path / "notes.json").write_text("{}")
    outcome = invoke("explain", tmp_path)
    assert outcome.exit_code == 0
    rows = [line.split() for line in outcome.stdout.splitlines()]
    expected = ["1.00", "ms", "compute", "Avoid", "waiting", "for", "the"]
    assert [row[:8] for row in rows[1:3]] == [["other.json", *expected], ["trace.json", *expected]]
    assert rows[3][:3] == ["notes.json", "not", "read"]
    refused = invoke("explain", tmp_path, "--json")
    assert refused.exit_code != 0
    assert "several-runs" in refused.output


def test_json_is_one_object(trace):
    outcome = invoke("explain", trace, "--json")
    result = json.loads(outcome.stdout)
    assert result["schema"] == "stepwhy.result/1"
    assert sum(result["breakdown"]["categories"].values()) == result["breakdown"]["wall_ns"]


def test_kineto_trace_is_explained_without_unneeded_imports(trace):
    """Each of these modules takes some 10 ms to import."""
    program = (
        "import os, sys; from stepwhy.cli import cli\n"
        "cli(['explain', '--json', sys.argv[1]], standalone_mode=False)\n"
        "print('OPENBLAS_NUM_THREADS' in os.environ, *sys.modules, file=sys.stderr)"
    )
    environ = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    command = [sys.executable, "-c", program, str(trace)]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environ, timeout=240
    )
    is_set, *loaded = ended.stderr.split()
    assert is_set == "False"
    assert {"stepwhy.read.formats.kineto.reader", "numpy"} <= set(loaded)
    others = {"numpy.ma", "rich", "jinja2", "pyarrow", "sqlite3", "google.protobuf", "fsspec"}
    assert not others & set(loaded)
    assert not {"glob", "gzip", "zipfile", "importlib.metadata", "asyncio"} & set(loaded)
    formats = {"rocprof", "megascan", "nsys", "nvprof", "xplane", "exported", "store"}
    assert not {f"stepwhy.read.formats.{name}.reader" for name in formats} & set(loaded)
    ours = {name for name in loaded if name.startswith("stepwhy.")}
    commands = {"stepwhy.cli"} | {
        f"stepwhy.cli.{name}" for name in ("explain", "numpy_import", "privacy", "small_inputs")
    }
    assert {n for n in ours if n.startswith("stepwhy.cli")} == commands | {"stepwhy.cli.progress"}
    assert {n for n in ours if n.startswith("stepwhy.show")} == {
        "stepwhy.show",
        "stepwhy.show.json",
    }
    rare = {
        "engine.profile",
        "importers.formats.run_directory.reader",
        "inputs.foreign.known",
        "inputs.remote.client",
        "inputs.remote.places",
        "inputs.zip_archives",
    }
    assert not {f"stepwhy.{name}" for name in rare} & ours


@pytest.mark.parametrize("option", [["--markdown"], ["--format", "markdown"]])
def test_markdown(trace, option):
    outcome = invoke("explain", trace, *option)
    assert outcome.exit_code == 0
    assert outcome.stdout.startswith("**Compute-bound**: Host sync")
    assert outcome.stdout.count("\n") <= 120


def test_all_in_markdown_lists_every_abstention(trace):
    brief = invoke("explain", trace, "--markdown").stdout
    full = invoke("explain", trace, "--markdown", "--all").stdout
    assert "more, which `--all` shows" in brief
    assert "more, which `--all` shows" not in full


def test_formats_are_the_short_options(trace):
    assert (
        invoke("explain", trace, "--format", "json").stdout
        == invoke("explain", trace, "--json").stdout
    )
    report = invoke("explain", trace).stdout
    assert invoke("explain", trace, "--format", "text").stdout == report


def test_no_line_of_the_program_is_no_problem(trace):
    nothing = invoke("explain", trace, "--format", "problems")
    assert nothing.exit_code == 0
    assert nothing.stdout == ""
    assert nothing.stderr == "No finding names a line of the program.\n"


@pytest.mark.parametrize(
    "options", [["--json", "--markdown"], ["--format", "text", "--json"], ["--format", "pdf"]]
)
def test_contradicting_formats_are_wrong_usage(trace, options):
    assert invoke("explain", trace, *options).exit_code == 2


@pytest.mark.usefixtures("trace")
def test_different_runs_are_no_markdown(tmp_path):
    (tmp_path / "other.json").write_text(kineto())
    assert "several-runs" in invoke("explain", tmp_path, "--markdown").output


def test_html_is_one_file(trace, tmp_path):
    page = tmp_path / "report.html"
    assert invoke("explain", trace, "--html", page).exit_code == 0
    assert page.read_text().startswith("<!doctype html>")


def test_html_that_cannot_be_written(trace, tmp_path):
    outcome = invoke("explain", trace, "--html", tmp_path / "no" / "report.html")
    assert outcome.exit_code == 4
    assert outcome.stderr.startswith("stepwhy: ")
    assert "[cannot-write]" in outcome.stderr


@pytest.mark.parametrize(
    ("name", "content", "slug"),
    [
        ("empty.json", b"", "input-empty"),
        ("text.txt", b"hello", "unknown-format"),
        ("db.sqlite", b"SQLite format 3\x00", "corrupt-input"),
        ("a.nsys-rep", b"NVIDIA Tegra Profiler Report 1.\n", "unsupported-format"),
        ("torn.json.gz", b"\x1f\x8b\x08\x00", "corrupt-input"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_3(tmp_path, name, content, slug):
    path = tmp_path / name
    path.write_bytes(content)
    outcome = invoke("explain", path)
    assert outcome.exit_code == 3
    assert outcome.stderr.count("\n") == 1
    assert f"[{slug}]" in outcome.stderr
    assert outcome.stdout == ""


def test_unknown_option_is_exit_code_2(trace):
    assert invoke("explain", trace, "--nonsense").exit_code == 2
