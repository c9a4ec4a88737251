"""Waits until files are on disk, as events."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.watchers import disk_syncs
from stepwhy.record.watchers.disk_syncs import SyncLog, _observed

US = 1_000


@pytest.fixture
def log(tmp_path):
    recorder = Recorder(str(tmp_path), "pytorch", "2", "test")
    recorder.step("{}")
    yield SyncLog(recorder)
    recorder.close()


@pytest.fixture
def sync(log, monkeypatch):
    """A function that waits for the given time, and is logged."""
    now = 0

    def wait(time_ns):
        nonlocal now
        now += time_ns
        if not time_ns:
            raise OSError("the disk is full")
        return time_ns

    monkeypatch.setattr(disk_syncs, "now_ns", lambda: now)
    return _observed(wait, "os.fsync", log)


def events(tmp_path, log):
    log._recorder.close()
    (file,) = tmp_path.glob("process-*/events.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_waits_of_the_main_thread_are_logged_with_their_line(tmp_path, log, sync):
    assert sync(300 * US) == 300 * US
    sync(5 * US)
    thread = threading.Thread(target=sync, args=(300 * US,))
    thread.start()
    thread.join()
    with pytest.raises(OSError, match="full"):
        sync(0)
    (event,) = events(tmp_path, log)
    assert (event["kind"], event["name"]) == ("fsync", "os.fsync")
    assert (event["start_ns"], event["end_ns"]) == (0, 300 * US)


def test_the_number_of_logged_waits_is_limited(tmp_path, log, sync, monkeypatch):
    monkeypatch.setattr(disk_syncs, "_MOST_CALLS", 3)
    for _ in range(9):
        sync(300 * US)
    assert len(events(tmp_path, log)) == 3


def test_the_functions_of_the_module_stay_usable(tmp_path):
    code = (
        "import os, sys; from stepwhy.record.watchers.disk_syncs import observe_syncs\n"
        "observe_syncs(sys.argv[1])\n"
        "file = open(os.path.join(sys.argv[1], 'x'), 'w'); print(os.fsync.__name__)\n"
        "print(os.fsync(file.fileno()), os.fdatasync(file.fileno()))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, tmp_path],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
        timeout=240,
    )
    assert run.stdout.split() == ["fsync", "None", "None"]
