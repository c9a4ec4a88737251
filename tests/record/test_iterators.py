"""Iterators that are made although the previous one has batches left."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.watchers import iterators
from stepwhy.record.watchers.iterators import Iterators

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(str(tmp_path), "tensorflow", "2.0", "tf2-function")


def counts(recorder: Recorder, tmp_path: Path) -> list[int]:
    recorder.steps(['{"kind":"step","start_ns":1,"end_ns":2}'])
    path = tmp_path / f"process-{os.getpid()}" / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line)["count"] for line in lines]


def test_only_iterators_that_replace_an_unfinished_one_are_logged(
    recorder: Recorder, tmp_path: Path
) -> None:
    made = Iterators(recorder)
    for key in ("train", "train", "validation"):
        made.began(key, "Data", "train.py(7): main", 1, 2)
    made.ended("train")
    made.began("train", "Data", "train.py(7): main", 3, 4)
    assert counts(recorder, tmp_path) == [1]


def test_events_are_bounded(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iterators, "_MOST_EVENTS", 3)
    made = Iterators(recorder)
    for _ in range(9):
        made.began("train", "Data", "", 1, 2)
    assert counts(recorder, tmp_path) == [1, 2, 3]
    made.forget()
    assert not made.replaces("train")
