"""The process of one call: its limits, and what it writes."""

import json
import os
import time

import pytest

from stepwhy.apps.agents.answers import Answer
from stepwhy.base.errors import TooLargeError
from stepwhy.cli import mcp_call, small_inputs


def test_a_small_file_has_the_limits_of_the_command_line(monkeypatch, tmp_path):
    monkeypatch.setattr(small_inputs, "_MOST_CPU_S", 0)
    monkeypatch.setattr(small_inputs, "_CHECK_INTERVAL_S", 0.001)
    path = tmp_path / "t.json"
    path.write_text("{}")

    def endless():
        end = time.process_time() + 20
        while time.process_time() < end:
            pass

    with pytest.raises(TooLargeError, match="small file"):
        mcp_call._limited([str(path)], endless)


def test_without_a_path_there_is_nothing_to_limit():
    assert mcp_call._limited([], lambda: Answer("", {})) == Answer("", {})


def test_progress_is_a_few_lines_per_second_of_visible_text(capfd):
    report = mcp_call._reporter()
    name = os.fsdecode(b"reading \xff\x1b\n")
    for done in range(100):
        report(name, done, 100)
    (line, *others) = capfd.readouterr().out.splitlines()
    assert json.loads(line) == {
        "type": "progress",
        "activity": r"reading \xff\x1b\n",
        "done": 0,
        "total": 100,
    }
    assert len(others) <= 1
