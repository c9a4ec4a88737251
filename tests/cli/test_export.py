"""The command `stepwhy export`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from stepwhy.cli import cli
from stepwhy.cli.export import _OPENED_BY
from stepwhy.show.export import EXPLAINED_WRITERS, WRITERS
from tests.kineto_samples import SECRETS, sample


@pytest.fixture
def trace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run.pt.trace.json"
    path.write_bytes(sample("2024 fractional"))
    return path


def invoke(*args):
    outcome = CliRunner().invoke(cli, [str(a) for a in args])
    assert outcome.exit_code == 0, outcome.output
    return outcome


def explained(path):
    result = json.loads(invoke("explain", path, "--json").stdout)
    del result["inputs"][0]["path"]
    return result


@pytest.mark.parametrize("form", ["chrome-trace", "perfetto", "stepwhy"])
def test_export_is_explained_like_its_source(trace, tmp_path, form):
    out = tmp_path / "out.json.gz"
    invoke("export", trace, "--to", form, "--out", out)
    assert explained(out) == explained(trace)


def test_the_file_is_named_after_its_source(trace, tmp_path):
    outcome = invoke("export", trace)
    assert outcome.stderr.splitlines() == [
        "Exported: run.trace.json.gz",
        "Open it at https://ui.perfetto.dev or in chrome://tracing.",
    ]
    assert (tmp_path / "run.trace.json.gz").is_file()
    assert not list(tmp_path.glob("*.part"))


def test_nothing_private_is_exported(trace, tmp_path):
    invoke("export", trace, "--out", "x.json")
    text = (tmp_path / "x.json").read_text()
    assert [secret for secret in SECRETS if secret in text] == []


def test_source_is_not_overwritten(trace):
    before = trace.read_bytes()
    outcome = CliRunner().invoke(cli, ["export", str(trace), "--out", str(trace)])
    assert outcome.exit_code == 4
    assert "is the input of the export" in outcome.stderr
    assert trace.read_bytes() == before


def test_an_existing_file_is_only_replaced_on_request(trace, tmp_path):
    out = tmp_path / "kept.json"
    out.write_text("kept")
    outcome = CliRunner().invoke(cli, ["export", str(trace), "--out", str(out)])
    assert outcome.exit_code == 4
    assert "kept.json exists. Name another file with --out, or add --overwrite." in outcome.stderr
    assert out.read_text() == "kept"
    invoke("export", trace, "--out", out, "--overwrite")
    assert explained(out) == explained(trace)


def test_streams_are_written_to_and_links_are_only_replaced_on_request(trace, tmp_path):
    invoke("export", trace, "--out", "/dev/null")
    (tmp_path / "link.json").symlink_to("nowhere.json")
    outcome = CliRunner().invoke(cli, ["export", str(trace), "--out", "link.json"])
    assert outcome.exit_code == 4
    assert (tmp_path / "link.json").is_symlink()


@pytest.mark.parametrize("form", WRITERS | EXPLAINED_WRITERS)
def test_it_is_said_what_opens_the_output(form):
    opener = _OPENED_BY[form].format("'a b'")
    assert opener.endswith((".", "'a b'", "'a b'/slices.parquet."))
