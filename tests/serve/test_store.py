"""Summaries are kept between starts, and read again when that is not possible."""

import os
import sqlite3
import stat

import pytest

from stepwhy.apps.serve import index as indexes
from stepwhy.apps.serve import store as stores
from stepwhy.apps.serve.index import Index
from stepwhy.apps.serve.store import VERSION, Store, store_file
from stepwhy.apps.serve.summaries import Summary
from tests.serve.runs import write_run

ONE = {"a": ("mark", Summary("run", "explained", 1, program="train.py", categories={"sync": 2}))}
NONE = {"b\udcff": ("mark", None)}


def reopened(file):
    store = Store(file)
    try:
        return store.load()
    finally:
        store.close()


def kept(file, changed, gone=()):
    store = Store(file)
    store.save(changed, gone)
    store.close()


def test_summaries_are_kept(tmp_path):
    file = tmp_path / "index.sqlite"
    kept(file, ONE | NONE)
    assert reopened(file) == ONE | NONE
    kept(file, {}, gone=["a"])
    assert reopened(file) == NONE


@pytest.mark.parametrize(
    "content", [b"", b"no database" * 100, b"SQLite format 3\0" + b"\xff" * 4000]
)
def test_a_damaged_file_is_replaced(tmp_path, content):
    file = tmp_path / "index.sqlite"
    file.write_bytes(content)
    assert reopened(file) == {}
    kept(file, ONE)
    assert reopened(file) == ONE


def test_a_file_of_another_version_is_replaced(tmp_path):
    file = tmp_path / "index.sqlite"
    kept(file, ONE)
    with sqlite3.connect(file) as other:
        other.execute(f"pragma user_version = {VERSION + 1}")
    other.close()
    assert reopened(file) == {}
    kept(file, ONE)
    assert reopened(file) == ONE


@pytest.mark.parametrize("row", [(b"a", "mark", b"{}"), (b"a", "mark", 7), ("a", None, b"null")])
def test_damaged_rows_are_read_again(tmp_path, row):
    file = tmp_path / "index.sqlite"
    kept(file, ONE)
    with sqlite3.connect(file) as other:
        other.execute("insert or replace into summaries values (?, ?, ?)", row)
    other.close()
    assert set(reopened(file)) <= {"a"}
    kept(file, ONE)
    assert reopened(file) == ONE


def test_a_file_that_cannot_be_written_is_no_error(tmp_path):
    kept(tmp_path / "gone" / "index.sqlite", ONE)
    assert not (tmp_path / "gone").exists()


def test_the_file_lies_in_the_cache_of_the_user(tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setattr(stores, "user_cache", lambda: cache)
    file = store_file(tmp_path)
    assert file is not None
    assert file.parent == cache / "serve"
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert store_file(tmp_path / "other") != file
    (cache / "serve").chmod(0o777)
    assert store_file(tmp_path) is None


# --- the index ---


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_the_folder_is_looked_through_every_two_seconds(tmp_path):
    clock = Clock()
    index = Index(tmp_path, Store(None), clock)
    assert index.entries() == []
    write_run(tmp_path, "train-1")
    clock.now = 1.9
    assert index.entries() == []
    clock.now = 2.1
    assert [entry.path for entry in index.entries()] == ["train-1"]
    (tmp_path / "train-1" / "run.json").unlink()
    index.expire()
    assert [e.summary.kind for e in index.entries()] == ["result"]  # its result is still there


def test_unchanged_runs_are_read_once(tmp_path, monkeypatch):
    file = tmp_path / "index.sqlite"
    root = tmp_path / "runs"
    for number in range(3):
        write_run(root, f"train-{number}", day=number)
    first = Index(root, Store(file)).entries()
    os.utime(root / "train-1" / "result.json", ns=(5, 5))
    read = []
    summarise = indexes.summarise
    monkeypatch.setattr(indexes, "summarise", lambda r, f: read.append(f.path) or summarise(r, f))
    again = Index(root, Store(file)).entries()
    assert read == ["train-1"]
    assert again == first
    assert [entry.path for entry in first] == ["train-2", "train-1", "train-0"]


def test_the_version_grows_with_changes_only(tmp_path):
    index = Index(tmp_path, Store(None), clock := Clock())
    versions = []
    for step in range(5):
        clock.now = 10.0 * step
        if step == 2:
            write_run(tmp_path, "train-1")
        index.entries()
        versions.append(index.version)
    assert versions == [1, 1, 2, 2, 2]
