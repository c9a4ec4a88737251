"""Pauses of the garbage collector as events."""

from __future__ import annotations

import gc
import json

import pytest

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.watchers import garbage
from stepwhy.record.watchers.garbage import GarbageLog


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(garbage, "now_ns", clock)
    return clock


@pytest.fixture
def log(tmp_path):
    recorder = Recorder(str(tmp_path), "pytorch", "2", "test")
    recorder.step("{}")
    log = GarbageLog(recorder)
    log.ignore()  # only the test calls it
    yield log
    recorder.close()


def collect(log, clock, generation, duration_ns, collected=0):
    info = {"generation": generation, "collected": collected}
    log._called("start", info)
    clock.now += duration_ns
    log._called("stop", info)


def events(tmp_path):
    (file,) = tmp_path.glob("process-*/events.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_long_collections_of_older_generations(tmp_path, log, clock):
    collect(log, clock, 2, 30_000_000, collected=7)
    collect(log, clock, 2, 100_000)
    collect(log, clock, 0, 30_000_000)
    log._recorder.close()
    (event,) = events(tmp_path)
    assert (event["kind"], event["name"], event["count"]) == ("gc", "generation 2", 7)
    assert event["end_ns"] - event["start_ns"] == 30_000_000
    assert event["source"].endswith(": collect")


def test_python_calls_back_only_while_observed(log):
    assert log._called not in gc.callbacks
    log.listen()
    log.listen()
    assert gc.callbacks.count(log._called) == 1
    log.ignore()
    log.ignore()
    assert log._called not in gc.callbacks


def test_nothing_is_raised_into_the_training(log, clock, monkeypatch):
    monkeypatch.setattr(garbage, "line_of", lambda _: 1 / 0)
    collect(log, clock, 2, 30_000_000)
    assert not log._recorder.alive


def test_the_call_of_the_program_that_collects(tmp_path, log, monkeypatch):
    monkeypatch.setattr(garbage, "now_ns", iter(range(0, 10**12, 10**9)).__next__)
    log.listen()
    gc.collect()
    log.ignore()
    log._recorder.close()
    assert "gc.collect()" in {event["reason"] for event in events(tmp_path)}
