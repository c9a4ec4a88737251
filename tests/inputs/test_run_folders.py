"""Malicious run directories."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from stepwhy.base.errors import NotAFileError
from stepwhy.engine import explain
from stepwhy.read.formats.run_directory.log_files import read_log
from stepwhy.read.inputs import folders
from stepwhy.read.inputs.folders import RunFolder
from tests.engine.test_explain import kineto
from tests.inputs.hostile import KINDS, explained
from tests.read.run_directory.test_run_directory import MS, steps, write_run

LOGS = ("counters.jsonl", "events.jsonl", "levels.jsonl", "loaders.jsonl")
RECORDS = ("messages.jsonl", "pipeline.json", "stacks.json", "steps-000000000000.jsonl")
IN_WINDOW = ("window.json", "graph.pb", "sources.json")


def run_of(folder):
    """A run directory without its optional files."""
    folder.mkdir()
    return write_run(folder, steps(10, MS, profiled=(4, 5)), window=kineto())


def test_other_kinds_of_files_are_left_out_and_reported(tmp_path):
    """Every optional file of a run, replaced by each kind of non-file."""
    for kind, make in KINDS.items():
        process = run_of(tmp_path / kind)
        for name in (*LOGS, *RECORDS):
            make(process / name)
        for name in IN_WINDOW:
            make(process / "windows" / "000" / name)
    answers = explained(*(tmp_path / kind for kind in KINDS))
    for answer in answers:
        notes = "\n".join(answer["notes"])
        assert [n for n in (*LOGS, *RECORDS) if f"In process-7, {n} is " not in notes] == []
        assert "In process-7/windows/000, window.json is " in notes
        assert answer["steps"]["count"] == 8


@pytest.mark.parametrize("name", ["process.json", "steps.jsonl", "windows/000/trace.json"])
def test_without_one_file_the_others_are_explained(tmp_path, name):
    for kind, make in KINDS.items():
        process = run_of(tmp_path / kind)
        (process / name).unlink()
        make(process / name)
    for answer in explained(*(tmp_path / kind for kind in KINDS)):
        assert name.rpartition("/")[2] in "\n".join(answer["notes"])
        assert answer["steps"]["count"] > 0


def test_run_file_must_not_be_a_link_to_another_run(tmp_path):
    run_of(tmp_path / "mine")
    run_of(tmp_path / "hers")
    (tmp_path / "mine" / "run.json").unlink()
    (tmp_path / "mine" / "run.json").symlink_to("../hers/run.json")
    with pytest.raises(NotAFileError, match=r"run\.json is a link out of mine"):
        explain([str(tmp_path / "mine")])


def test_messages_of_a_private_file_are_not_shown(tmp_path):
    process = run_of(tmp_path / "run")
    private = tmp_path / "chat.jsonl"
    private.write_text(json.dumps({"text": "my secret", "level": "warning"}) + "\n")
    (process / "messages.jsonl").symlink_to(private)
    assert "secret" not in str(explain([str(tmp_path / "run")]).notes)
    (process / "messages.jsonl").unlink()
    private.rename(process / "messages.jsonl")
    assert "my secret" in explain([str(tmp_path / "run")]).notes


@pytest.mark.parametrize("place", ["process-8", "process-7/windows/001"])
def test_folders_of_another_run_are_not_read_through_a_link(tmp_path, place):
    run_of(tmp_path / "mine")
    hers = run_of(tmp_path / "hers")
    (tmp_path / "mine" / place).symlink_to(hers if place == "process-8" else hers / "windows/000")
    result = explain([str(tmp_path / "mine")])
    name = place.rpartition("/")[2]
    assert [n for n in result.notes if f"{name} is a link to another folder" in n]
    assert len(result.inputs) == 1


def test_process_folder_reads_links_within_its_run(tmp_path):
    process = run_of(tmp_path / "run")
    (process / "steps.jsonl").rename(tmp_path / "run" / "kept.jsonl")
    (process / "steps.jsonl").symlink_to("../kept.jsonl")
    assert explain([str(process)]).steps.count == 8
    (tmp_path / "run" / "run.json").unlink()
    assert [n for n in explain([str(process)]).notes if "link out of process-7" in n]


def test_a_run_behind_a_link_is_read(tmp_path):
    run_of(tmp_path / "run")
    (tmp_path / "latest").symlink_to("run")
    assert explain([str(tmp_path / "latest")]).steps.count == 8


def test_run_of_links_reports_why_it_is_empty(tmp_path):
    run_of(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "process-7")
    (tmp_path / "run" / "process-7").symlink_to("/dev")
    (answer,) = explained(tmp_path / "run")
    assert answer["slug"] == "no-traces"
    assert "process-7 is a link to another folder" in answer["what"]


# --- Sizes ---


def test_files_of_a_log_are_bounded_together(tmp_path, monkeypatch):
    monkeypatch.setattr("stepwhy.read.formats.run_directory.log_files._MOST_BYTES", 10)
    (tmp_path / "steps-0.jsonl").write_bytes(b"0\n1\n")
    (tmp_path / "steps-2.jsonl").write_bytes(b"2\n3\n4\n")
    (tmp_path / "steps.jsonl").write_bytes(b"5\n6\n")
    folder = RunFolder(tmp_path)
    assert read_log(folder, "steps").lines == [b"0", b"1", b"5", b"6"]
    (text,) = folder.refused
    assert text.startswith("steps-2.jsonl holds 6 B; the limit for such files is 2 B")


def test_large_files_are_refused_without_reading_them(tmp_path):
    process = run_of(tmp_path / "run")
    for name in ("counters.jsonl", "stacks.json", "messages.jsonl"):
        with (process / name).open("wb") as file:
            file.truncate(1 << 42)
    (answer,) = explained(tmp_path / "run")
    notes = "\n".join(answer["notes"])
    assert notes.count("the limit for such files is") == 3
    assert "messages.jsonl holds 4096 GiB; the limit for such files is 16.0 MiB" in notes


def test_a_folder_with_very_many_files(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "MOST_ENTRIES", 50)
    process = run_of(tmp_path / "run")
    for number in range(60):
        (process / "windows" / f"{number + 1:03d}").mkdir()
    result = explain([str(tmp_path / "run")])
    assert [n for n in result.notes if "windows holds more than 50 files" in n]
    monkeypatch.setenv("STEPWHY_ANY_SIZE", "1")
    assert not [n for n in explain([str(tmp_path / "run")]).notes if "files" in n]


def test_notes_are_bounded(tmp_path):
    process = run_of(tmp_path / "run")
    for number in range(80):
        os.mkfifo(process / f"steps-{number:03d}.jsonl")
    notes = explain([str(tmp_path / "run")]).notes
    assert len([n for n in notes if "not a regular file" in n]) == 50
    assert [n for n in notes if n == "109 more notes are left out."]
