"""Malicious folders of `stepwhy bench`, and the page of a watched block."""

from __future__ import annotations

import json
import os
import threading

import pytest

from stepwhy.api.watching import PAGE, Watch
from stepwhy.base.errors import InputError, NotAFileError, TooLargeError
from stepwhy.base.redaction import Redactor
from stepwhy.cli import programs
from tests.inputs.hostile import KINDS, SECONDS
from tests.read.run_directory.test_run_directory import MS, steps, write_run


def source(name):
    return programs.source(name, Redactor())


@pytest.fixture
def bench(tmp_path):
    """A folder with one run, and a function that writes its list of runs."""
    folder = tmp_path / "bench"
    write_run(folder / "000", steps(10, MS))

    def write(*paths):
        runs = [{"path": str(path)} for path in paths]
        (folder / "bench.json").write_text(json.dumps({"measurement": {"runs": runs}}))
        return str(folder)

    return write


def test_the_runs_of_a_folder(bench, tmp_path):
    assert source(bench("000")).stored == (str(tmp_path / "bench" / "000"),)


@pytest.mark.parametrize("path", ["../private", "{}/private", "000/../../private", "link"])
def test_a_path_that_leads_out_of_the_folder_is_refused(bench, tmp_path, path):
    write_run(tmp_path / "private", steps(10, MS))
    (tmp_path / "bench" / "link").symlink_to("../private")
    with pytest.raises(NotAFileError, match=r"bench\.json names .*, which is outside of bench"):
        source(bench(path.format(tmp_path)))


@pytest.mark.parametrize("path", ["gone", "*", "0?0", "s3://bucket/run", ""])
def test_paths_are_not_globs_or_addresses(bench, tmp_path, path):
    folder = bench(path)
    if path:
        with pytest.raises(InputError, match=r"bench\.json is damaged"):
            source(folder)
    else:
        assert source(folder).stored == (str(tmp_path / "bench"),)


@pytest.mark.parametrize("kind", ["zero", "passwd"])
def test_a_list_of_runs_that_is_a_link_out_of_the_folder(tmp_path, kind):
    (tmp_path / "bench").mkdir()
    KINDS[kind](tmp_path / "bench" / "bench.json")
    if kind == "zero":  # not a file, so this is not a folder of `stepwhy bench`
        assert source(str(tmp_path / "bench")).stored == (str(tmp_path / "bench"),)
    else:
        with pytest.raises(NotAFileError, match=r"bench\.json is a link out of bench"):
            source(str(tmp_path / "bench"))


def test_a_list_of_runs_that_is_too_large(tmp_path):
    with (tmp_path / "bench.json").open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(TooLargeError, match=r"bench\.json holds 4096 GiB"):
        source(str(tmp_path))


@pytest.mark.parametrize("kind", ["pipe", "zero"])
def test_page_that_is_not_a_file_is_not_shown(tmp_path, monkeypatch, kind):
    KINDS[kind](tmp_path / PAGE)
    monkeypatch.setattr(Watch, "run_dir", tmp_path)
    shown = []
    reading = threading.Thread(target=lambda: shown.append(Watch(None, quiet=True)._repr_html_()))
    reading.daemon = True
    reading.start()
    reading.join(SECONDS)
    assert shown == ["<p>stepwhy: being watched</p>"]
    assert os.path.lexists(tmp_path / PAGE)
