"""Folders and globs with malicious content."""

from __future__ import annotations

import glob
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.base.errors import NotAFileError, NoTracesError, TooLargeError
from stepwhy.engine import explain
from stepwhy.read.inputs import folders
from stepwhy.read.inputs.places import resolve
from stepwhy.read.inputs.search import matching
from tests.engine.test_explain import kineto
from tests.inputs.hostile import KINDS, explained
from tests.read.run_directory.test_run_directory import MS, steps, write_run


def trace_in(folder, name="trace.json"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(kineto())
    return folder


def circles(folder, count=4):
    """Links that form an endless tree with `count` branches per level."""
    folder.mkdir()
    for number in range(count):
        (folder / f"link{number}").symlink_to("..")


# --- Links ---


@pytest.mark.parametrize("name", ["run", "run/**/*.json", "**/trace.json", "r*/**", "run/**/**/*"])
def test_links_in_circles_are_not_followed(tmp_path, name):
    trace_in(tmp_path / "run")
    circles(tmp_path / "run" / "deep")
    (answer,) = explained(name, cwd=tmp_path)
    assert len(answer["inputs"]) == 1


def test_link_to_a_folder_is_followed_if_the_user_named_it(tmp_path):
    trace_in(tmp_path / "kept" / "run")
    (tmp_path / "latest").symlink_to("kept/run")
    for name in ("latest", "lat*", "lat*/*.json", "*/trace.json"):
        (place,) = resolve([str(tmp_path / name)])
        assert place.path.resolve() == tmp_path / "kept" / "run" / "trace.json"


def test_links_out_of_a_folder_are_left_out_and_reported(tmp_path):
    trace_in(tmp_path / "run")
    trace_in(tmp_path, "private.json")
    (tmp_path / "run" / "a.json").symlink_to("../private.json")
    result = explain([str(tmp_path / "run")])
    assert [Path(one.path).name for one in result.inputs] == ["trace.json"]
    assert "Left out: a.json is a link out of run." in result.notes
    (tmp_path / "run" / "trace.json").unlink()
    with pytest.raises(NotAFileError, match=r"a\.json is a link out of run\. Replace the link"):
        explain([str(tmp_path / "run")])
    assert explain([str(tmp_path / "run" / "a.json")]).inputs


def test_links_to_other_runs_are_left_out_and_reported(tmp_path):
    write_run(tmp_path / "private", steps(10, MS))
    for place in ("many/mine", "many/linked"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
    write_run(tmp_path / "many" / "mine", steps(10, MS))
    (tmp_path / "many" / "linked").symlink_to("../private")
    assert "Left out: linked is a link out of many." in explain([str(tmp_path / "many")]).notes


def test_empty_folder_does_not_hide_other_files(tmp_path):
    trace_in(tmp_path / "a")
    (tmp_path / "b").mkdir()
    assert len(resolve([str(tmp_path / "*")])) == 1
    with pytest.raises(NoTracesError, match="matches nothing but empty folders"):
        resolve([str(tmp_path / "b*")])


# --- What is no file ---


@pytest.mark.parametrize("pattern", ["", "*.json", "**/*.json"])
def test_non_files_are_left_out_and_reported(tmp_path, pattern):
    kinds = [kind for kind in KINDS if kind not in {"folder", "passwd"}]
    for kind in kinds:
        trace_in(tmp_path / kind)
        KINDS[kind](tmp_path / kind / "other.json")
    answers = explained(*(tmp_path / kind / pattern for kind in kinds))
    for answer in answers:
        (note,) = [note for note in answer["notes"] if note.startswith("Left out")]
        assert note.startswith("Left out: other.json is ")


@pytest.mark.parametrize("pattern", ["", "*.json"])
def test_a_folder_of_nothing_but_pipes(tmp_path, pattern):
    for number in range(3):
        os.mkfifo(tmp_path / f"{number}.json")
    (answer,) = explained(tmp_path / pattern)
    assert answer["slug"] == "no-traces"
    assert "0.json is not a regular file but a pipe" in answer["what"]


# --- Many files ---


@pytest.mark.parametrize("name", ["", "*", "**/*.pb", "**/trace.json"])
def test_very_many_files_are_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr(folders, "MOST_ENTRIES", 20)
    for number in range(30):
        (tmp_path / "run" / f"{number // 5}").mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / f"{number // 5}" / f"{number}.json").touch()
    with pytest.raises(TooLargeError, match=r"holds more than 20 files.*ANY_SIZE=1"):
        resolve([str(tmp_path / "run" / name)] if name != "*" else [str(tmp_path / "*")])
    monkeypatch.setenv("STEPWHY_ANY_SIZE", "1")
    assert len(resolve([str(tmp_path / "run")])) == 30


def test_the_limit_itself(tmp_path):
    """A real folder above the limit is refused before any file is opened."""
    for number in range(folders.MOST_ENTRIES // 1000 + 1):
        (tmp_path / f"{number}").mkdir()
    inside = tmp_path / "0"
    for number in range(1000):
        (inside / f"{number}.json").touch()
    assert len(resolve([str(tmp_path)])) == 1000


def test_more_traces_than_are_explained_together(tmp_path, monkeypatch):
    monkeypatch.setattr("stepwhy.read.inputs.places.MOST_TRACES", 2)
    for number in range(3):
        trace_in(tmp_path / "run", f"{number}.json")
    for name in ("run", "run/*.json"):
        with pytest.raises(TooLargeError, match=r"holds 3 traces; up to .* explained together"):
            resolve([str(tmp_path / name)])
    assert len(resolve([str(tmp_path / "run" / f"{n}.json") for n in range(3)])) == 3


def test_list_of_left_out_files_is_bounded(tmp_path):
    trace_in(tmp_path)
    for number in range(60):
        os.mkfifo(tmp_path / f"{number}.json")
    notes = explain([str(tmp_path)]).notes
    assert len([note for note in notes if note.startswith("Left out: ")]) == 51
    assert "Left out: 10 more." in notes


def test_folders_within_folders(tmp_path, request):
    """Deeper than the recursion limit of Python, which cannot remove them either."""
    request.addfinalizer(
        lambda: subprocess.run(["rm", "-rf", tmp_path / "d"], check=True, timeout=240)
    )
    place = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=place)
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    trace_in(tmp_path)
    for name in ("", "**/*.json"):
        (answer,) = explained(tmp_path / name)
        assert len(answer["inputs"]) == 1


# --- The same files as Python's own globs ---

PARTS = st.sampled_from(["*", "**", "?", "a", "b*", ".*", "[ab]", "*.json", "[c].json", "z"])


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    for name in ("a/c.json", "a/b/c.json", "a/b/.h/d.json", "b1/x.json", "c.json", ".a/b/c.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / "gone").symlink_to("nowhere")
    return folder


@settings(derandomize=True, max_examples=300)
@given(parts=st.lists(PARTS, min_size=1, max_size=4))
def test_globs_match_the_same_files_as_in_python(tree, parts):
    pattern = str(tree.joinpath(*parts))
    expected = {Path(found) for found in glob.glob(pattern, recursive=True)}  # noqa: PTH207
    assert set(matching(pattern)) == {path for path in expected if path.exists()}
